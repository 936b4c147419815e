#include "emulator/driver/cubin_cache.h"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include <unistd.h>
#include <xxhash.h>

#include "emulator/driver/user_cache.h"

namespace trek::driver {
namespace {

namespace fs = std::filesystem;

constexpr auto kKept = std::chrono::hours(24 * 30);

// Empty: nowhere.
fs::path folder() {
  if (const char* named = std::getenv("TREK_CUBIN_CACHE")) return named;
  const fs::path cache = user_cache();
  return cache.empty() ? cache : cache / "cubins";
}

void remove_old(const fs::path& from) {
  const auto oldest = fs::file_time_type::clock::now() - kKept;
  std::error_code error;
  for (fs::directory_iterator at(from, error), end; !error && at != end; at.increment(error)) {
    std::error_code of_entry;
    const auto written = at->last_write_time(of_entry);
    if (!of_entry && written < oldest && at->is_regular_file(of_entry))
      fs::remove(at->path(), of_entry);
  }
}

// What a file ends with: the driver is given no cubin that was cut or changed.
std::string checksum_of(std::string_view cubin) {
  const uint64_t hash = XXH3_64bits(cubin.data(), cubin.size());
  std::string bytes(sizeof hash, '\0');
  std::memcpy(bytes.data(), &hash, sizeof hash);
  return bytes;
}

// The whole of a file; empty where it cannot be read.
std::string bytes_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  const auto size = fs::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return {};
  std::string bytes(size, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  return file ? bytes : std::string();
}

}  // namespace

std::optional<std::string> find_cubin(const std::string& key) {
  const fs::path in = folder();
  if (in.empty()) return std::nullopt;
  const fs::path path = in / (key + ".cubin");
  std::string cubin = bytes_of(path);
  if (cubin.size() <= sizeof(uint64_t)) return std::nullopt;
  const std::string checksum = cubin.substr(cubin.size() - sizeof(uint64_t));
  cubin.resize(cubin.size() - sizeof(uint64_t));
  if (checksum != checksum_of(cubin)) return std::nullopt;
  std::error_code error;  // used now: it stays
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);
  return cubin;
}

void keep_cubin(const std::string& key, const std::string& cubin) {
  const fs::path in = folder();
  std::error_code error;
  if (in.empty() || (fs::create_directories(in, error), error)) return;
  remove_old(in);
  // Whoever finds it finds all of it.
  const fs::path part = in / (key + "." + std::to_string(getpid()));
  {
    std::ofstream file(part, std::ios::binary);
    file << cubin << checksum_of(cubin);
    if (!file.flush()) {
      fs::remove(part, error);
      return;
    }
  }
  fs::rename(part, in / (key + ".cubin"), error);
  if (error) fs::remove(part, error);
}

}  // namespace trek::driver
