// One program on every number of threads and every level of kernels: the same bits. Sizes are such that
// work is split, and such that vectors have remainders.
#include <algorithm>
#include <cstdlib>

#include "tests/unit/ref/fixture.h"

using namespace trek;
using namespace trek::test;

namespace {

// Sets an environment variable for the time of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// All rows of a family that take one or two reals, and larger instructions, each into an output.
struct Everything : Fixture {
  std::vector<Ref> outputs;

  Ref out(DType dtype, const Shape& shape) {
    outputs.push_back(output("y" + std::to_string(outputs.size()), dtype, shape));
    return outputs.back();
  }

  explicit Everything(DType dtype, int threads = 1) {
    load_options.threads = threads;
    const Shape shape{67, 1031};
    const Ref x = input("x", dtype, shape);
    const Ref y = input("y", dtype, shape);
    const Ref t = input("t", DType::i32, {67});
    const Ref w = input("w", dtype, {1031, 130});
    struct Result {
      Opcode opcode;
      std::vector<Ref> operands;
      std::vector<Ref> attributes;
    };
    std::vector<Result> steps;
    for (const isa::OpInfo& op : isa::all_ops()) {
      if (op.family != isa::Family::pointwise || !op.t.contains(dtype)) continue;
      std::vector<Ref> operands = {x, y, x};
      operands.resize(op.operands.size());
      std::vector<Ref> attributes;
      if (op.attribute("low") >= 0) attributes = {build.real(dtype, -0.5), build.real(dtype, 1.5)};
      steps.push_back({op.opcode, operands, attributes});
    }
    for (Opcode opcode : {Opcode::Sum, Opcode::Mean, Opcode::Max, Opcode::Min, Opcode::Prod,
                          Opcode::Norm2, Opcode::Argmax, Opcode::Argmin})
      for (int64_t axis : {0, 1}) steps.push_back({opcode, {x}, {list({axis})}});
    for (Opcode opcode : {Opcode::Sum, Opcode::Norm2}) steps.push_back({opcode, {x}, {}});
    for (Opcode opcode : {Opcode::Cumsum, Opcode::Sort, Opcode::Softmax, Opcode::LogSoftmax})
      for (int64_t axis : {0, 1}) steps.push_back({opcode, {x}, {build.integer(axis)}});
    steps.push_back({Opcode::SoftmaxGrad, {x, y}, {}});
    steps.push_back({Opcode::LogSoftmaxGrad, {x, y}, {}});
    steps.push_back({Opcode::CrossEntropy, {x, t}, {}});
    steps.push_back({Opcode::Matmul, {x, w}, {}});
    steps.push_back({Opcode::Matmul, {x, y}, {flag(), Ref{}}});
    steps.push_back({Opcode::Matmul, {x, y}, {Ref{}, flag()}});
    steps.push_back({Opcode::Cast, {x}, {Fixture::dtype(DType::f8e4m3)}});
    steps.push_back({Opcode::Cast, {x}, {Fixture::dtype(DType::i16)}});
    steps.push_back({Opcode::Normal,
                     {},
                     {Ref{}, Ref{}, list({3001}), Fixture::dtype(dtype), build.integer(3)}});
    steps.push_back({Opcode::Uniform,
                     {},
                     {Ref{}, Ref{}, list({3001}), Fixture::dtype(dtype), build.integer(3)}});

    build.begin_function("main");
    for (const Result& result : steps) {
      const auto fault = build.add(result.opcode, result.operands, result.attributes);
      INFO(isa::info(result.opcode).mnemonic << ": " << (fault ? fault->message : ""));
      REQUIRE_FALSE(fault);
      const Ref made = build.results()[0];
      const Type type = build.type_of(made);
      add(Opcode::Copy, {made}, {}, {out(type.dtype, type.shape)});
    }
    build.end_function();
    must_load();
    std::vector<double> values;
    for (float value : noise(67 * 1031, 31)) values.push_back(static_cast<double>(value));
    bind_reals(x, values);
    std::reverse(values.begin(), values.end());
    bind_reals(y, values);
    values.clear();
    for (float value : noise(1031 * 130, 32)) values.push_back(static_cast<double>(value));
    bind_reals(w, values);
    std::vector<int32_t> classes(67);
    for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<int32_t>(i * 13);
    bind(t, classes);
  }

  // The outputs, all NaNs made one by reading them as numbers.
  std::vector<std::vector<uint64_t>> bits() {
    must_run();
    std::vector<std::vector<uint64_t>> all;
    for (Ref output : outputs) {
      std::vector<uint64_t> one;
      for (double value : read_reals(output)) one.push_back(isa::double_to_bits(DType::f64, value));
      all.push_back(std::move(one));
    }
    return all;
  }
};

void check_same(const std::vector<std::vector<uint64_t>>& want, Everything& other) {
  const auto got = other.bits();
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const auto& instruction = other.module.functions[0].code[2 * i];
    INFO(isa::info(instruction.opcode).mnemonic << ", instruction " << 2 * i);
    CHECK(got[i] == want[i]);
  }
}

std::vector<std::vector<uint64_t>> one_thread(DType dtype) {
  Everything f(dtype);
  return f.bits();
}

// FNV-1a over all bits.
uint64_t hash(const std::vector<std::vector<uint64_t>>& all) {
  uint64_t h = 0xCBF29CE484222325u;
  for (const auto& one : all)
    for (uint64_t bits : one)
      for (int shift = 0; shift < 64; shift += 8) h = (h ^ (bits >> shift & 0xFF)) * 0x100000001B3u;
  return h;
}

}  // namespace

TEST_CASE("one, two and three threads, avx2 and avx512 give the same bits") {
  const DType dtype = GENERATE(DType::f32, DType::f64, DType::f16, DType::bf16);
  INFO(isa::name(dtype));
  const auto want = one_thread(dtype);
  for (const char* level : {"avx2", "avx512"}) {
    const Variable variable("TREK_REF_ISA", level);
    if (!ref_engine_status().available) continue;  // not this processor
    for (int threads : {1, 2, 3}) {
      INFO(level << ", " << threads << " threads");
      Everything f(dtype, threads);
      check_same(want, f);
    }
  }
}

// What holds between two runs of one build holds between builds if each gives the number written here.
// It changes with the bits of the ISA, and with the list of its pointwise instructions.
TEST_CASE("every compiler, with and without optimisation, gives the bits written here") {
  CHECK(hash(one_thread(DType::f32)) == 0x82897c02f2db3f1eu);
  CHECK(hash(one_thread(DType::f64)) == 0xc6a9cbe465199b5bu);
  CHECK(hash(one_thread(DType::f16)) == 0x7f996ccc849fa480u);
  CHECK(hash(one_thread(DType::bf16)) == 0xa9a3bc4d296cdc22u);
}

TEST_CASE("a level that does not exist is refused by name") {
  const Variable level("TREK_REF_ISA", "mmx");
  CHECK_FALSE(ref_engine_status().available);
  Fixture f;
  f.build.begin_function("main");
  f.build.end_function();
  const isa::Problems problems = f.load();
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].message.find("TREK_REF_ISA=mmx") != std::string::npos);
}
