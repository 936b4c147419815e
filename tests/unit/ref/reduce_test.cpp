// Reductions and orders: the engine against the plain statement of the reduction order, and small cases
// by hand.
#include "isa/semantics/reduce.h"

#include <cmath>
#include <numeric>

#include "tests/unit/ref/fixture.h"

using namespace trek;
using namespace trek::test;

namespace {

struct Add {
  float operator()(float a, float b) const { return a + b; }
};

float plain_sum(const std::vector<float>& values) {
  semantics::Ordered<float, Add> ordered{Add{}};
  for (float value : values) ordered.push(value);
  return ordered.finish(0.0f);
}

}  // namespace

TEST_CASE("the plain reduction order is the one that the ISA states") {
  // By hand, literally: partials, the fold, then the same over tile results.
  const auto by_hand = [](std::vector<float> x) {
    while (x.size() > 1) {
      std::vector<float> tiles;
      for (size_t t = 0; t < x.size(); t += 1024) {
        std::vector<float> p(32);
        std::vector<bool> present(32, false);
        for (size_t i = t; i < std::min(t + 1024, x.size()); ++i) {
          const size_t j = (i - t) % 32;
          p[j] = present[j] ? p[j] + x[i] : x[i];
          present[j] = true;
        }
        for (size_t half = 16; half > 0; half /= 2)
          for (size_t j = 0; j < half; ++j) {
            if (!present[j + half]) continue;
            p[j] = present[j] ? p[j] + p[j + half] : p[j + half];
            present[j] = true;
          }
        tiles.push_back(p[0]);
      }
      x = tiles;
    }
    return x[0];
  };
  for (size_t n : {1, 2, 17, 31, 32, 33, 63, 1023, 1024, 1025, 2048, 5000, 1024 * 1024 + 7}) {
    const auto values = noise(n, n);
    INFO("n = " << n);
    CHECK(plain_sum(values) == by_hand(values));
  }
}

TEST_CASE("sums along any axes are those of the plain reduction order") {
  const auto check = [](Shape shape, std::vector<int64_t> axes) {
    INFO(shape.text() << " over " << axes.size() << " axes, first " << axes[0]);
    Fixture f;
    Shape kept;
    std::vector<bool> reduced(static_cast<size_t>(shape.rank()), false);
    for (int64_t axis : axes) reduced[static_cast<size_t>(axis)] = true;
    for (int i = 0; i < shape.rank(); ++i)
      if (!reduced[static_cast<size_t>(i)]) kept.push_back(shape[i]);
    const Ref x = f.input("x", DType::f32, shape);
    const Ref y = f.output("y", DType::f32, kept);
    f.build.begin_function("main");
    f.add(Opcode::Sum, {x}, {f.build.integers(axes)}, {y});
    f.build.end_function();
    const auto values = noise(static_cast<size_t>(shape.elements()), 7);
    f.bind(x, values);
    f.must_run();
    std::vector<std::vector<float>> groups(static_cast<size_t>(kept.elements()));
    for (int64_t i = 0; i < shape.elements(); ++i) {
      int64_t rest = i;
      int64_t group = 0;
      int64_t stride = 1;
      for (int axis = shape.rank() - 1; axis >= 0; --axis) {
        if (!reduced[static_cast<size_t>(axis)]) {
          group += rest % shape[axis] * stride;
          stride *= shape[axis];
        }
        rest /= shape[axis];
      }
      groups[static_cast<size_t>(group)].push_back(values[static_cast<size_t>(i)]);
    }
    const auto got = f.read<float>(y);
    for (size_t g = 0; g < groups.size(); ++g)
      if (got[g] != plain_sum(groups[g])) FAIL("element " << g << ": " << got[g]);
  };
  check({3, 2500}, {1});
  check({2500, 3}, {0});
  check({2500, 200}, {0});
  check({5, 7, 11}, {1});
  check({40, 7, 60}, {0, 2});
  check({40, 7, 60}, {0, 1});
  check({3, 40, 5, 60}, {1, 3});
  check({3, 40, 5, 60}, {0, 2});
  check({100000}, {0});
  check({1, 1}, {0, 1});
}

TEST_CASE("reductions of nothing give their identity") {
  Fixture f;
  const Ref x = f.input("x", DType::f32, {2, 0});
  const Ref n = f.input("n", DType::i8, {0});
  const Ref sum = f.output("sum", DType::f32, {2});
  const Ref mean = f.output("mean", DType::f32, {2});
  const Ref norm = f.output("norm", DType::f32, {2});
  const Ref prod = f.output("prod", DType::i8, {});
  f.build.begin_function("main");
  f.add(Opcode::Sum, {x}, {f.list({1})}, {sum});
  f.add(Opcode::Mean, {x}, {f.list({1})}, {mean});
  f.add(Opcode::Norm2, {x}, {f.list({1})}, {norm});
  f.add(Opcode::Prod, {n}, {}, {prod});
  f.build.end_function();
  f.must_run();
  CHECK(f.read_reals(sum) == std::vector<double>{0, 0});
  CHECK(std::isnan(f.read_reals(mean)[0]));
  CHECK(f.read_reals(norm) == std::vector<double>{0, 0});
  CHECK(f.read_reals(prod) == std::vector<double>{1});
}

