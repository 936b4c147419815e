// Whole files in and out.
//
// Reading: a regular file has a size and is read in one piece; anything else (a pipe, a device) is read
// to its end, but no further than a limit, so that /dev/zero is an error and not the end of memory.
// Writing: new_file.h.
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "assembler/data/new_file.h"
#include "assembler/data/parts.h"

namespace trek {
namespace {

using isa::ErrorCode;

constexpr size_t kUnsizedLimit = size_t{1} << 30;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }

 private:
  int number_;
};

isa::Problem unreadable(const std::filesystem::path& path, std::string_view why) {
  return data::problem(ErrorCode::FileUnreadable,
                       fmt::format("cannot read '{}': {}", path.string(), why));
}

// Reads up to `size` bytes; the count read, or -1.
ssize_t read_up_to(int file, std::byte* to, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t count = ::read(file, to + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return static_cast<ssize_t>(done);
}

bool write_all(int file, std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::write(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

isa::Result<std::vector<std::byte>> read_file(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!file.is_open() || ::fstat(file.number(), &status) != 0)
    return unreadable(path, std::strerror(errno));
  if (S_ISDIR(status.st_mode)) return unreadable(path, "it is a directory");

  std::vector<std::byte> bytes;
  if (S_ISREG(status.st_mode)) {
    bytes.resize(static_cast<size_t>(status.st_size));
    const ssize_t count = read_up_to(file.number(), bytes.data(), bytes.size());
    if (count < 0) return unreadable(path, std::strerror(errno));
    bytes.resize(static_cast<size_t>(count));
    return bytes;
  }
  for (size_t size = 0;;) {
    if (size >= kUnsizedLimit)
      return unreadable(path, fmt::format("it goes on after {} bytes", kUnsizedLimit));
    constexpr size_t kPiece = size_t{1} << 20;
    bytes.resize(size + kPiece);
    const ssize_t count = read_up_to(file.number(), bytes.data() + size, kPiece);
    if (count < 0) return unreadable(path, std::strerror(errno));
    size += static_cast<size_t>(count);
    bytes.resize(size);
    if (static_cast<size_t>(count) < kPiece) return bytes;
  }
}

isa::Problems write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  if (own_descriptor(path) == STDOUT_FILENO) std::fflush(stdout);  // what was printed comes first
  NewFile file(path);
  if (!file.is_open() || !write_all(file.descriptor(), bytes) || !file.commit())
    return {
        data::problem(ErrorCode::OutputUnwritable,
                      fmt::format("cannot write '{}': {}", path.string(), std::strerror(errno)))};
  return {};
}

}  // namespace trek
