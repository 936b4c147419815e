// The file around the functions: declarations, tests, and the order in which everything stands.
#include "assembler/printer.h"

#include <array>
#include <cstring>

#include "assembler/printer_parts.h"

namespace trek {

using isa::DataSource;
using isa::Debug;
using isa::Module;
using isa::Ref;
using isa::RefKind;
using isa::TensorDecl;
using isa::Test;
using isa::TestBinding;
using isa::Type;

namespace printer {
namespace {

using ItemKind = Debug::ItemKind;
constexpr std::array kDeclarations{ItemKind::constant, ItemKind::param, ItemKind::tensor,
                                   ItemKind::function, ItemKind::test};

class ModulePrinter {
 public:
  ModulePrinter(const Module& module, const PrintOptions& options)
      : module_(module), options_(options), names_(module, options.names), form_(module, options) {
    initialisers_.resize(module.tensors.size());
    for (const isa::Instruction& instruction : module.init.code)
      for (Ref result : module.results(instruction))
        if (result.is(RefKind::tensor)) initialisers_[result.index()] = &instruction;
  }

  std::string print() {
    const std::span<const Debug::Item> items =
        options_.source_form ? std::span<const Debug::Item>(module_.debug.items)
                             : std::span<const Debug::Item>();
    const size_t head = heading(items);
    for (const Debug::Item& item : items.first(head)) print_item(item);
    const bool is_placed = head < items.size() && items[head].kind == ItemKind::version;
    version(is_placed ? module_.strings[items[head].comment] : std::string_view());
    if (!is_placed) append_blank_line(out_);
    for (const Debug::Item& item : items.subspan(head)) print_item(item);
    for (ItemKind kind : kDeclarations) print_rest(kind);
    while (out_.ends_with("\n\n")) out_.pop_back();
    return std::move(out_);
  }

 private:
  // How many comments and blank lines stand before the version; none where that has no place of its own,
  // for nothing else may stand before it.
  static size_t heading(std::span<const Debug::Item> items) {
    size_t count = 0;
    while (count < items.size() &&
           (items[count].kind == ItemKind::comment || items[count].kind == ItemKind::blank))
      ++count;
    return count < items.size() && items[count].kind == ItemKind::version ? count : 0;
  }

  size_t count(ItemKind kind) const {
    switch (kind) {
      case ItemKind::constant:
        return options_.source_form ? module_.debug.constants.size() : 0;
      case ItemKind::tensor:
        return module_.tensors.size();
      case ItemKind::param:
        return module_.params.size();
      case ItemKind::function:
        return module_.functions.size();
      case ItemKind::test:
        return module_.tests.size();
      case ItemKind::comment:
      case ItemKind::blank:
      case ItemKind::version:
        return 0;
    }
    return 0;
  }

  // The order of tensors, params, functions and tests is a matter of the module's meaning, so an item
  // says only which kind comes next, whatever it names.
  void print_item(const Debug::Item& item) {
    if (item.kind == ItemKind::blank) {
      append_blank_line(out_);
    } else if (item.kind == ItemKind::comment) {
      append_comment(out_, module_.strings[item.index]);
      out_ += '\n';
    } else if (item.kind != ItemKind::version) {
      uint32_t& next = next_[static_cast<size_t>(item.kind)];
      if (next < count(item.kind))
        print_declaration(item.kind, next++, module_.strings[item.comment]);
    }
  }

  // What no item has placed, under a blank line: functions and tests each, the others as a group.
  void print_rest(ItemKind kind) {
    uint32_t& next = next_[static_cast<size_t>(kind)];
    const bool apart = kind == ItemKind::function || kind == ItemKind::test;
    for (bool first = true; next < count(kind); first = false) {
      if (first || apart) append_blank_line(out_);
      print_declaration(kind, next++, {});
    }
  }

  void print_declaration(ItemKind kind, uint32_t index, std::string_view comment) {
    switch (kind) {
      case ItemKind::constant:
        return constant(module_.debug.constants[index], comment);
      case ItemKind::tensor:
        return tensor(index, comment);
      case ItemKind::param:
        return param(module_.params[index], comment);
      case ItemKind::function:
        return print_function(out_, module_, index, comment, names_, form_, spellings_);
      case ItemKind::test:
        return test(module_.tests[index], comment);
      case ItemKind::comment:
      case ItemKind::blank:
      case ItemKind::version:
        return;
    }
  }

  void end_line(std::string_view comment) {
    if (!comment.empty()) {
      out_ += "  ";
      append_comment(out_, comment);
    }
    out_ += '\n';
  }

  void version(std::string_view comment) {
    out_ += ".trek ";
    append_number(out_, isa::kVersionMajor);
    out_ += '.';
    append_number(out_, isa::kVersionMinor);
    end_line(comment);
  }

