// Random instructions: elements are functions of key, offset and index, and nothing else.
#include "isa/semantics/random.h"

#include <algorithm>
#include <numeric>

#include "tests/unit/ref/fixture.h"

using namespace trek;
using namespace trek::test;

namespace {

struct Numbers {
  std::vector<float> uniform;
  std::vector<float> normal;
  std::vector<uint8_t> coins;
  std::vector<int64_t> order;
};

Numbers numbers(int64_t key, int64_t offset, uint64_t seed, int64_t n) {
  Fixture f;
  f.load_options.seed = seed;
  const Ref uniform = f.output("uniform", DType::f32, {n});
  const Ref normal = f.output("normal", DType::f32, {n});
  const Ref coins = f.output("coins", DType::boolean, {n});
  const Ref order = f.output("order", DType::i64, {n});
  f.build.begin_function("main");
  const Ref k = f.build.integer(key);
  const Ref at = f.build.integer(offset);
  const Ref two = f.build.real(DType::f32, 2);
  const Ref five = f.build.real(DType::f32, 5);
  f.add(Opcode::Uniform, {}, {two, five, f.list({n}), Fixture::dtype(DType::f32), k, at},
        {uniform});
  f.add(Opcode::Normal, {}, {two, five, f.list({n}), Fixture::dtype(DType::f32), k, at}, {normal});
  f.add(Opcode::Bernoulli, {}, {f.build.real(DType::f32, 0.25), f.list({n}), k, at}, {coins});
  f.add(Opcode::Permutation, {}, {f.build.integer(n), Ref{}, k, at}, {order});
  f.build.end_function();
  f.must_run();
  return {f.read<float>(uniform), f.read<float>(normal), f.read<uint8_t>(coins),
          f.read<int64_t>(order)};
}

}  // namespace

TEST_CASE("element i takes lane i mod 4 of counter offset + i / 4") {
  const int64_t n = 5003;
  const Numbers got = numbers(77, 5, 0, n);
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const auto word = [](int64_t i) {
    return semantics::random_word(77, 5, static_cast<uint64_t>(i));
  };
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return word(a) != word(b) ? word(a) < word(b) : a < b;  // stable
  });
  CHECK(got.order == order);
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    const auto pair = semantics::normal(word(i / 2 * 2), word(i / 2 * 2 + 1), 2.0f, 5.0f);
    const bool same = got.uniform[at] == semantics::uniform(word(i), 2.0f, 5.0f) &&
                      got.normal[at] == (i % 2 == 0 ? pair.even : pair.odd) &&
                      (got.coins[at] != 0) == semantics::bernoulli(word(i), 0.25f);
    if (!same) FAIL("element " << i);
  }
}

TEST_CASE("an offset continues a sequence, a seed begins another") {
  const Numbers whole = numbers(1, 0, 0, 64);
  const Numbers rest = numbers(1, 4, 0, 48);
  CHECK(std::equal(rest.uniform.begin(), rest.uniform.end(), whole.uniform.begin() + 16));
  const Numbers seeded = numbers(1, 0, 9, 64);
  CHECK(seeded.uniform != whole.uniform);
  const auto key = static_cast<int64_t>(1 ^ (9 * 0x9E3779B97F4A7C15u));
  CHECK(numbers(key, 0, 0, 64).uniform == seeded.uniform);
}

TEST_CASE("dropout scales what it keeps, and its gradient keeps the same") {
  Fixture f;
  const Ref x = f.input("x", DType::f32, {4000});
  const Ref y = f.output("y", DType::f32, {4000});
  const Ref kept = f.output("kept", DType::boolean, {4000});
  const Ref dx = f.output("dx", DType::f32, {4000});
  f.build.begin_function("main");
  const Ref p = f.build.real(DType::f32, 0.75);
  f.add(Opcode::Dropout, {x}, {p, f.build.integer(3)}, {y, kept});
  f.add(Opcode::DropoutGrad, {x, kept}, {p}, {dx});
  f.build.end_function();
  f.bind(x, std::vector<float>(4000, 1.5f));
  f.must_run();
  const auto is_kept = f.read<uint8_t>(kept);
  const auto values = f.read<float>(y);
  for (size_t i = 0; i < values.size(); ++i) {
    const bool keep = !semantics::bernoulli(semantics::random_word(3, 0, i), 0.75f);
    if ((is_kept[i] != 0) != keep || values[i] != (keep ? 6.0f : 0.0f)) FAIL("element " << i);
  }
  CHECK(f.read<float>(dx) == values);
}