TEST_CASE("integers are summed modulo 2^n and compared in their own order") {
  Fixture f;
  const Ref x = f.input("x", DType::u32, {3});
  const Ref b = f.input("b", DType::i8, {4});
  const Ref most = f.output("most", DType::u32, {});
  const Ref where = f.output("where", DType::u8, {});
  const Ref sum = f.output("sum", DType::i8, {});
  const Ref least = f.output("least", DType::i8, {});
  f.build.begin_function("main");
  f.add(Opcode::Max, {x}, {}, {most});
  f.add(Opcode::Argmin, {x}, {Ref{}, Ref{}, Fixture::dtype(DType::u8)}, {where});
  f.add(Opcode::Sum, {b}, {}, {sum});
  f.add(Opcode::Min, {b}, {}, {least});
  f.build.end_function();
  f.bind(x, std::vector<uint32_t>{3, 0xFFFFFFFF, 2});
  f.bind(b, std::vector<int8_t>{100, 100, -5, 7});
  f.must_run();
  CHECK(f.read<uint32_t>(most)[0] == 0xFFFFFFFF);
  CHECK(f.read<uint8_t>(where)[0] == 2);
  CHECK(f.read<int8_t>(sum)[0] == static_cast<int8_t>(202));
  CHECK(f.read<int8_t>(least)[0] == -5);
}

TEST_CASE("the extreme of floats: NaN wins, +0 is above -0, the first of equals") {
  Fixture f;
  const Ref x = f.input("x", DType::f32, {3, 4});
  const Ref most = f.output("most", DType::f32, {3});
  const Ref argmax = f.output("argmax", DType::i64, {3});
  const Ref argmin = f.output("argmin", DType::i64, {3});
  f.build.begin_function("main");
  f.add(Opcode::Max, {x}, {f.list({-1})}, {most});
  f.add(Opcode::Argmax, {x}, {f.list({1})}, {argmax});
  f.add(Opcode::Argmin, {x}, {f.list({1})}, {argmin});
  f.build.end_function();
  const float nan = std::nanf("");
  f.bind(x, std::vector<float>{-0.0f, 0.0f, 0.0f, -0.0f, 1, nan, nan, 9, 5, 2, 5, 2});
  f.must_run();
  const auto greatest = f.read<float>(most);
  CHECK_FALSE(std::signbit(greatest[0]));
  CHECK(std::isnan(greatest[1]));
  CHECK(greatest[2] == 5);
  CHECK(f.read<int64_t>(argmax) == std::vector<int64_t>{1, 1, 0});
  CHECK(f.read<int64_t>(argmin) == std::vector<int64_t>{0, 1, 1});
}

TEST_CASE("running sums restart in blocks of 32 with the offset of those before") {
  const size_t n = 100;
  Fixture f;
  const Ref x = f.input("x", DType::f32, {100, 3});
  const Ref y = f.output("y", DType::f32, {100, 3});
  f.build.begin_function("main");
  f.add(Opcode::Cumsum, {x}, {f.build.integer(0)}, {y});
  f.build.end_function();
  const auto values = noise(3 * n, 3);
  f.bind(x, values);
  f.must_run();
  const auto got = f.read<float>(y);
  for (size_t c = 0; c < 3; ++c) {
    float offset = 0;
    float running = 0;
    for (size_t i = 0; i < n; ++i) {
      const float value = values[3 * i + c];
      if (i % 32 == 0) {
        if (i == 32) offset = running;
        if (i > 32) offset = offset + running;
        running = value;
      } else {
        running = running + value;
      }
      CHECK(got[3 * i + c] == (i < 32 ? running : offset + running));
    }
  }
}

TEST_CASE("sorting is stable, also when descending, and top_k takes its head") {
  Fixture f;
  const Ref x = f.input("x", DType::i64, {6, 2});
  const Ref up = f.output("up", DType::i64, {6, 2});
  const Ref down = f.output("down", DType::i32, {6, 2});
  const Ref best = f.output("best", DType::i64, {2, 2});
  const Ref places = f.output("places", DType::i64, {2, 2});
  f.build.begin_function("main");
  f.add(Opcode::Sort, {x}, {f.build.integer(0)}, {up});
  f.add(Opcode::Argsort, {x}, {f.build.integer(0), Fixture::flag(), Fixture::dtype(DType::i32)},
        {down});
  f.add(Opcode::TopK, {x}, {f.build.integer(2), f.build.integer(0)}, {best, places});
  f.build.end_function();
  f.bind(x, std::vector<int64_t>{3, 0, -1, 0, 3, 5, 2, 5, 3, 1, -1, 1});
  f.must_run();
  CHECK(f.read<int64_t>(up) == std::vector<int64_t>{-1, 0, -1, 0, 2, 1, 3, 1, 3, 5, 3, 5});
  CHECK(f.read<int32_t>(down) == std::vector<int32_t>{0, 2, 2, 3, 4, 4, 3, 5, 1, 0, 5, 1});
  CHECK(f.read<int64_t>(best) == std::vector<int64_t>{3, 5, 3, 5});
  CHECK(f.read<int64_t>(places) == std::vector<int64_t>{0, 2, 2, 3});
}

TEST_CASE("long lines sort as short ones do") {
  Fixture f;
  const Ref x = f.input("x", DType::f32, {20000});
  const Ref y = f.output("y", DType::i64, {20000});
  f.build.begin_function("main");
  f.add(Opcode::Argsort, {x}, {}, {y});
  f.build.end_function();
  auto values = noise(20000, 5);
  values[77] = std::nanf("");
  values[78] = -std::nanf("");
  f.bind(x, values);
  f.must_run();
  std::vector<int64_t> want(values.size());
  std::iota(want.begin(), want.end(), 0);
  const auto rank = [&](int64_t i) {
    const float v = values[static_cast<size_t>(i)];
    return std::isnan(v) ? 1e30
           : v == 0      ? (std::signbit(v) ? -1e-30 : 0.0)
                         : static_cast<double>(v);
  };
  std::sort(want.begin(), want.end(), [&](int64_t a, int64_t b) {
    return rank(a) != rank(b) ? rank(a) < rank(b) : a < b;  // stable
  });
  CHECK(f.read<int64_t>(y) == want);
}