  void constant(const Debug::NamedConstant& constant, std::string_view comment) {
    const std::string& name = module_.strings[constant.name];
    const std::string& text = module_.strings[constant.text];
    if (!spellings_.define(name, text)) return;
    out_ += ".const ";
    out_ += name;
    out_ += " = ";
    out_ += text;
    end_line(comment);
  }

  void param(const isa::Param& param, std::string_view comment) {
    out_ += ".param $";
    out_ += module_.strings[param.name];
    out_ += ' ';
    out_ += isa::name(param.dtype);
    out_ += " = ";
    append_element(out_, param.dtype, module_.constants[param.value].bits);
    end_line(comment);
  }

  void tensor(uint32_t index, std::string_view comment) {
    const TensorDecl& decl = module_.tensors[index];
    const Type& type = module_.types[decl.type];
    const std::string& name = module_.strings[decl.name];
    out_ += '.';
    out_ += isa::name(decl.role);
    out_ += " @";
    out_ += name;
    out_ += ' ';
    spelt_type(index, type);
    if (initialisers_[index] != nullptr) {
      out_ += " = ";
      print_initialiser(out_, module_, *initialisers_[index]);
    } else if (decl.source == DataSource::embedded) {
      out_ += " = ";
      append_data(out_, type, data(decl.offset, type), 0);
    } else if (decl.source == DataSource::external) {
      external(module_.externals[decl.external]);
    }
    spellings_.declare(name, type);
    end_line(comment);
  }

  // A tensor's type, its dimensions as they were written.
  void spelt_type(uint32_t tensor, const Type& type) {
    out_ += isa::name(type.dtype);
    out_ += '[';
    for (int axis = 0; axis < type.shape.rank(); ++axis) {
      if (axis > 0) out_ += ',';
      const auto text = form_.dimension_spelling(tensor, static_cast<uint32_t>(axis));
      const isa::Constant dimension{isa::DType::i64, static_cast<uint64_t>(type.shape[axis])};
      if (!text.empty() && spellings_.gives(text, dimension))
        out_ += text;
      else
        append_integer(out_, type.shape[axis]);
    }
    out_ += ']';
  }

  void external(const isa::External& external) {
    out_ += " = extern ";
    out_ += module_.strings[external.format];
    out_ += '(';
    append_quoted(out_, module_.strings[external.path]);
    if (external.member != 0) {
      out_ += ", ";
      append_quoted(out_, module_.strings[external.member]);
    }
    out_ += ')';
  }

  std::span<const std::byte> data(uint64_t offset, const Type& type) const {
    return std::span(module_.data)
        .subspan(static_cast<size_t>(offset), static_cast<size_t>(type.bytes()));
  }

  void test(const Test& test, std::string_view comment) {
    out_ += ".test ";
    append_quoted(out_, module_.strings[test.name]);
    out_ += " {";
    end_line(comment);
    for (const TestBinding& given : test.given) binding("", given);
    for (const TestBinding& expected : test.expected) binding("expect ", expected);
    if (test.trap != isa::TrapCode::None) {
      out_ += "  expect trap ";
      out_ += isa::name(test.trap);
      out_ += '\n';
    }
    out_ += "}\n";
  }

  void binding(std::string_view keyword, const TestBinding& binding) {
    append_indent(out_, 1);
    out_ += keyword;
    const uint32_t index = binding.target.index();
    if (binding.target.is(RefKind::tensor)) {
      const TensorDecl& decl = module_.tensors[index];
      const Type& type = module_.types[decl.type];
      out_ += '@';
      out_ += module_.strings[decl.name];
      out_ += " = ";
      append_uniform_data(out_, type, data(binding.offset, type), 1);
    } else {
      const isa::Param& param = module_.params[index];
      const Type type = Type::tensor(param.dtype, {});
      out_ += '$';
      out_ += module_.strings[param.name];
      out_ += " = ";
      uint64_t bits = 0;
      std::memcpy(&bits, data(binding.offset, type).data(),
                  static_cast<size_t>(isa::byte_size(param.dtype)));
      append_element(out_, param.dtype, bits);
    }
    out_ += '\n';
  }

  const Module& module_;
  PrintOptions options_;
  std::string out_;
  Names names_;
  SourceForm form_;
  Spellings spellings_;
  std::vector<const isa::Instruction*> initialisers_;  // by tensor
  std::array<uint32_t, 7> next_{};                     // by kind of item: the first not yet printed
};

}  // namespace
}  // namespace printer

std::string print(const Module& module, const PrintOptions& options) {
  return printer::ModulePrinter(module, options).print();
}

}  // namespace trek
