// Whole files in and out.
//
// Reading: a regular file has a size and is read in one piece; anything else (a pipe, a device) is read
// to its end, but no further than a limit, so that /dev/zero is an error and not the end of memory.
// Writing: beside the target and renamed, so that what was there stays whole if the disk fills up.
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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
  // Whether closing succeeded: some file systems report a full disk only here.
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

isa::Problem failed(const char* verb, const std::filesystem::path& path, std::string_view why) {
  return data::problem(ErrorCode::FileUnreadable,
                       fmt::format("cannot {} '{}': {}", verb, path.string(), why));
}
isa::Problem failed(const char* verb, const std::filesystem::path& path) {
  return failed(verb, path, std::strerror(errno));
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

isa::Problems write_in_place(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.is_open() || !write_all(file.number(), bytes) || !file.close())
    return {failed("write", path)};
  return {};
}

}  // namespace

isa::Result<std::vector<std::byte>> read_file(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!file.is_open() || ::fstat(file.number(), &status) != 0) return failed("read", path);
  if (S_ISDIR(status.st_mode)) return failed("read", path, "it is a directory");

  std::vector<std::byte> bytes;
  if (S_ISREG(status.st_mode)) {
    bytes.resize(static_cast<size_t>(status.st_size));
    const ssize_t count = read_up_to(file.number(), bytes.data(), bytes.size());
    if (count < 0) return failed("read", path);
    bytes.resize(static_cast<size_t>(count));
    return bytes;
  }
  for (size_t size = 0;;) {
    if (size >= kUnsizedLimit)
      return failed("read", path, fmt::format("it goes on after {} bytes", kUnsizedLimit));
    constexpr size_t kPiece = size_t{1} << 20;
    bytes.resize(size + kPiece);
    const ssize_t count = read_up_to(file.number(), bytes.data() + size, kPiece);
    if (count < 0) return failed("read", path);
    size += static_cast<size_t>(count);
    bytes.resize(size);
    if (static_cast<size_t>(count) < kPiece) return bytes;
  }
}

isa::Problems write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::error_code error;
  std::filesystem::path target = path;
  if (std::filesystem::is_symlink(path, error)) {  // the link stays, what it points to is replaced
    const auto resolved = std::filesystem::weakly_canonical(path, error);
    if (!error) target = resolved;
  }
  const auto kind = std::filesystem::status(target, error).type();
  if (kind == std::filesystem::file_type::directory)
    return {failed("write", path, "it is a directory")};
  if (kind != std::filesystem::file_type::regular && kind != std::filesystem::file_type::not_found)
    return write_in_place(path, bytes);

  const std::filesystem::path temporary = target.string() + fmt::format(".{}.tmp", ::getpid());
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.is_open()) return {failed("write", path)};
  if (write_all(file.number(), bytes) && file.close() &&
      std::rename(temporary.c_str(), target.c_str()) == 0)
    return {};
  const isa::Problem why = failed("write", path);
  ::unlink(temporary.c_str());
  return {why};
}

}  // namespace trek
