// Moves: where each element goes, in small cases by hand.
#include <numeric>

#include "tests/unit/ref/fixture.h"

using namespace trek;
using namespace trek::test;

namespace {

std::vector<double> counting(size_t n) {
  std::vector<double> values(n);
  std::iota(values.begin(), values.end(), 0.0);
  return values;
}

}  // namespace

TEST_CASE("permute, slice, pad and concat put elements where their index says") {
  Fixture f;
  const Ref x = f.input("x", DType::i16, {2, 3, 4});
  const Ref turned = f.output("turned", DType::i16, {4, 2, 3});
  const Ref box = f.output("box", DType::i16, {2, 1, 2});
  const Ref padded = f.output("padded", DType::i16, {2, 4});
  const Ref joined = f.output("joined", DType::i16, {2, 4, 2});
  const Ref one = f.build.param("one", DType::i64, 1);
  f.build.begin_function("main");
  f.add(Opcode::Permute, {x}, {f.list({2, 0, -2})}, {turned});
  const std::vector<Ref> at = {f.build.integer(0), one, one};
  const Ref part =
      f.add(Opcode::Slice, {x}, {f.build.list(at), f.list({2, 1, 2}), f.list({1, 1, 2})});
  f.add(Opcode::Copy, {part}, {}, {box});
  const Ref flat = f.add(Opcode::Reshape, {part}, {f.list({2, -1})});
  f.add(Opcode::Pad, {flat},
        {f.list({0, 1}), f.list({0, 1}), f.build.constant(DType::i16, uint64_t(-7))}, {padded});
  const Ref two = f.add(Opcode::Slice, {x}, {f.list({0, 0, 0}), f.list({2, 3, 2})});
  f.add(Opcode::Concat, {part, two}, {f.build.integer(1)}, {joined});
  f.build.end_function();
  f.bind_reals(x, counting(24));
  f.must_run();
  CHECK(f.read_reals(turned) == std::vector<double>{0, 4, 8,  12, 16, 20, 1, 5, 9,  13, 17, 21,
                                                    2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23});
  CHECK(f.read_reals(box) == std::vector<double>{5, 7, 17, 19});
  CHECK(f.read_reals(padded) == std::vector<double>{-7, 5, 7, -7, -7, 17, 19, -7});
  CHECK(f.read_reals(joined) ==
        std::vector<double>{5, 7, 0, 1, 4, 5, 8, 9, 17, 19, 12, 13, 16, 17, 20, 21});
}

TEST_CASE("a large transposition is its own inverse, in every width") {
  for (DType dtype : {DType::u8, DType::i16, DType::f32, DType::i64}) {
    INFO(isa::name(dtype));
    Fixture f;
    const Ref x = f.input("x", dtype, {3, 133, 210});
    const Ref turned = f.output("turned", dtype, {3, 210, 133});
    const Ref back = f.output("back", dtype, {3, 133, 210});
    f.build.begin_function("main");
    const Ref t = f.add(Opcode::Permute, {x}, {f.list({0, 2, 1})});
    f.add(Opcode::Copy, {t}, {}, {turned});
    f.add(Opcode::Permute, {t}, {f.list({0, 2, 1})}, {back});
    f.build.end_function();
    std::vector<double> values(3 * 133 * 210);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7919 % 127);
    f.bind_reals(x, values);
    f.must_run();
    CHECK(f.read_reals(back) == values);
    const auto got = f.read_reals(turned);
    CHECK(got[2 * 210 * 133 + 17 * 133 + 100] == values[2 * 133 * 210 + 100 * 210 + 17]);
  }
}

