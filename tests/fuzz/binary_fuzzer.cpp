// Any bytes are decoded or refused with a problem; what decodes encodes to the same bytes, and what
// verifies too prints as text that assembles to the same core.
//
// Checksums and offsets would stop every change at the door, so most mutations change one section and
// put the file together again around it.
#include <xxhash.h>

#include "assembler/assemble.h"
#include "assembler/diagnostics.h"
#include "assembler/printer.h"
#include "isa/codec.h"
#include "isa/verifier.h"
#include "tests/fuzz/invariant.h"
#include "tests/unit/isa/tkb_file.h"

namespace {

using trek::fuzz::must_hold;
using trek::isa::Bytes;
using trek::isa::TkbFile;

void check_text(const trek::isa::Module& module) {
  // An external tensor needs its file to be assembled.
  if (!module.externals.empty()) return;
  const std::string text = trek::print(module);
  const trek::Assembly again = trek::assemble_text("printed.trek", text);
  if (!again.ok()) {
    std::fprintf(stderr, "%s\n%s\n", text.c_str(),
                 trek::render(again.problems, again.sources).c_str());
    must_hold(false, "what was printed does not assemble");
  }
  const auto core = trek::isa::EncodeOptions::core();
  const bool same = trek::isa::encode(again.module, core) == trek::isa::encode(module, core);
  if (!same) std::fprintf(stderr, "%s\n", text.c_str());
  must_hold(same, "what was printed assembles to another module");
}

}  // namespace

// libFuzzer's own mutation, of bytes in a buffer of at most `room`.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t room);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t room,
                                          unsigned int seed) {
  const std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), size);
  constexpr unsigned kPlain = 8;  // one in so many changes anything at all
  if (seed % kPlain == 0 || !TkbFile::has_parts(input)) return LLVMFuzzerMutate(data, size, room);
  TkbFile file(input);
  if (file.sections.empty()) return LLVMFuzzerMutate(data, size, room);
  Bytes& bytes = file.sections[seed / kPlain % file.sections.size()].bytes;
  const size_t before = bytes.size();
  bytes.resize(before + 64);
  auto* section = reinterpret_cast<uint8_t*>(bytes.data());
  bytes.resize(LLVMFuzzerMutate(section, before, bytes.size()));
  const Bytes output = file.assemble();
  if (output.size() > room) return LLVMFuzzerMutate(data, size, room);
  std::memcpy(data, output.data(), output.size());
  return output.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto module = trek::isa::decode(file);
  if (!module.ok()) {
    must_hold(!module.problems()[0].message.empty(), "a problem without words");
    return 0;
  }
  const Bytes again = trek::isa::encode(*module);
  must_hold(std::equal(again.begin(), again.end(), file.begin(), file.end()),
            "another encoding of the module was accepted");
  if (trek::isa::verify(*module).empty()) check_text(*module);
  return 0;
}
