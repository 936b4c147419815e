// The instruction table as data, and what is derived from it.
#include <set>

#include <catch2/catch.hpp>

#include "isa/builder.h"
#include "isa/cost.h"

using namespace trek::isa;

TEST_CASE("every row is found by its number and by its mnemonic, and by nothing else") {
  std::set<std::string_view> mnemonics;
  for (const OpInfo& op : all_ops()) {
    CHECK(find_op(static_cast<uint16_t>(op.opcode)) == &op);
    CHECK(find_op(op.mnemonic) == &op);
    CHECK(&info(op.opcode) == &op);
    CHECK(&all_ops()[static_cast<size_t>(index_of(op.opcode))] == &op);
    CHECK(mnemonics.insert(op.mnemonic).second);
  }
  CHECK(find_op(uint16_t{0}) == nullptr);
  CHECK(find_op("matmull") == nullptr);
}

TEST_CASE("a suffix after a dot names a variant of an instruction that exists") {
  for (const OpInfo& op : all_ops()) {
    const size_t dot = op.mnemonic.rfind('.');
    if (dot == std::string_view::npos) continue;
    CAPTURE(op.mnemonic);
    CHECK(find_op(op.mnemonic.substr(0, dot)) != nullptr);
  }
}

TEST_CASE("families and numerics have names, and a row says what its numbers are") {
  for (const OpInfo& op : all_ops()) {
    CAPTURE(op.mnemonic);
    CHECK_FALSE(name(op.family).empty());
    CHECK_FALSE(name(op.numerics).empty());
    CHECK(op.summary.back() == '.');
    for (const AttributeInfo& attribute : op.attributes) {
      CHECK_FALSE(attribute.meaning.empty());
      CHECK(op.attribute(attribute.name) == &attribute - op.attributes.begin());
    }
    CHECK(op.attribute("nonsense") == -1);
  }
}

TEST_CASE("tails are the unary pointwise instructions that need no attribute") {
  CHECK(is_tail(info(Opcode::Relu)));
  CHECK(is_tail(info(Opcode::GeluTanh)));
  CHECK(is_tail(info(Opcode::LeakyRelu)));
  CHECK_FALSE(is_tail(info(Opcode::Add)));
  CHECK_FALSE(is_tail(info(Opcode::Clamp)));
  CHECK_FALSE(is_tail(info(Opcode::Softmax)));
}

TEST_CASE("errors and traps have codes and sentences of their own") {
  std::set<std::string_view> codes;
  for (int i = 0; i < kErrorCount; ++i) {
    const auto error = static_cast<ErrorCode>(i);
    CHECK(codes.insert(code(error)).second);
    CHECK_FALSE(sentence(error).empty());
  }
  CHECK(name(TrapCode::None) == "none");
  CHECK(sentence(TrapCode::None).empty());
  CHECK(name(TrapCode::DivideByZero) == "divide-by-zero");
  CHECK_FALSE(sentence(TrapCode::DivideByZero).empty());
  CHECK(name(static_cast<TrapCode>(200)) == "unknown");
}

TEST_CASE("a misspelt word is matched with the nearest candidate, a foreign one with none") {
  const std::vector<std::string_view> words{"matmul", "maximum", "mul", "softmax"};
  CHECK(nearest("matmull", words) == "matmul");
  CHECK(nearest("mamtul", words) == "matmul");
  CHECK(nearest("maximun", words) == "maximum");
  CHECK(nearest("convolution", words).empty());
  CHECK(nearest(std::string(1000, 'x'), words).empty());
}

TEST_CASE("costs follow the rows: products, elements, bytes") {
  Module module;
  Builder build(module);
  const Ref a = build.tensor("a", Type::tensor(DType::f32, {3, 4, 5}), Role::input);
  const Ref b = build.tensor("b", Type::tensor(DType::f32, {6, 5}), Role::input);
  const Ref w = build.tensor("w", Type::tensor(DType::f32, {3, 4, 5}), Role::state);
  build.begin_function("main");
  const auto last_cost = [&] {
    return cost(module, build.function(), build.function().code.back());
  };

  REQUIRE_FALSE(build.add(Opcode::Matmul, {a, b}, {{}, Builder::number(1)}));  // tb
  CHECK(last_cost().flops == 2 * 3 * 4 * 6 * 5);
  CHECK(last_cost().bytes == 4 * (60 + 30 + 72));
  REQUIRE_FALSE(build.add(Opcode::Sum, {a}));
  CHECK(last_cost().flops == 60);
  REQUIRE_FALSE(build.add(Opcode::Sgd, {w, a}, {build.real(DType::f32, 0.5)}));
  CHECK(last_cost().bytes == 4 * (2 * 60 + 60));
  REQUIRE_FALSE(build.add(Opcode::ClipNorm, {a, b}, {build.real(DType::f32, 1)}));
  CHECK(last_cost().flops == 3 * (60 + 30));
  const std::vector<int64_t> size{1, 1, 2};
  const Ref zero = build.integer(0);
  REQUIRE_FALSE(build.add(Opcode::Slice, {a},
                          {build.list(std::vector<Ref>{zero, zero, zero}), build.integers(size)}));
  CHECK(last_cost().bytes == 2 * 2 * 4);
  build.open_while({});
  CHECK(last_cost().bytes == 0);
}

TEST_CASE("tables intern: equal strings, types and constants are one entry") {
  Module module;
  Builder build(module);
  CHECK(build.string("a") == build.string("a"));
  CHECK(build.type(Type::tensor(DType::f32, {1, 2})) ==
        build.type(Type::tensor(DType::f32, {1, 2})));
  CHECK(build.type(Type::tensor(DType::f32, {})) != build.type(Type::make_scalar(DType::f32)));
  CHECK(build.integer(7) == build.integer(7));
  Builder again(module);  // one that goes on from a module that exists
  CHECK(again.string("a") == build.string("a"));
  CHECK(again.integer(7) == build.integer(7));
  const std::vector<std::byte> bytes(10);
  CHECK(build.embed(bytes) == 0);
  CHECK(build.embed(bytes) == kDataAlignment);
}
