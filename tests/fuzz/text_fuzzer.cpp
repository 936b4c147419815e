// Any text is assembled or refused with problems; what assembles prints as text that assembles to the
// same core and prints the same.
#include <string>

#include "assembler/assemble.h"
#include "assembler/diagnostics.h"
#include "assembler/format.h"
#include "assembler/printer.h"
#include "isa/codec.h"
#include "tests/fuzz/invariant.h"

namespace {

using trek::fuzz::must_hold;

// Texts that name files make the result depend on the machine.
bool names_files(std::string_view text) {
  for (std::string_view word : {"include", "npy", "idx", "raw", "safetensors"})
    if (text.find(word) != std::string_view::npos) return true;
  return false;
}

// The formatter takes any text or refuses it; formatting twice is formatting once.
void check_formatter(const std::string& text) {
  trek::SourceManager sources;
  const auto file = sources.add("fuzz.trek", text);
  if (!file.ok()) return;
  const auto once = trek::format_source(sources, *file);
  if (!once.ok()) return;
  const auto again = sources.add("formatted.trek", *once);
  must_hold(again.ok(), "what was formatted cannot be read");
  const auto twice = trek::format_source(sources, *again);
  must_hold(twice.ok() && *twice == *once, "formatting twice is not formatting once");
}

void check_round_trip(const trek::Assembly& assembly) {
  const std::string text = trek::print(assembly.module);
  const trek::Assembly again = trek::assemble_text("printed.trek", text);
  if (!again.ok()) {
    std::fprintf(stderr, "%s\n%s\n", text.c_str(),
                 trek::render(again.problems, again.sources).c_str());
    must_hold(false, "what was printed does not assemble");
  }
  const auto core = trek::isa::EncodeOptions::core();
  const bool same =
      trek::isa::encode(again.module, core) == trek::isa::encode(assembly.module, core);
  if (!same) std::fprintf(stderr, "%s\n", text.c_str());
  must_hold(same, "what was printed assembles to another module");
  const auto decoded = trek::isa::decode(trek::isa::encode(assembly.module));
  must_hold(decoded.ok(), "what was assembled does not decode");
  must_hold(trek::print(*decoded) == text, "decoding changed the text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (names_files(text)) return 0;
  const trek::Assembly assembly = trek::assemble_text("fuzz.trek", text);
  must_hold(assembly.ok() || !trek::render(assembly.problems, assembly.sources).empty(),
            "a problem without words");
  check_formatter(text);
  if (assembly.ok()) check_round_trip(assembly);
  return 0;
}
