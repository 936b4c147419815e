// What becomes of a rival's process that answers, refuses, hangs, or ends: with a shell in Python's place.
#include "tests/bench/pytorch.h"

#include <fstream>

#include <catch2/catch.hpp>

namespace trek::bench {
namespace {

// Counts its answers; does as the request's first word says.
const char* const kScript =
    "count=0\n"
    "while read -r line; do\n"
    "  count=$((count + 1))\n"
    "  case $line in\n"
    "    *refuse*) echo '{\"error\": \"no such thing\"}' ;;\n"
    "    *hang*) exec sleep 60 ;;\n"
    "    *end*) exit 3 ;;\n"
    "    *break*) echo '{\"error\": \"the device failed\", \"broken\": true}' ;;\n"
    "    *babble*) echo 'good morning' ;;\n"
    "    *) echo \"{\\\"count\\\": $count}\" ;;\n"
    "  esac\n"
    "done\n";

class Shell {
 public:
  Shell() : file_(folder_.file("rival.sh")) {
    std::ofstream(file_) << kScript;
    process_ = std::make_unique<PyTorch>("/bin/sh", file_);
  }
  Result<nlohmann::json> ask(const std::string& what, int seconds = 20) {
    return process_->ask({{"do", what}}, seconds);
  }
  // How many requests the process has answered with this one.
  int count() {
    const Result<nlohmann::json> answer = ask("count");
    REQUIRE(answer.ok());
    return answer->value("count", 0);
  }
  int generation() const { return process_->generation(); }

 private:
  TemporaryFolder folder_;
  std::string file_;
  std::unique_ptr<PyTorch> process_;
};

}  // namespace

TEST_CASE("a rival that refuses keeps its process") {
  Shell shell;
  CHECK(shell.count() == 1);
  const Result<nlohmann::json> refused = shell.ask("refuse");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().detail == "no such thing");
  CHECK(shell.count() == 3);
  CHECK(shell.generation() == 1);
}

TEST_CASE("a rival that hangs, ends or breaks is started anew") {
  const auto [request, why] =
      GENERATE(std::pair{"hang", "no answer in 1 s"}, std::pair{"end", "the process has ended"},
               std::pair{"break", "the device failed"});
  Shell shell;
  CHECK(shell.count() == 1);
  const Result<nlohmann::json> failed = shell.ask(request, request[0] == 'h' ? 1 : 20);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().detail == why);
  CHECK(shell.count() == 1);
  CHECK(shell.generation() == 2);
}

TEST_CASE("what is no JSON is no answer") {
  Shell shell;
  CHECK_FALSE(shell.ask("babble").ok());
  CHECK(shell.count() == 2);
}

TEST_CASE("an interpreter that is not there is said by name") {
  PyTorch nobody("/no/such/python", "script.py");
  const Result<nlohmann::json> answer = nobody.ask({{"do", "hello"}});
  REQUIRE_FALSE(answer.ok());
  CHECK(answer.error().text().find("/no/such/python") != std::string::npos);
}

}  // namespace trek::bench
