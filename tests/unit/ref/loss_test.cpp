// Softmax and cross-entropy: the stated steps, done here with the same functions one row at a time.
#include <cmath>

#include "isa/semantics/exponential.h"
#include "isa/semantics/logarithm.h"
#include "isa/semantics/reduce.h"
#include "tests/unit/ref/fixture.h"

using namespace trek;
using namespace trek::test;

namespace {

struct Add {
  float operator()(float a, float b) const { return a + b; }
};

struct Row {
  float most;
  std::vector<float> e;
  float sum;
  explicit Row(const std::vector<float>& x) : most(x[0]) {
    for (float value : x) most = std::max(most, value);
    semantics::Ordered<float, Add> ordered{Add{}};
    for (float value : x) {
      e.push_back(semantics::exp(value - most));
      ordered.push(e.back());
    }
    sum = ordered.finish(0);
  }
};

std::vector<float> slice(const std::vector<float>& x, size_t begin, size_t n, size_t stride) {
  std::vector<float> row(n);
  for (size_t i = 0; i < n; ++i) row[i] = x[begin + i * stride];
  return row;
}

}  // namespace

TEST_CASE("softmax is e over its sum along any axis, short or long") {
  for (const int64_t n : {1, 10, 33, 1500, 5000}) {
    INFO("n = " << n);
    Fixture f;
    const Ref x = f.input("x", DType::f32, {n, 4});
    const Ref z = f.input("z", DType::f32, {4, n});
    const Ref down = f.output("down", DType::f32, {n, 4});
    const Ref along = f.output("along", DType::f32, {4, n});
    const Ref logs = f.output("logs", DType::f32, {4, n});
    f.build.begin_function("main");
    f.add(Opcode::Softmax, {x}, {f.build.integer(0)}, {down});
    f.add(Opcode::Softmax, {z}, {}, {along});
    f.add(Opcode::LogSoftmax, {z}, {}, {logs});
    f.build.end_function();
    const auto size = static_cast<size_t>(n);
    const auto values = noise(4 * size, 9);
    f.bind(x, values);
    f.bind(z, values);
    f.must_run();
    const auto got_down = f.read<float>(down);
    const auto got_along = f.read<float>(along);
    const auto got_logs = f.read<float>(logs);
    for (size_t r = 0; r < 4; ++r) {
      const Row column(slice(values, r, size, 4));
      const Row row(slice(values, r * size, size, 1));
      const float log_sum = semantics::log(row.sum);
      for (size_t i = 0; i < size; ++i) {
        if (got_down[i * 4 + r] != column.e[i] / column.sum) FAIL("column " << r << ", " << i);
        if (got_along[r * size + i] != row.e[i] / row.sum) FAIL("row " << r << ", " << i);
        if (got_logs[r * size + i] != (values[r * size + i] - row.most) - log_sum)
          FAIL("log of row " << r << ", " << i);
      }
    }
  }
}

TEST_CASE("cross-entropy and its gradient are the stated steps, for each reduction") {
  const size_t rows = 70;
  const size_t n = 10;
  const auto reduction = static_cast<uint32_t>(GENERATE(0, 1, 2));
  CAPTURE(reduction);
  Fixture f;
  const Shape loss_shape = reduction == 2 ? Shape{70} : Shape{};
  const Ref z = f.input("z", DType::f32, {70, 10});
  const Ref t = f.input("t", DType::u8, {70});
  const Ref dl = f.input("dl", DType::f32, loss_shape);
  const Ref loss = f.output("loss", DType::f32, loss_shape);
  const Ref alone = f.output("alone", DType::f32, loss_shape);
  const Ref dz = f.output("dz", DType::f32, {70, 10});
  const Ref scaled = f.output("scaled", DType::f32, {70, 10});
  f.build.begin_function("main");
  const Ref choice = reduction == 0 ? Ref{} : isa::Builder::number(reduction);
  f.add(Opcode::CrossEntropyWithGrad, {z, t}, {choice}, {loss, dz});
  f.add(Opcode::CrossEntropy, {z, t}, {choice}, {alone});
  f.add(Opcode::CrossEntropyGrad, {dl, z, t}, {choice}, {scaled});
  f.build.end_function();
  const auto values = noise(rows * n, 21);
  std::vector<uint8_t> classes(rows);
  for (size_t r = 0; r < rows; ++r) classes[r] = static_cast<uint8_t>(r * 7 % n);
  const auto factors = noise(reduction == 2 ? rows : 1, 4);
  f.bind(z, values);
  f.bind(t, classes);
  f.bind(dl, factors);
  f.must_run();
  const auto got = f.read<float>(dz);
  const auto got_scaled = f.read<float>(scaled);
  std::vector<float> losses;
  semantics::Ordered<float, Add> total{Add{}};
  for (size_t r = 0; r < rows; ++r) {
    const Row row(slice(values, r * n, n, 1));
    losses.push_back(semantics::log(row.sum) - (values[r * n + classes[r]] - row.most));
    total.push(losses.back());
    for (size_t c = 0; c < n; ++c) {
      float g = row.e[c] / row.sum;
      if (c == classes[r]) g = g - 1.0f;
      if (reduction == 0) g = g / static_cast<float>(rows);
      CHECK(got[r * n + c] == g);
      CHECK(got_scaled[r * n + c] == factors[reduction == 2 ? r : 0] * g);
    }
  }
  if (reduction != 2) losses = {total.finish(0)};
  if (reduction == 0) losses[0] = losses[0] / static_cast<float>(rows);
  CHECK(f.read<float>(loss) == losses);
  CHECK(f.read<float>(alone) == losses);
}

TEST_CASE("gradients of softmax come from its result") {
  Fixture f;
  const Ref dy = f.input("dy", DType::f32, {1, 3});
  const Ref y = f.input("y", DType::f32, {1, 3});
  const Ref dx = f.output("dx", DType::f32, {1, 3});
  const Ref dlog = f.output("dlog", DType::f32, {1, 3});
  f.build.begin_function("main");
  f.add(Opcode::SoftmaxGrad, {dy, y}, {}, {dx});
  f.add(Opcode::LogSoftmaxGrad, {dy, y}, {}, {dlog});
  f.build.end_function();
  f.bind_reals(dy, {1, 2, 4});
  f.bind_reals(y, {0.5, 0.25, 0.25});
  f.must_run();
  CHECK(f.read_reals(dx) == std::vector<double>{-0.5, 0, 0.5});  // y (dy - 2)
  const auto got = f.read<float>(dlog);
  CHECK(got[0] == 1.0f - semantics::exp(0.5f) * 7.0f);
  CHECK(got[2] == 4.0f - semantics::exp(0.25f) * 7.0f);
}

TEST_CASE("a narrow softmax is computed in f32 and rounded once") {
  Fixture f;
  const Ref x = f.input("x", DType::f16, {3, 2});
  const Ref y = f.output("y", DType::f16, {3, 2});
  f.build.begin_function("main");
  f.add(Opcode::Softmax, {x}, {f.build.integer(0)}, {y});
  f.build.end_function();
  f.bind_reals(x, {0, 1, 1, 1, 2, 1});
  f.must_run();
  const Row row({0, 1, 2});
  for (size_t i = 0; i < 3; ++i) {
    const auto want = static_cast<double>(row.e[i] / row.sum);
    CHECK(f.read_reals(y)[2 * i] ==
          isa::bits_to_double(DType::f16, isa::double_to_bits(DType::f16, want)));
  }
}
