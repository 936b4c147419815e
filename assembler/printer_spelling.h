// Whether a spelling that came with a module means what the module says.
//
// A spelling is text of a debug section: it may be anything. It is used only where it is an expression
// of one line over constants and tensors that stand before it, and its value in its place is, bit for
// bit, the constant that stands there. The assembler's own evaluator decides.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "assembler/expression.h"
#include "isa/module.h"

namespace trek::printer {

class Spellings {
 public:
  Spellings();
  Spellings(const Spellings&) = delete;
  Spellings& operator=(const Spellings&) = delete;
  ~Spellings() = default;

  // Defines a named constant for all that follows. False, and nothing defined, where the name is taken
  // or no name, or the text no constant expression. The texts outlive this.
  bool define(std::string_view name, std::string_view text);
  // A tensor whose dimensions what follows may name: dim(@x, 0).
  void declare(std::string_view name, const isa::Type& type);

  // Whether `text` gives `constant` in a place that has its type already, or in one that takes its type
  // from what is written, where a plain real is of type `real`.
  bool gives(std::string_view text, const isa::Constant& constant);
  bool gives_naturally(std::string_view text, const isa::Constant& constant, isa::DType real);

 private:
  using Known = std::optional<assembler::Value>;
  const Known& evaluate(std::string_view text);
  Known evaluate_now(std::string_view text);

  SourceManager sources_;
  isa::Module scratch_;
  assembler::Core core_;
  assembler::Expressions expressions_;
  std::unordered_map<std::string_view, Known> known_;
};

}  // namespace trek::printer
