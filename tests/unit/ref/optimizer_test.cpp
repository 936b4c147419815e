// Optimizers: one step by hand, in numbers that are exact; and what is in place stays in place.
#include <cmath>

#include "isa/semantics/optimizer_sparing.h"
#include "isa/semantics/power.h"
#include "tests/unit/ref/fixture.h"

using namespace trek;
using namespace trek::test;

TEST_CASE("sgd and its momentum step along the decayed gradient") {
  Fixture f;
  const Ref w = f.state("w", DType::f32, {2});
  const Ref u = f.state("u", DType::f32, {2});
  const Ref v = f.state("v", DType::f32, {2});
  const Ref g = f.input("g", DType::f32, {2});
  f.build.begin_function("main");
  const Ref half = f.build.real(DType::f32, 0.5);
  f.add(Opcode::Sgd, {w, g}, {half, f.build.real(DType::f32, 0.25)});
  f.add(Opcode::SgdMomentum, {u, v, g}, {half, half, Ref{}, Fixture::flag()});
  f.build.end_function();
  f.bind_reals(w, {4, -8});
  f.bind_reals(u, {4, -8});
  f.bind_reals(v, {2, 2});
  f.bind_reals(g, {1, 2});
  f.must_run();
  CHECK(f.read_reals(w) == std::vector<double>{3, -8});     // g + w/4 = 2, 0
  CHECK(f.read_reals(v) == std::vector<double>{2, 3});      // v/2 + g
  CHECK(f.read_reals(u) == std::vector<double>{3, -9.75});  // v/2 + g again: 2, 3.5
}

