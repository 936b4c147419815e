#include "assembler/data/new_file.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace trek {
namespace {

namespace fs = std::filesystem;

// The file that a path means: a link stays, what it points to is replaced.
fs::path behind_links(const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path resolved = fs::weakly_canonical(path, error);
  return error ? path : resolved;
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

int own_descriptor(const fs::path& path) {
  const std::string& text = path.native();
  if (text == "/dev/stdin") return STDIN_FILENO;
  if (text == "/dev/stdout") return STDOUT_FILENO;
  if (text == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!text.starts_with(folder)) continue;
    const char* end = text.data() + text.size();
    int number = -1;
    const auto [stop, error] = std::from_chars(text.data() + folder.size(), end, number);
    if (error == std::errc() && stop == end && number >= 0) return number;
  }
  return -1;
}

NewFile::NewFile(const fs::path& path) {
  if (const int own = own_descriptor(path); own >= 0) {
    is_owned_ = false;
    if (::fcntl(own, F_GETFD) >= 0) descriptor_ = own;
    return;
  }
  target_ = behind_links(path);
  std::error_code error;
  const fs::file_type kind = fs::status(target_, error).type();
  if (kind == fs::file_type::directory) {
    errno = EISDIR;
    return;
  }
  is_regular_ = kind == fs::file_type::regular || kind == fs::file_type::not_found;
  if (!is_regular_) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    return;
  }
  constexpr mode_t kMode = 0666;  // less what the umask takes
  temporary_ = fmt::format("{}.{}.tmp", target_.native(), ::getpid());
  descriptor_ = ::open(folder_of(target_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode);
  if (descriptor_ >= 0 && ::access("/proc/self/fd", X_OK) == 0) return;
  close();
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  has_name_ = descriptor_ >= 0;
}

NewFile::~NewFile() {
  close();
  if (has_name_) ::unlink(temporary_.c_str());
}

// Some file systems report a full disk only here.
bool NewFile::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  return descriptor < 0 || !is_owned_ || ::close(descriptor) == 0;
}

bool NewFile::give_name(const fs::path& name) {
  const std::string unnamed = fmt::format("/proc/self/fd/{}", descriptor_);
  return ::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

bool NewFile::commit() {
  if (!is_regular_) return close();
  if (!has_name_) {
    if (give_name(target_)) return close();  // nothing was there: not even a moment with two names
    if (errno != EEXIST) return false;
    ::unlink(temporary_.c_str());  // of a process that had our number and was killed
    has_name_ = give_name(temporary_);
    if (!has_name_) return false;
  }
  if (!close() || std::rename(temporary_.c_str(), target_.c_str()) != 0) return false;
  has_name_ = false;
  return true;
}

}  // namespace trek
