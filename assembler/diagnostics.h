// Problems as a person reads them: place, code, message, the source line with the range underlined,
// what led there, and help.
//
//   mlp.trek:12:20: error[shape-mismatch]: 'a' has shape [128,784] and 'b' [256,10]: ...
//      12 |   %z = matmul %a, @w2, bias=@b2
//         |                   ^~~
//   mlp.trek:30:3: note: in expansion of macro 'dense'
//   help: did you mean 'tb'?
//
// A problem of a binary file has no line: `model.tkb: error[checksum]: ...`.
#pragma once

#include <string>
#include <string_view>

#include "assembler/source.h"
#include "isa/result.h"

namespace trek {

struct RenderOptions {
  bool colour = false;
  // The name to show for a problem without a source line.
  std::string_view file;
};

std::string render(const isa::Problem& problem, const SourceManager& sources,
                   const RenderOptions& options = {});
std::string render(const isa::Problems& problems, const SourceManager& sources,
                   const RenderOptions& options = {});

// For a terminal: bytes that would move its cursor, or that are not UTF-8, are shown as '?'; a tab as a
// blank, so that a caret stands below what it means.
std::string printable(std::string_view bytes);

// Whether what goes to this file descriptor should be coloured: a terminal, unless NO_COLOR is set.
bool wants_colour(int descriptor);

}  // namespace trek