TEST_CASE("the momentum step that spares subnormal numbers has the same bits") {
  using semantics::from_bits;
  using semantics::to_bits;
  std::vector<float> numbers;  // of all magnitudes, both signs
  uint32_t state = 1;
  const auto random = [&state] { return state = state * 1664525U + 1013904223U; };
  for (const uint32_t edge : {0U, 1U, 2U, 5U, 0x7F'FFFFU, 0x80'0000U, 0x80'0001U, 0x1F80'0000U,
                              0x3F80'0000U, 0x7F7F'FFFFU, 0x7F80'0000U, 0x7FC0'0000U})
    for (const uint32_t sign : {0U, 0x8000'0000U}) numbers.push_back(from_bits<float>(edge | sign));
  for (int i = 0; i < 6; ++i) {
    numbers.push_back(from_bits<float>(random() & 0x807F'FFFFU));  // subnormal
    numbers.push_back(from_bits<float>((random() & 0x807F'FFFFU) | 0x1F00'0000U));
    numbers.push_back(from_bits<float>(random()));
  }
  const auto same = [](float a, float b) {
    return to_bits(a) == to_bits(b) || (std::isnan(a) && std::isnan(b));
  };
  int64_t wrong = 0;
  for (const float momentum : {0.9F, -0.9F, 0.5F, 1.0F, 0.0F, 2.0F, 1e-30F, 1e-39F, INFINITY})
    for (const float lr : {0.1F, -3.0F, 0.0F, 1e-40F, 1e20F, INFINITY})
      for (const float decay : {0.0F, 0.01F})
        for (const bool nesterov : {false, true}) {
          const semantics::MomentumParameters<float> p = {lr, momentum, decay, nesterov};
          for (const float w : numbers)
            for (const float v : numbers)
              for (const float g : numbers) {
                float plain = v;
                float spared = v;
                const float a = semantics::sgd_momentum(p, w, plain, g);
                const float b = semantics::sgd_momentum_sparing(p, w, spared, g);
                if (!same(a, b) || !same(plain, spared)) ++wrong;
              }
        }
  CHECK(wrong == 0);
}

TEST_CASE("adam and adamw take bias-corrected steps") {
  Fixture f;
  const Ref w = f.state("w", DType::f32, {1});
  const Ref m = f.state("m", DType::f32, {1});
  const Ref v = f.state("v", DType::f32, {1});
  const Ref w2 = f.state("w2", DType::bf16, {1});
  const Ref m2 = f.state("m2", DType::f32, {1});
  const Ref v2 = f.state("v2", DType::f32, {1});
  const Ref g = f.input("g", DType::f32, {1});
  const Ref g2 = f.input("g2", DType::bf16, {1});
  const Ref at = f.build.param("at", DType::i64, 2);
  f.build.begin_function("main");
  const Ref half = f.build.real(DType::f32, 0.5);
  const Ref zero = f.build.real(DType::f32, 0);
  f.add(Opcode::Adam, {w, m, v, g}, {half, half, half, zero, at});
  f.add(Opcode::Adamw, {w2, m2, v2, g2}, {half, half, half, zero, at, half});
  f.build.end_function();
  f.bind_reals(w, {1});
  f.bind_reals(g, {2});
  f.bind_reals(w2, {1});
  f.bind_reals(g2, {2});
  f.must_run();
  // m = 1, v = 2, both ÷ 0.75; d = (4/3) ÷ sqrt(8/3).
  const float direction = (1.0f / 0.75f) / std::sqrt(2.0f / 0.75f);
  CHECK(f.read<float>(m)[0] == 1.0f);
  CHECK(f.read<float>(v)[0] == 2.0f);
  CHECK(f.read<float>(w)[0] == std::fma(-0.5f, direction, 1.0f));
  const auto decoupled = static_cast<double>(std::fma(-0.5f, direction, 0.75f));
  CHECK(f.read_reals(w2)[0] ==
        isa::bits_to_double(DType::bf16, isa::double_to_bits(DType::bf16, decoupled)));
}

TEST_CASE("a correction by squaring is that by pow") {
  const auto by_pow = [](float beta, int64_t step) {
    return static_cast<float>(1.0 -
                              semantics::pow(static_cast<double>(beta), static_cast<double>(step)));
  };
  const auto differs = [&](float beta, int64_t step) {
    return semantics::to_bits(semantics::adam_correction(beta, step)) !=
           semantics::to_bits(by_pow(beta, step));
  };
  int different = 0;
  for (const float beta : {0.9F, 0.95F, 0.98F, 0.99F, 0.999F, 0.9999F, 0x1.fffffep-1F, 0.5F, 0.1F,
                           0x1p-149F, 0.0F, 1.0F, -0.5F, 1.5F})
    for (int64_t step = 1; step <= 100'000; ++step) different += differs(beta, step) ? 1 : 0;
  // Any beta below 1, and steps of all magnitudes.
  uint64_t state = 1;
  for (int i = 0; i < 1'000'000; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto beta = static_cast<float>(state >> 40) * 0x1p-24F;
    const auto step = static_cast<int64_t>((state >> 6) % (uint64_t{1} << (1 + state % 62)));
    different += differs(beta, step) ? 1 : 0;
    different += differs(1 - beta * beta * beta * beta, 1 + step % 4096) ? 1 : 0;
  }
  CHECK(different == 0);
}

TEST_CASE("rmsprop divides by the root of the decayed square") {
  Fixture f;
  const Ref w = f.state("w", DType::f64, {1});
  const Ref v = f.state("v", DType::f64, {1});
  const Ref g = f.input("g", DType::f64, {1});
  f.build.begin_function("main");
  const Ref half = f.build.real(DType::f64, 0.5);
  f.add(Opcode::Rmsprop, {w, v, g}, {half, half, f.build.real(DType::f64, 1)});
  f.build.end_function();
  f.bind_reals(w, {10});
  f.bind_reals(v, {2});
  f.bind_reals(g, {4});
  f.must_run();
  CHECK(f.read_reals(v) == std::vector<double>{9});
  CHECK(f.read_reals(w) == std::vector<double>{9.5});
}

TEST_CASE("clip_norm scales all gradients by their common norm") {
  Fixture f;
  const Ref a = f.input("a", DType::f32, {1});
  const Ref b = f.input("b", DType::f32, {2, 1});
  const Ref norm = f.output("norm", DType::f32, {});
  const Ref ra = f.output("ra", DType::f32, {1});
  const Ref rb = f.output("rb", DType::f32, {2, 1});
  const Ref most = f.build.param("most", DType::f32, 0x40200000);  // 2.5
  f.build.begin_function("main");
  f.add(Opcode::ClipNorm, {a, b}, {most}, {norm, ra, rb});
  f.build.end_function();
  f.bind_reals(a, {3});
  f.bind_reals(b, {0, -4});
  f.must_run();
  CHECK(f.read_reals(norm) == std::vector<double>{5});
  CHECK(f.read_reals(ra) == std::vector<double>{1.5});
  CHECK(f.read_reals(rb) == std::vector<double>{0, -2});
  f.program->set(most.index(), 0x41200000);  // 10
  f.must_run();
  CHECK(f.read_reals(ra) == std::vector<double>{3});
}
