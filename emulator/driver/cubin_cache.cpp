#include "emulator/driver/cubin_cache.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <unistd.h>

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
  for (const fs::directory_entry& entry : fs::directory_iterator(from, error)) {
    std::error_code of_entry;
    const auto written = entry.last_write_time(of_entry);
    if (!of_entry && written < oldest && entry.is_regular_file(of_entry))
      fs::remove(entry.path(), of_entry);
  }
}

}  // namespace

std::optional<std::string> find_cubin(const std::string& key) {
  const fs::path in = folder();
  if (in.empty()) return std::nullopt;
  const fs::path path = in / (key + ".cubin");
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string cubin((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad() || cubin.empty()) return std::nullopt;
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
    file.write(cubin.data(), static_cast<std::streamsize>(cubin.size()));
    if (!file.flush()) {
      fs::remove(part, error);
      return;
    }
  }
  fs::rename(part, in / (key + ".cubin"), error);
  if (error) fs::remove(part, error);
}

}  // namespace trek::driver
