#include "hostlib/bindings.h"

#include "assembler/data/data.h"
#include "isa/builder.h"
#include "isa/convert.h"
#include "tests/unit/hostlib/scratch.h"

using namespace trek;
using isa::Builder;
using isa::DType;
using isa::ErrorCode;
using isa::Module;
using isa::Role;
using isa::Type;

namespace {

const Type kPair = Type::tensor(DType::f32, {2});

// input @x, state @w, state @v, stream @s, params of each type.
Module sample() {
  Module module;
  Builder build(module);
  build.tensor("x", kPair, Role::input);
  build.tensor("w", kPair, Role::state);
  build.tensor("v", Type::tensor(DType::i64, {}), Role::state);
  build.tensor("s", kPair, Role::stream);
  build.param("n", DType::i64, 0);
  build.param("lr", DType::f32, 0);
  build.param("d", DType::f64, 0);
  build.param("flag", DType::boolean, 0);
  return module;
}

uint64_t set_to(const char* name, const char* text) {
  const Module module = sample();
  Bindings bindings(module);
  const isa::Problems problems = bindings.set(name, text);
  CAPTURE(name, text);
  REQUIRE(problems.empty());
  return bindings.params().begin()->second;
}

ErrorCode refused(const char* name, const char* text) {
  const Module module = sample();
  Bindings bindings(module);
  const isa::Problems problems = bindings.set(name, text);
  CAPTURE(name, text);
  REQUIRE(problems.size() == 1);
  CHECK(bindings.params().empty());
  return problems[0].code;
}

std::vector<NamedArray> good_state(const std::vector<std::byte>& w,
                                   const std::vector<std::byte>& v) {
  return {{"w", DType::f32, {2}, w}, {"v", DType::i64, {}, v}};
}

}  // namespace

TEST_CASE("a parameter is read in its own type, rounded once") {
  CHECK(set_to("n", "-5") == static_cast<uint64_t>(-5));
  CHECK(set_to("$n", "0x10") == 16);
  CHECK(set_to("n", "0b101") == 5);
  CHECK(set_to("n", "-9223372036854775808") == uint64_t{1} << 63);
  CHECK(set_to("lr", "0.1") == isa::double_to_bits(DType::f32, 0.1));
  // Halfway between two f32 values in f64, above it as written: by way of f64 it would round down.
  CHECK(set_to("lr", "1.00000005960464477540") == 0x3F800001);
  CHECK(set_to("d", "1e-3") == isa::double_to_bits(DType::f64, 1e-3));
  CHECK(set_to("lr", "inf") == 0x7F800000);
  CHECK(set_to("flag", "true") == 1);
  CHECK(set_to("flag", "0") == 0);
}

TEST_CASE("a parameter's value that does not fit is refused") {
  for (const char* text :
       {"", "1.5", "0x", "9223372036854775808", "-9223372036854775809", "1 ", "--1"})
    CHECK(refused("n", text) == ErrorCode::InvalidNumber);
  for (const char* text : {"abc", "1e99", "0.1f", ""})
    CHECK(refused("lr", text) == ErrorCode::InvalidNumber);
  CHECK(refused("flag", "yes") == ErrorCode::InvalidNumber);
  CHECK(refused("l", "1") == ErrorCode::UnknownName);
}

TEST_CASE("bytes must be those of the tensor, or of whole blocks") {
  const Module module = sample();
  Bindings bindings(module);
  CHECK(bindings.bind("x", bytes_of<float>({1, 2})).empty());
  CHECK(bindings.bind("x", bytes_of<float>({1, 2, 3}))[0].code == ErrorCode::DataShape);
  CHECK(bindings.bind("s", bytes_of<float>({1, 2, 3, 4})).empty());
  CHECK(bindings.bind("s", {}).empty());
  CHECK(bindings.bind("s", bytes_of<float>({1}))[0].code == ErrorCode::DataShape);
}

TEST_CASE("inputs and streams without data are listed, states are not") {
  const Module module = sample();
  Bindings bindings(module);
  REQUIRE(bindings.unbound().size() == 2);
  CHECK(bindings.bind("x", bytes_of<float>({1, 2})).empty());
  REQUIRE(bindings.unbound().size() == 1);
  CHECK(bindings.unbound()[0].message == "stream @s f32[2] has no data");
}

TEST_CASE("a state file gives every state") {
  const Scratch scratch;
  const Module module = sample();
  const auto w = bytes_of<float>({1, 2});
  const auto v = bytes_of<int64_t>({3});
  REQUIRE(write_safetensors(scratch.file("s.safetensors"), good_state(w, v)).empty());
  Bindings bindings(module);
  REQUIRE(bindings.load_state(scratch.file("s.safetensors")).empty());
  CHECK(bindings.tensors().at(1) == w);
  CHECK(bindings.tensors().at(2) == v);
}

TEST_CASE("all that is wrong with a state file is reported at once") {
  const Scratch scratch;
  const Module module = sample();
  const auto w = bytes_of<float>({1, 2, 3});
  const auto v = bytes_of<int64_t>({3});
  std::vector<NamedArray> arrays = good_state(w, v);
  arrays[0].shape = {3};
  arrays[1].name = "vv";
  REQUIRE(write_safetensors(scratch.file("s.safetensors"), arrays).empty());
  Bindings bindings(module);
  const isa::Problems problems = bindings.load_state(scratch.file("s.safetensors"));
  REQUIRE(problems.size() == 3);
  CHECK(problems[0].code == ErrorCode::DataShape);    // w
  CHECK(problems[1].code == ErrorCode::UnknownName);  // v is missing
  CHECK(problems[2].code == ErrorCode::UnknownName);  // vv is not wanted
  CHECK(problems[2].help == "did you mean '@v'?");
}
