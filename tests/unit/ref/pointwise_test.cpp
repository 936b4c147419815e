// Pointwise instructions: broadcasting, scalars beside tensors, every row for every type.
#include <cmath>

#include "emulator/kernels/kernel_level.h"
#include "tests/unit/ref/fixture.h"

using namespace trek;
using namespace trek::test;

TEST_CASE("every pointwise row has a kernel for every element type that it takes") {
  std::string why;
  const kernels::Kernels* kernels = kernels::choose_kernels(why);
  REQUIRE(kernels != nullptr);
  for (const isa::OpInfo& op : isa::all_ops()) {
    if (op.family != isa::Family::pointwise && op.opcode != Opcode::Where) continue;
    for (int code = 1; code < isa::kDTypeCount; ++code) {
      const auto dtype = static_cast<DType>(code);
      if (!op.t.contains(dtype)) continue;
      const DType lane = op.opcode == Opcode::Where ? dtype : isa::compute_type(dtype);
      INFO(op.mnemonic << " of " << isa::name(dtype));
      CHECK(kernels->element(op.opcode, lane) != nullptr);
    }
  }
}

TEST_CASE("operands broadcast along leading, trailing and inner axes") {
  Fixture f;
  const Ref x = f.input("x", DType::f32, {2, 3});
  const Ref row = f.input("row", DType::f32, {3});
  const Ref column = f.input("column", DType::f32, {2, 1});
  const Ref one = f.input("one", DType::f32, {});
  const Ref by_row = f.output("by_row", DType::f32, {2, 3});
  const Ref outer = f.output("outer", DType::f32, {2, 3});
  const Ref by_one = f.output("by_one", DType::f32, {2, 3});
  f.build.begin_function("main");
  f.add(Opcode::Add, {x, row}, {}, {by_row});
  f.add(Opcode::Mul, {column, row}, {}, {outer});
  f.add(Opcode::Sub, {one, x}, {}, {by_one});
  f.build.end_function();
  f.bind_reals(x, {1, 2, 3, 4, 5, 6});
  f.bind_reals(row, {10, 20, 30});
  f.bind_reals(column, {2, 3});
  f.bind_reals(one, {1});
  f.must_run();
  CHECK(f.read_reals(by_row) == std::vector<double>{11, 22, 33, 14, 25, 36});
  CHECK(f.read_reals(outer) == std::vector<double>{20, 40, 60, 30, 60, 90});
  CHECK(f.read_reals(by_one) == std::vector<double>{0, -1, -2, -3, -4, -5});
}

TEST_CASE("a scalar beside tensors is rounded to their type first") {
  Fixture f;
  const Ref x = f.input("x", DType::f16, {1});
  const Ref y = f.output("y", DType::f16, {1});
  const Ref wrapped = f.output("wrapped", DType::u8, {1});
  const Ref bytes = f.input("bytes", DType::u8, {1});
  const Ref s = f.build.param("s", DType::f32, 0x45001000);  // 2049: f16 has 2048 and 2050
  const Ref n = f.build.param("n", DType::i64, 257);
  f.build.begin_function("main");
  f.add(Opcode::Add, {x, s}, {}, {y});
  f.add(Opcode::Add, {bytes, n}, {}, {wrapped});
  f.build.end_function();
  f.bind_reals(x, {1});
  f.bind_reals(bytes, {5});
  f.must_run();
  CHECK(f.read_reals(y) == std::vector<double>{2048});  // 2048 + 1, not 2049 + 1
  CHECK(f.read_reals(wrapped) == std::vector<double>{6});
}

TEST_CASE("scalar instructions compute in the registers' types") {
  Fixture f;
  const Ref y = f.output("y", DType::f64, {2});
  const Ref a = f.build.param("a", DType::i64, 7);
  f.build.begin_function("main");
  const Ref product = f.add(Opcode::Mul, {a, f.build.integer(-3)});
  const Ref rest = f.add(Opcode::Mod, {product, f.build.integer(4)});
  const Ref real = f.add(Opcode::Cast, {rest}, {Fixture::dtype(DType::f64)});
  const Ref root = f.add(Opcode::Sqrt, {real});
  f.add(Opcode::Store, {y, real}, {f.list({0})});
  f.add(Opcode::Store, {y, root}, {f.list({1})});
  f.build.end_function();
  f.must_run();
  CHECK(f.read<double>(y) == std::vector<double>{3, std::sqrt(3.0)});
}

TEST_CASE("narrow floats are computed in f32 and rounded once") {
  Fixture f;
  const Ref x = f.input("x", DType::bf16, {2});
  const Ref y = f.input("y", DType::bf16, {2});
  const Ref r = f.output("r", DType::bf16, {2});
  f.build.begin_function("main");
  f.add(Opcode::Fma, {x, y, x}, {}, {r});
  f.build.end_function();
  f.bind_reals(x, {1.0078125, 3});
  f.bind_reals(y, {1.0078125, 5});
  f.must_run();
  CHECK(f.read_reals(r) == std::vector<double>{2.03125, 18});  // 2.02349853515625 rounded
}

TEST_CASE("where chooses bits of every width, and relations give bool") {
  Fixture f;
  const Ref x = f.input("x", DType::f8e5m2, {3});
  const Ref y = f.input("y", DType::f8e5m2, {3});
  const Ref a = f.input("a", DType::f32, {3});
  const Ref r = f.output("r", DType::f8e5m2, {3});
  const Ref less = f.output("less", DType::boolean, {3});
  f.build.begin_function("main");
  const Ref c = f.add(Opcode::Lt, {a, f.build.real(DType::f32, 0)});
  f.add(Opcode::Where, {c, x, y}, {}, {r});
  f.add(Opcode::Copy, {c}, {}, {less});
  f.build.end_function();
  f.bind_reals(x, {1, 2, 3});
  f.bind_reals(y, {4, 5, 6});
  f.bind(a, std::vector<float>{-1, std::nanf(""), 0});
  f.must_run();
  CHECK(f.read_reals(r) == std::vector<double>{1, 5, 6});
  CHECK(f.read<uint8_t>(less) == std::vector<uint8_t>{1, 0, 0});
}

TEST_CASE("a tensor may be its own destination where the instruction goes by elements") {
  Fixture f;
  const Ref w = f.state("w", DType::f32, {3000});
  const Ref x = f.input("x", DType::f32, {3000});
  f.build.begin_function("main");
  f.add(Opcode::Add, {w, x}, {}, {w});
  f.add(Opcode::LeakyRelu, {w}, {f.build.real(DType::f32, 0.5)}, {w});
  f.add(Opcode::Clamp, {w}, {f.build.real(DType::f32, -1), f.build.real(DType::f32, 2)}, {w});
  f.build.end_function();
  std::vector<double> values(3000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 7) - 3;
  f.bind_reals(w, values);
  f.bind_reals(x, values);
  f.must_run();
  const auto got = f.read_reals(w);
  for (size_t i = 0; i < values.size(); ++i) {
    const double sum = 2 * values[i];
    const double leaky = sum > 0 ? sum : sum / 2;
    CHECK(got[i] == std::min(2.0, std::max(-1.0, leaky)));
  }
}
