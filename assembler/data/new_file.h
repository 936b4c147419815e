// A file that is being written: it takes the place of the old one when it is complete, or leaves it.
//
// A regular file is written without a name (O_TMPFILE) in the folder of its target and named at the end,
// so a program that is killed meanwhile leaves nothing behind. Where a file system cannot do that, it is
// written under a name of its own, which only the destructor clears away. A device or a pipe is written
// to as it is, and one of our own streams (/dev/stdout) through the descriptor that we have: opening it
// again would fail for a socket, and lose its place in a file.
#pragma once

#include <filesystem>
#include <string>

namespace trek {

// The number of the open file that a path such as /dev/stdout or /dev/fd/3 means, or -1.
int own_descriptor(const std::filesystem::path& path);

class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // Where this is false, errno says why.
  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  // Puts what has been written in its place; where that fails, errno says why.
  bool commit();

 private:
  bool give_name(const std::filesystem::path& name);
  bool close();

  std::filesystem::path target_;     // of a regular file, behind links
  std::filesystem::path temporary_;  // a name beside it
  int descriptor_ = -1;
  bool is_owned_ = true;     // not one of our own streams
  bool is_regular_ = false;  // takes the place of target_
  bool has_name_ = false;    // temporary_ exists
};

}  // namespace trek
