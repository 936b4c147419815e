// The binary form of a module (.tkb): encode, decode, load.
//
// A module has one legal encoding. encode() brings it there: tables are numbered by first use,
// nothing unused is written, nothing is written twice. decode() takes exactly those files: it
// checks every length and index against the bytes at hand before it uses or allocates anything, so
// a hostile file ends in one Problem, in time and memory bounded by its size. The format is
// described in isa/codec_format.h.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "isa/module.h"
#include "isa/result.h"

namespace trek::isa {

// Which optional sections are written. Core sections do not depend on them: their bytes are the
// same with and without.
struct EncodeOptions {
  bool names = true;        // of registers
  bool lines = true;        // places in the source
  bool sources = true;      // source file names and texts
  bool source_form = true;  // named constants, order of items, comments, spellings
  bool unknown = true;      // sections that a newer tool wrote

  static EncodeOptions core() { return {false, false, false, false, false}; }
};

// The bytes of a module whose indices are all in range, as those of a verified module are.
std::vector<std::byte> encode(const Module& module, const EncodeOptions& options = {});

// The module in these bytes, or the first problem met. What comes back is structurally sound
// (indices in range, tables in order) but need not be a legal program: that is verify()'s.
Result<Module> decode(std::span<const std::byte> bytes);

// decode() and verify(): a module that engines may execute.
Result<Module> load_module(std::span<const std::byte> bytes);

}  // namespace trek::isa
