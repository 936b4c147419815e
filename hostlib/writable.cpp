#include "hostlib/writable.h"

#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "assembler/data/new_file.h"
#include "hostlib/names.h"

namespace trek {
namespace {

isa::Problems cannot_write(const std::filesystem::path& path, std::string_view why) {
  return {problem(isa::ErrorCode::OutputUnwritable,
                  fmt::format("cannot write '{}': {}", path.string(), why))};
}

}  // namespace

isa::Problems check_writable(const std::filesystem::path& path) {
  if (const int own = own_descriptor(path); own >= 0) {
    const int flags = ::fcntl(own, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) return {};
    return cannot_write(path, std::strerror(flags < 0 ? errno : EBADF));
  }
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status)) return cannot_write(path, "it is a directory");
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    if (access(path.c_str(), W_OK) == 0) return {};
    return cannot_write(path, std::strerror(errno));
  }
  // A file is replaced by one that is written beside it: what must be possible is to create that.
  // (access() alone would believe what a superuser may do on a read-only file system.)
  const std::string probe = fmt::format("{}.{}.probe", path.string(), getpid());
  const int file = ::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return cannot_write(path, std::strerror(errno));
  ::close(file);
  ::unlink(probe.c_str());
  return {};
}

}  // namespace trek
