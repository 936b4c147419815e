// Every sample, through text and binary and back: the core and the names of registers stay the same
// bytes, and the second disassembly is the first.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "assembler/assemble.h"
#include "assembler/diagnostics.h"
#include "assembler/printer.h"
#include "isa/codec.h"

namespace trek {
namespace {

// The bytes of the core and of the names of registers.
std::vector<std::byte> core_and_names(const isa::Module& module) {
  isa::EncodeOptions options = isa::EncodeOptions::core();
  options.names = true;
  return isa::encode(module, options);
}

// Whether a data file that a source needs is on this machine.
bool lacks_data(const isa::Problems& problems) {
  return std::all_of(problems.begin(), problems.end(), [](const isa::Problem& problem) {
    return problem.code == isa::ErrorCode::FileUnreadable;
  });
}

TEST_CASE("every sample comes back the same from text and binary") {
  int checked = 0;
  for (const auto& entry : std::filesystem::directory_iterator("samples")) {
    if (entry.path().extension() != ".trek") continue;
    INFO(entry.path());
    const Assembly first = assemble_file(entry.path().string());
    if (!first.ok() && lacks_data(first.problems)) continue;
    INFO(render(first.problems, first.sources));
    REQUIRE(first.ok());
    ++checked;

    const auto bytes = isa::encode(first.module);
    const auto loaded = isa::load_module(bytes);
    REQUIRE(loaded.ok());
    CHECK(isa::encode(*loaded) == bytes);
    const std::string text = print(*loaded);
    const Assembly second = assemble_text(entry.path().string(), text);
    INFO(render(second.problems, second.sources));
    REQUIRE(second.ok());
    CHECK(core_and_names(second.module) == core_and_names(first.module));
    CHECK(print(second.module) == text);
  }
  CHECK(checked > 0);
}

}  // namespace
}  // namespace trek