TEST_CASE("fill, iota, broadcast and one_hot make what they say") {
  Fixture f;
  const Ref x = f.input("x", DType::f32, {2, 1});
  const Ref classes = f.input("classes", DType::u8, {2});
  const Ref filled = f.output("filled", DType::f16, {3});
  const Ref counted = f.output("counted", DType::i8, {2, 3});
  const Ref spread = f.output("spread", DType::f32, {2, 2, 3});
  const Ref hot = f.output("hot", DType::f32, {2, 3});
  f.build.begin_function("main");
  f.add(Opcode::Fill, {f.build.real(DType::f32, 2049)}, {f.list({3}), Fixture::dtype(DType::f16)},
        {filled});
  f.add(Opcode::Iota, {},
        {f.list({2, 3}), Fixture::dtype(DType::i8), f.build.integer(1), f.build.integer(100),
         f.build.integer(20)},
        {counted});
  f.add(Opcode::Broadcast, {x}, {f.list({2, 2, 3})}, {spread});
  f.add(Opcode::OneHot, {classes}, {f.build.integer(3), Fixture::dtype(DType::f32)}, {hot});
  f.build.end_function();
  f.bind_reals(x, {1, 2});
  f.bind_reals(classes, {2, 0});
  f.must_run();
  CHECK(f.read_reals(filled) == std::vector<double>{2048, 2048, 2048});
  CHECK(f.read_reals(counted) == std::vector<double>{100, 120, -116, 100, 120, -116});
  CHECK(f.read_reals(spread) == std::vector<double>{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2});
  CHECK(f.read_reals(hot) == std::vector<double>{0, 0, 1, 1, 0, 0});
}

TEST_CASE("gather and scatter go by index, of two writes the later holds, additions keep order") {
  Fixture f;
  const Ref x = f.input("x", DType::f32, {2, 3});
  const Ref index = f.input("index", DType::i64, {2, 2});
  const Ref places = f.input("places", DType::u16, {3});
  const Ref y = f.input("y", DType::f32, {2, 3});
  const Ref picked = f.output("picked", DType::f32, {2, 2, 2});
  const Ref set = f.output("set", DType::f32, {2, 3});
  const Ref sum = f.state("sum", DType::f32, {2, 3});
  f.build.begin_function("main");
  f.add(Opcode::Gather, {x, index}, {f.build.integer(1)}, {picked});
  f.add(Opcode::Scatter, {x, places, y}, {f.build.integer(1)}, {set});
  f.add(Opcode::ScatterAdd, {sum, places, y}, {f.build.integer(-1)}, {sum});
  f.build.end_function();
  f.bind_reals(x, {1, 2, 3, 4, 5, 6});
  f.bind(index, std::vector<int64_t>{2, 0, 1, 1});
  f.bind(places, std::vector<uint16_t>{1, 0, 1});
  f.bind(y, std::vector<float>{1e8f, 7, 1, -1e8f, 8, 3});
  f.bind(sum, std::vector<float>{0, 1, 0, 0, 1e8f, 0});
  f.must_run();
  CHECK(f.read_reals(picked) == std::vector<double>{3, 1, 2, 2, 6, 4, 5, 5});
  CHECK(f.read_reals(set) == std::vector<double>{7, 1, 3, 8, 3, 6});
  CHECK(f.read_reals(sum) == std::vector<double>{7, 100000000, 0, 8, 3, 0});
}

TEST_CASE("update replaces a box, in place or in a copy") {
  Fixture f;
  const Ref x = f.state("x", DType::i64, {3, 3});
  const Ref y = f.input("y", DType::i64, {2, 1});
  const Ref copy = f.output("copy", DType::i64, {3, 3});
  f.build.begin_function("main");
  f.add(Opcode::Update, {x, y}, {f.list({0, 2})}, {copy});
  f.add(Opcode::Update, {x, y}, {f.list({1, 0})}, {x});
  f.build.end_function();
  f.bind_reals(x, counting(9));
  f.bind_reals(y, {-1, -2});
  f.must_run();
  CHECK(f.read_reals(copy) == std::vector<double>{0, 1, -1, 3, 4, -2, 6, 7, 8});
  CHECK(f.read_reals(x) == std::vector<double>{0, 1, 2, -1, 4, 5, -2, 7, 8});
}

TEST_CASE("tensors of no elements go through every move") {
  Fixture f;
  const Ref x = f.input("x", DType::f32, {0, 3});
  const Ref y = f.output("y", DType::f32, {3, 0});
  const Ref z = f.output("z", DType::f32, {2, 3});
  f.build.begin_function("main");
  f.add(Opcode::Permute, {x}, {f.list({1, 0})}, {y});
  f.add(Opcode::Pad, {x}, {f.list({1, 0}), f.list({1, 0}), f.build.real(DType::f32, 5)}, {z});
  f.add(Opcode::Softmax, {x});
  f.add(Opcode::Sort, {x});
  f.add(Opcode::Exp, {x});
  f.add(Opcode::Cumsum, {x}, {f.build.integer(0)});
  f.build.end_function();
  f.must_run();
  CHECK(f.read_reals(z) == std::vector<double>(6, 5));
}
