// The matrix product against the plain statement of the dot order, for every layout and odd size.
#include "isa/semantics/dot.h"
#include "tests/unit/ref/fixture.h"

using namespace trek;
using namespace trek::test;

namespace {

struct Size {
  int64_t m, n, k;
};

void check_product(Size size, bool ta, bool tb, int64_t batch) {
  INFO(size.m << " x " << size.n << " x " << size.k << (ta ? " ta" : "") << (tb ? " tb" : "")
              << " batch " << batch);
  const auto [m, n, k] = size;
  Fixture f;
  const Ref a = f.input("a", DType::f32, ta ? Shape{batch, k, m} : Shape{batch, m, k});
  const Ref b = f.input("b", DType::f32, tb ? Shape{n, k} : Shape{k, n});
  const Ref y = f.output("y", DType::f32, {batch, m, n});
  f.build.begin_function("main");
  f.add(Opcode::Matmul, {a, b}, {Fixture::flag(ta), Fixture::flag(tb)}, {y});
  f.build.end_function();
  const auto va = noise(static_cast<size_t>(batch * m * k), 11);
  const auto vb = noise(static_cast<size_t>(n * k), 12);
  f.bind(a, va);
  f.bind(b, vb);
  f.must_run();
  const auto got = f.read<float>(y);
  for (int64_t i = 0; i < batch; ++i)
    for (int64_t row = 0; row < m; ++row)
      for (int64_t column = 0; column < n; ++column) {
        semantics::Dot<float> dot;
        for (int64_t p = 0; p < k; ++p)
          dot.push(va[static_cast<size_t>(i * m * k + (ta ? p * m + row : row * k + p))],
                   vb[static_cast<size_t>(tb ? column * k + p : p * n + column)]);
        const float want = dot.finish();
        const float is = got[static_cast<size_t>((i * m + row) * n + column)];
        if (is != want)
          FAIL("[" << i << "," << row << "," << column << "]: " << is << ", not " << want);
      }
}

}  // namespace

TEST_CASE("the plain dot order is the one that the ISA states") {
  const auto a = noise(9000, 1);
  const auto b = noise(9000, 2);
  semantics::Dot<float> dot;
  float total = 0;
  for (size_t segment = 0; segment < a.size(); segment += 4096) {
    float sum = 0;
    for (size_t block = segment; block < std::min(segment + 4096, a.size()); block += 64) {
      float s = 0;
      for (size_t i = block; i < std::min(block + 64, a.size()); ++i) {
        s = semantics::fma(a[i], b[i], s);
        dot.push(a[i], b[i]);
      }
      sum = block == segment ? s : sum + s;
    }
    total = segment == 0 ? sum : total + sum;
  }
  CHECK(dot.finish() == total);
}

TEST_CASE("products of every layout are dot products in the dot order") {
  const bool ta = GENERATE(false, true);
  const bool tb = GENERATE(false, true);
  for (const Size& size :
       {Size{1, 1, 1}, Size{1, 33, 65}, Size{33, 1, 65}, Size{7, 5, 130}, Size{13, 16, 64},
        Size{14, 32, 63}, Size{29, 100, 200}, Size{70, 49, 17}})
    check_product(size, ta, tb, 1);
  check_product({5, 9, 4100}, ta, tb, 1);
  check_product({1, 40, 8300}, ta, tb, 1);
  check_product({6, 7, 70}, ta, tb, 3);
}

TEST_CASE("a large product is the same whichever thread made it") {
  check_product({300, 170, 260}, false, false, 1);
}

