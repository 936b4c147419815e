// Text and binary name one module: 100 000 random ones go from module to bytes to module to bytes, and
// from module to text to module to text, and nothing changes.
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "assembler/assemble.h"
#include "assembler/diagnostics.h"
#include "assembler/format.h"
#include "assembler/printer.h"
#include "isa/codec.h"
#include "tests/property/random_module.h"

namespace trek {
namespace {

constexpr uint64_t kModules = 100'000;

property::RandomOptions small_modules() {
  property::RandomOptions options;
  options.functions = 1;
  options.instructions = 4;
  options.depth = 2;
  options.elements = 16;
  return options;
}

// Runs `check` on every seed, on two threads. It gives what went wrong, or "".
template <class Check>
std::string first_failure(uint64_t modules, Check&& check) {
  std::atomic<uint64_t> next = 0;
  std::mutex mutex;
  std::string failure;
  const auto work = [&] {
    for (uint64_t seed = next++; seed < modules; seed = next++) {
      const std::string wrong = check(property::random_module(seed, small_modules()));
      if (wrong.empty()) continue;
      const std::scoped_lock lock(mutex);
      failure = fmt::format("seed {}: {}", seed, wrong);
      next = modules;
    }
  };
  std::thread other(work);
  work();
  other.join();
  return failure;
}

std::string binary_round_trip(const isa::Module& module) {
  const auto bytes = isa::encode(module);
  const auto read = isa::decode(bytes);
  if (!read.ok()) return read.problems()[0].place + ": " + read.problems()[0].message;
  if (isa::encode(*read) != bytes) return "the module read back encodes otherwise";
  return "";
}

std::string text_round_trip(const isa::Module& module) {
  const std::string text = print(module);
  const Assembly assembly = assemble_text("random.trek", text);
  if (!assembly.ok()) return render(assembly.problems, assembly.sources) + text;
  const isa::EncodeOptions core = isa::EncodeOptions::core();
  if (isa::encode(assembly.module, core) != isa::encode(module, core))
    return "the core differs\n" + text;
  if (print(assembly.module) != text) return "the text differs\n" + text;
  return "";
}

isa::Result<std::string> formatted_text(std::string text) {
  SourceManager sources;
  const auto file = sources.add("random.trek", std::move(text));
  return format_source(sources, *file);
}

// What trek-dis prints is laid out by the formatter: that changes nothing of what it means, and a second
// time nothing at all.
std::string formatted_round_trip(const isa::Module& module) {
  const auto formatted = formatted_text(print(module));
  if (!formatted.ok()) return formatted.problems()[0].message + "\n" + print(module);
  const auto again = formatted_text(*formatted);
  if (!again.ok() || *again != *formatted) return "formatting again changes\n" + *formatted;
  const Assembly assembly = assemble_text("formatted.trek", *formatted);
  if (!assembly.ok()) return render(assembly.problems, assembly.sources) + *formatted;
  const isa::EncodeOptions core = isa::EncodeOptions::core();
  if (isa::encode(assembly.module, core) != isa::encode(module, core))
    return "the core differs\n" + *formatted;
  const auto second = formatted_text(print(assembly.module));
  if (!second.ok() || *second != *formatted) return "a second disassembly differs\n" + *formatted;
  return "";
}

TEST_CASE("100 000 random modules are the same bytes after reading and writing") {
  CHECK(first_failure(kModules, binary_round_trip) == "");
}

TEST_CASE("100 000 random modules are the same bytes and text after printing and assembling") {
  CHECK(first_failure(kModules, text_round_trip) == "");
}

TEST_CASE("a disassembly is formatted, and that does not change the module") {
  CHECK(first_failure(kModules / 10, formatted_round_trip) == "");
}

TEST_CASE("a large random module comes back the same from bytes and from text") {
  property::RandomOptions options;
  options.functions = 20;
  options.instructions = 60;
  options.depth = 2;
  const isa::Module module = property::random_module(1, options);
  CHECK(binary_round_trip(module) == "");
  CHECK(text_round_trip(module) == "");
}

}  // namespace
}  // namespace trek
