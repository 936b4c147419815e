// Any bytes are decoded or refused with a problem; what decodes encodes to the same bytes, and what
// verifies too prints as text that assembles to the same core.
//
// Checksums would stop every change at the door. So an input is a file whose checksums and sizes are
// put right before it is read; one in eight is read as it is.
#include <cstring>
#include <string>
#include <vector>

#include <xxhash.h>

#include "assembler/assemble.h"
#include "assembler/diagnostics.h"
#include "assembler/printer.h"
#include "isa/codec.h"
#include "isa/codec_format.h"
#include "isa/verifier.h"
#include "tests/fuzz/invariant.h"

namespace {

using trek::fuzz::must_hold;
using Bytes = std::vector<std::byte>;
namespace format = trek::isa::format;

void repair(Bytes& file) {
  format::Header header{};
  if (file.size() < sizeof header) return;
  std::memcpy(&header, file.data(), sizeof header);
  header.magic = format::kMagic;
  header.file_size = file.size();
  const size_t room = (file.size() - sizeof header) / sizeof(format::SectionEntry);
  if (header.sections > room) return;
  std::byte* table = file.data() + sizeof header;
  for (uint32_t i = 0; i < header.sections; ++i) {
    format::SectionEntry entry{};
    std::memcpy(&entry, table + i * sizeof entry, sizeof entry);
    if (entry.offset > file.size() || entry.size > file.size() - entry.offset) continue;
    entry.checksum = XXH3_64bits(file.data() + entry.offset, static_cast<size_t>(entry.size));
    std::memcpy(table + i * sizeof entry, &entry, sizeof entry);
  }
  header.checksum = XXH3_64bits(table, header.sections * sizeof(format::SectionEntry));
  std::memcpy(file.data(), &header, sizeof header);
}

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

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  Bytes file(bytes, bytes + size);
  if (size == 0 || data[size - 1] % 8 != 0) repair(file);
  const auto module = trek::isa::decode(file);
  if (!module.ok()) {
    must_hold(!module.problems()[0].message.empty(), "a problem without words");
    return 0;
  }
  must_hold(trek::isa::encode(*module) == file, "another encoding of the module was accepted");
  if (trek::isa::verify(*module).empty()) check_text(*module);
  return 0;
}
