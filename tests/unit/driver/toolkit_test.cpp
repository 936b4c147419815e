// Programs of the toolkit, by stand-ins that are shell scripts.
#include "emulator/driver/toolkit.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <catch2/catch.hpp>
#include <unistd.h>

namespace trek::driver {
namespace {

namespace fs = std::filesystem;

// A folder with programs in it; the environment names one of them as ptxas and as nvdisasm.
class Toolkit {
 public:
  explicit Toolkit(const std::string& script) {
    std::string pattern = fs::temp_directory_path() / "trek-toolkit-XXXXXX";
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    add("tool", script);
    REQUIRE(setenv("TREK_PTXAS", path("tool").c_str(), 1) == 0);
    REQUIRE(setenv("TREK_NVDISASM", path("tool").c_str(), 1) == 0);
  }
  ~Toolkit() {
    unsetenv("TREK_PTXAS");
    unsetenv("TREK_NVDISASM");
    std::error_code error;
    fs::remove_all(folder_, error);
  }
  Toolkit(const Toolkit&) = delete;
  Toolkit& operator=(const Toolkit&) = delete;

  void add(const std::string& name, const std::string& script) const {
    std::ofstream(path(name)) << "#!/bin/sh\n" << script;
    fs::permissions(path(name), fs::perms::owner_all);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string folder() const { return folder_.string(); }

 private:
  fs::path folder_;
};

Tool ptxas() {
  auto found = Tool::ptxas();
  REQUIRE(found);
  return *found;
}

// Copies its source to its output, behind what it was asked for.
const char* const kCopies = "{ echo \"$1 $2\" && cat \"$3\"; } >\"$5\"\necho a warning\n";

}  // namespace

TEST_CASE("ptxas makes a cubin, whatever bytes it has") {
  const Toolkit toolkit(kCopies);
  const std::string ptx(200'000, '\n');
  const auto cubin = ptxas().assemble("a program", ptx + std::string("\0end", 4), "sm_90a");
  REQUIRE(cubin);
  CHECK(*cubin == "-arch sm_90a\n" + ptx + std::string("\0end", 4));
}

TEST_CASE("a program is run where this one has no standard streams") {
  const Toolkit toolkit(kCopies);
  const std::array<int, 3> kept = {::dup(0), ::dup(1), ::dup(2)};
  for (int stream = 0; stream < 3; ++stream) ::close(stream);
  const auto cubin = ptxas().assemble("a program", "text", "sm_80");
  for (int stream = 0; stream < 3; ++stream) {
    ::dup2(kept[static_cast<size_t>(stream)], stream);
    ::close(kept[static_cast<size_t>(stream)]);
  }
  REQUIRE(cubin);
  CHECK(*cubin == "-arch sm_80\ntext");
}

TEST_CASE("what ptxas refuses is said in its words, with how it ended") {
  const Toolkit toolkit("echo ptxas fatal: no such target\necho more >&2\nexit 255\n");
  const auto cubin = ptxas().assemble("a program", "text", "sm_1");
  REQUIRE_FALSE(cubin);
  CHECK(cubin.error().text() == "assembling a program for sm_1 with " + toolkit.path("tool") +
                                    ": exit code 255: ptxas fatal: no such target\nmore");
}

TEST_CASE("a ptxas that makes nothing, breaks or is none is an error") {
  {
    const Toolkit toolkit("echo done\n");
    const auto cubin = ptxas().assemble("a program", "text", "sm_80");
    REQUIRE_FALSE(cubin);
    CHECK(cubin.error().name == "ptxas made no cubin");
  }
  {
    const Toolkit toolkit("kill -SEGV $$\n");
    const auto cubin = ptxas().assemble("a program", "text", "sm_80");
    REQUIRE_FALSE(cubin);
    CHECK(cubin.error().name == "ended by signal 11");
  }
  {
    const Toolkit toolkit("");
    REQUIRE(setenv("TREK_PTXAS", toolkit.path("missing").c_str(), 1) == 0);
    const auto cubin = ptxas().assemble("a program", "text", "sm_80");
    REQUIRE_FALSE(cubin);
    CHECK(cubin.error().name == "it does not start");
    CHECK(cubin.error().detail == "No such file or directory");
  }
}

TEST_CASE("a ptxas that nobody waits for any more is ended") {
  const Toolkit toolkit("exec sleep 60\n");
  std::atomic<bool> cancelled{false};
  std::thread cancels([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cancelled = true;
  });
  const auto begun = std::chrono::steady_clock::now();
  const auto cubin = ptxas().assemble("a program", "text", "sm_80", &cancelled);
  cancels.join();
  REQUIRE_FALSE(cubin);
  CHECK(cubin.error().name == "cancelled");
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(30));
}

TEST_CASE("the toolkit's version is read from ptxas") {
  {
    const Toolkit toolkit(
        "[ \"$*\" = --version ] && echo 'Cuda compilation tools, release 13.0, V13.0.88'\n");
    const auto version = ptxas().toolkit();
    REQUIRE(version);
    CHECK(version->text() == "13.0");
  }
  const Toolkit toolkit("echo something else\n");
  CHECK_FALSE(ptxas().toolkit());
}

TEST_CASE("nvdisasm gives the text of a cubin") {
  const Toolkit toolkit("[ $1 = -c ] && echo text of && cat \"$2\"\n");
  const auto text = Tool::nvdisasm()->disassemble("the code", "a cubin");
  REQUIRE(text);
  CHECK(*text == "text of\na cubin");
}

TEST_CASE("a tool is the one that is named, none, or the first on the PATH") {
  const Toolkit toolkit("");
  CHECK(ptxas().path() == toolkit.path("tool"));
  REQUIRE(setenv("TREK_PTXAS", "", 1) == 0);
  CHECK_FALSE(Tool::ptxas());

  unsetenv("TREK_PTXAS");
  toolkit.add("ptxas", "");
  const char* before = std::getenv("PATH");
  const std::string kept = before == nullptr ? "" : before;
  REQUIRE(setenv("PATH", ("/nonexistent::" + toolkit.folder() + ":" + kept).c_str(), 1) == 0);
  CHECK(ptxas().path() == toolkit.path("ptxas"));
  REQUIRE(setenv("PATH", kept.c_str(), 1) == 0);
}

}  // namespace trek::driver
