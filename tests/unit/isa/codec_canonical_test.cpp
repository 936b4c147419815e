// One module, one encoding: tables in any order, with duplicates and unused entries, give the same
// bytes; a file that encodes a module in another way is refused.
#include <algorithm>
#include <numeric>

#include <catch2/catch.hpp>

#include "isa/builder.h"
#include "isa/verifier.h"
#include "tests/unit/isa/tkb_file.h"

namespace trek::isa {
namespace {

using format::SectionId;

// The same module with its constants, types and strings in reverse, twice, and with others between.
Module shuffled(Module module) {
  const auto doubled_back = [](auto& table, const auto& extra, uint32_t first) {
    using Table = std::remove_reference_t<decltype(table)>;
    Table out(table.begin(), table.begin() + first);
    std::vector<uint32_t> numbers(table.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    for (size_t i = table.size(); i-- > first;) {
      out.push_back(table[i]);  // a duplicate that nothing uses
      numbers[i] = static_cast<uint32_t>(out.size());
      out.push_back(table[i]);
      out.push_back(extra);
    }
    table = out;
    return numbers;
  };
  const auto strings = doubled_back(module.strings, std::string("unused"), 1);
  const auto constants = doubled_back(module.constants, Constant{DType::u8, 200}, 0);
  const auto types = doubled_back(module.types, Type::tensor(DType::i8, {9}), 0);

  const auto rename = [&](Ref ref) {
    if (ref.is(RefKind::constant)) return Ref{RefKind::constant, constants[ref.index()]};
    if (ref.is(RefKind::string)) return Ref{RefKind::string, strings[ref.index()]};
    return ref;
  };
  for (size_t at = 0; at < module.lists.size();) {
    const size_t count = module.lists[at].bits;
    for (size_t i = at + 1; i <= at + count; ++i) module.lists[i] = rename(module.lists[i]);
    at += count + 1;
  }
  for (Ref& word : module.words) word = rename(word);
  for (TensorDecl& tensor : module.tensors) {
    tensor.name = strings[tensor.name];
    tensor.type = types[tensor.type];
  }
  for (External& external : module.externals)
    for (uint32_t* string : {&external.format, &external.path, &external.member})
      *string = strings[*string];
  for (Param& param : module.params) {
    param.name = strings[param.name];
    param.value = constants[param.value];
  }
  for (Function& function : module.functions) {
    function.name = strings[function.name];
    for (uint32_t& result : function.results) result = types[result];
    for (Value& value : function.values) value.type = types[value.type];
  }
  for (Test& test : module.tests) test.name = strings[test.name];
  module.debug = {};
  return module;
}

TEST_CASE("the numbering of tables, duplicates and unused entries do not show in the bytes") {
  const Module module = full_module();
  const Module other = shuffled(module);
  REQUIRE(verify(other).empty());
  CHECK(encode(other) == encode(module, EncodeOptions::core()));
}

TEST_CASE("registers are numbered as they are defined") {
  // %1 before %0, as no builder makes them.
  Module module;
  Builder build(module);
  const Ref x = build.tensor("x", Type::tensor(DType::f32, {2}), Role::input);
  build.begin_function("main");
  REQUIRE_FALSE(build.add(Opcode::Neg, {x}));
  REQUIRE_FALSE(build.add(Opcode::Mean, {build.results()[0]}));
  build.end_function();
  const Bytes straight = encode(module);
  module.debug.names = {{{build.string("a"), build.string("b")}}};
  const Bytes named = encode(module);

  std::swap(module.functions[0].values[0], module.functions[0].values[1]);
  std::swap(module.debug.names[0].values[0], module.debug.names[0].values[1]);
  for (Ref& word : module.words)
    if (word.is(RefKind::value)) word = {RefKind::value, 1 - word.index()};
  CHECK(encode(module) == named);
  CHECK(encode(module, EncodeOptions::core()) == straight);
}

TEST_CASE("every NaN of a constant is the one of its type") {
  const auto bytes_with = [](uint64_t nan) {
    Module module;
    Builder build(module);
    build.param("p", DType::f32, nan);
    return encode(module);
  };
  CHECK(bytes_with(0x7FC00000) == bytes_with(0xFF800001));
  TkbFile file(bytes_with(0x7FC00000));
  file.poke<uint64_t>(SectionId::constants, 8, 0xFF800001);
  CHECK(problem_of(file.assemble()) == "not-canonical");
}

TEST_CASE("a module without initialisers has one form") {
  Module module;
  const Bytes without = encode(module);
  Builder build(module);
  build.begin_init();
  build.end_init();
  CHECK(encode(module) == without);
}

// Appends to a section of a file of the full module.
template <class T>
Bytes with_record(SectionId id, const T& record) {
  TkbFile file(encode(full_module()));
  Bytes& bytes = file.find(id)->bytes;
  bytes.resize(bytes.size() + sizeof record);
  std::memcpy(bytes.data() + bytes.size() - sizeof record, &record, sizeof record);
  return file.assemble();
}

TEST_CASE("files that encode a module otherwise are not canonical") {
  CHECK(problem_of(with_record(SectionId::constants, format::ConstantRecord{2, {}, 0x40000000})) ==
        "not-canonical");
  CHECK(problem_of(with_record(SectionId::lists, uint32_t{0})) == "not-canonical");
  CHECK(problem_of(with_record(SectionId::data, uint64_t{0})) == "not-canonical");
  format::TypeRecord type{};
  type.dtype = 3;
  CHECK(problem_of(with_record(SectionId::types, type)) == "not-canonical");

  TkbFile moved(encode(full_module()));  // the tensor's data where the test's belongs
  moved.poke<uint64_t>(SectionId::tensors, 16, 64);
  CHECK(problem_of(moved.assemble()) == "not-canonical");

  TkbFile named(encode(full_module()));  // comments out of order
  Bytes& comments = named.find(SectionId::comments)->bytes;
  std::rotate(comments.begin(), comments.begin() + sizeof(format::CommentRecord), comments.end());
  CHECK(problem_of(named.assemble()) == "not-canonical");

  Bytes gap = encode(full_module());  // a byte between sections
  TkbFile file(gap);
  const format::SectionEntry& data = file.find(SectionId::data)->entry;
  gap[data.offset - 1] = std::byte{1};
  CHECK(problem_of(gap) == "not-canonical");
}

}  // namespace
}  // namespace trek::isa