TEST_CASE("no products at all give +0, then bias and tail") {
  Fixture f;
  const Ref a = f.input("a", DType::f32, {2, 0});
  const Ref b = f.input("b", DType::f32, {0, 3});
  const Ref bias = f.input("bias", DType::f32, {3});
  const Ref y = f.output("y", DType::f32, {2, 3});
  f.build.begin_function("main");
  f.add(Opcode::Matmul, {a, b, bias},
        {Ref{}, Ref{}, Ref{}, isa::Builder::number(static_cast<uint32_t>(Opcode::Relu))}, {y});
  f.build.end_function();
  f.bind_reals(bias, {-1, 0, 2});
  f.must_run();
  CHECK(f.read_reals(y) == std::vector<double>{0, 0, 2, 0, 0, 2});
}

TEST_CASE("scale, bias and tail follow in the accumulator's type, rounded once") {
  Fixture f;
  const Ref a = f.input("a", DType::bf16, {1, 2});
  const Ref b = f.input("b", DType::bf16, {2, 2});
  const Ref bias = f.input("bias", DType::f32, {2});
  const Ref narrow = f.output("narrow", DType::bf16, {1, 2});
  const Ref wide = f.output("wide", DType::f32, {1, 2});
  f.build.begin_function("main");
  const Ref half = f.build.real(DType::f32, 0.5);
  f.add(Opcode::Matmul, {a, b, bias}, {Ref{}, Ref{}, half}, {narrow});
  f.add(Opcode::Matmul, {a, b, bias}, {Ref{}, Ref{}, half, Ref{}, Fixture::dtype(DType::f32)},
        {wide});
  f.build.end_function();
  f.bind_reals(a, {256, 1});
  f.bind_reals(b, {1, 2, 1, 1});
  f.bind_reals(bias, {0.25, 1});
  f.must_run();
  CHECK(f.read_reals(wide) == std::vector<double>{128.75, 257.5});
  CHECK(f.read_reals(narrow) == std::vector<double>{129, 258});
}

TEST_CASE("integer products wrap in their accumulator") {
  Fixture f;
  const Ref a = f.input("a", DType::u8, {1, 3});
  const Ref b = f.input("b", DType::u8, {3, 1});
  const Ref c = f.input("c", DType::i32, {2, 2});
  const Ref y = f.output("y", DType::i32, {1, 1});
  const Ref z = f.output("z", DType::i32, {2, 2});
  const Ref real = f.output("real", DType::f32, {1, 1});
  f.build.begin_function("main");
  f.add(Opcode::Matmul, {a, b}, {}, {y});
  f.add(Opcode::Matmul, {c, c}, {}, {z});
  f.add(Opcode::Matmul, {a, b}, {Ref{}, Ref{}, Ref{}, Ref{}, Fixture::dtype(DType::f32)}, {real});
  f.build.end_function();
  f.bind(a, std::vector<uint8_t>{255, 255, 2});
  f.bind(b, std::vector<uint8_t>{255, 255, 3});
  f.bind(c, std::vector<int32_t>{1 << 20, 1, 0, -1});
  f.must_run();
  CHECK(f.read<int32_t>(y)[0] == 130056);
  CHECK(f.read<float>(real)[0] == 130056.0f);
  CHECK(f.read<int32_t>(z) == std::vector<int32_t>{0, (1 << 20) - 1, 0, 1});
}

TEST_CASE("leading axes of both operands and of the bias broadcast") {
  Fixture f;
  const Ref a = f.input("a", DType::f64, {2, 1, 1, 2});
  const Ref b = f.input("b", DType::f64, {3, 2, 2});
  const Ref bias = f.input("bias", DType::f64, {2, 1, 1, 1});
  const Ref y = f.output("y", DType::f64, {2, 3, 1, 2});
  f.build.begin_function("main");
  f.add(Opcode::Matmul, {a, b, bias}, {}, {y});
  f.build.end_function();
  f.bind_reals(a, {1, 10, 2, 20});
  f.bind_reals(b, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  f.bind_reals(bias, {0, 1000});
  f.must_run();
  CHECK(f.read_reals(y) ==
        std::vector<double>{31, 42, 75, 86, 119, 130, 1062, 1084, 1150, 1172, 1238, 1260});
}
