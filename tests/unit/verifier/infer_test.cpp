// Every shape rule: what it gives, and what it says when it is broken.
#include <catch2/catch.hpp>

#include "isa/builder.h"

using namespace trek::isa;

namespace {

// Makes one instruction at a time from operands given by type.
struct Shapes {
  Module module;
  Builder build{module};
  int count = 0;
  Shapes() { build.begin_function("main"); }

  Ref t(DType dtype, Shape shape) {
    return build.tensor("t" + std::to_string(count++), Type::tensor(dtype, shape), Role::state);
  }
  Ref f(Shape shape) { return t(DType::f32, shape); }
  Ref i(Shape shape) { return t(DType::i32, shape); }
  Ref n(int64_t value) { return build.integer(value); }
  Ref r(double value) { return build.real(DType::f32, value); }
  Ref l(std::initializer_list<int64_t> values) {
    return build.integers(std::span(values.begin(), values.size()));
  }
  static Ref on() { return Builder::number(1); }
  static Ref to(DType dtype) { return Builder::dtype(dtype); }

  std::string give(Opcode opcode, std::initializer_list<Ref> operands,
                   std::initializer_list<Ref> attributes = {}) {
    if (const auto fault = build.add(opcode, operands, attributes))
      return std::string(code(fault->code)) + ": " + fault->message;
    std::string out;
    for (Ref result : build.results())
      out += (out.empty() ? "" : " ") + build.type_of(result).text();
    return out;
  }
};

bool begins(const std::string& text, std::string_view start) {
  UNSCOPED_INFO(text);
  return text.starts_with(start);
}

}  // namespace

TEST_CASE("broadcasting aligns at the last axis and scalars fit anything") {
  Shapes s;
  CHECK(s.give(Opcode::Add, {s.f({2, 3}), s.f({3})}) == "f32[2,3]");
  CHECK(s.give(Opcode::Add, {s.f({2, 1}), s.f({1, 3})}) == "f32[2,3]");
  CHECK(s.give(Opcode::Add, {s.f({0, 3}), s.f({1})}) == "f32[0,3]");
  CHECK(s.give(Opcode::Add, {s.f({2}), s.r(1)}) == "f32[2]");
  CHECK(s.give(Opcode::Lt, {s.f({2}), s.r(1)}) == "bool[2]");
  CHECK(s.give(Opcode::Add, {s.r(1), s.r(2)}) == "f32");
  CHECK(begins(s.give(Opcode::Add, {s.f({2}), s.f({3})}),
               "shape-mismatch: 'x' has shape [2] and 'y' [3]"));
  CHECK(begins(s.give(Opcode::Fma, {s.f({2}), s.f({2}), s.f({3})}),
               "shape-mismatch: 'z' has shape [3] against [2]"));
  CHECK(begins(
      s.give(Opcode::Add, {s.f({2}), s.i({2})}),
      "operand-type: operand 'y' of 'add' is of type f32, as its other operands, found i32[2]"));
  CHECK(
      begins(s.give(Opcode::Exp, {s.i({2})}),
             "operand-type: operand 'x' of 'exp' is of type f64, f32, f16 or bf16, found i32[2]"));
  CHECK(begins(s.give(Opcode::Where, {s.f({2}), s.f({2}), s.f({2})}),
               "operand-type: operand 'c' of 'where' is of type bool"));
  const Ref half = s.t(DType::f16, {2});
  CHECK(s.give(Opcode::Mul, {half, s.build.param("p", DType::f32, 0)}) == "f16[2]");
  CHECK(begins(s.give(Opcode::Mul, {half, s.build.param("q", DType::f64, 0)}),
               "operand-type: operand 'y' of 'mul' is of type f32 beside tensors of f16"));
  CHECK(begins(s.give(Opcode::Cast, {s.r(1)}, {Shapes::to(DType::f16)}),
               "operand-type: a scalar is of type"));
  CHECK(s.give(Opcode::Cast, {s.r(1)}, {Shapes::to(DType::i64)}) == "i64");
}

TEST_CASE("operand counts and forms, attribute kinds and ranges") {
  Shapes s;
  CHECK(begins(s.give(Opcode::Add, {s.f({2})}), "operand-count: 'add' takes 2 operands, found 1"));
  CHECK(begins(s.give(Opcode::Concat, {}), "operand-count: 'concat' takes at least 1"));
  CHECK(begins(s.give(Opcode::ClipNorm, {}, {s.r(1)}),
               "operand-count: 'clip_norm' takes at least 1"));
  CHECK(begins(s.give(Opcode::Reshape, {s.r(1)}, {s.l({1})}),
               "operand-kind: operand 'x' of 'reshape' is a tensor, found a scalar f32"));
  CHECK(begins(s.give(Opcode::Fill, {s.f({1})}, {s.l({1}), Shapes::to(DType::f32)}),
               "operand-kind: operand 'value' of 'fill' is a scalar"));
  CHECK(begins(s.give(Opcode::Reshape, {s.f({1})}),
               "missing-attribute: 'reshape' needs the attribute 'shape'"));
  CHECK(begins(s.give(Opcode::Reshape, {s.f({1})}, {s.n(1)}),
               "invalid-attribute: attribute 'shape' of 'reshape' is a list of integers"));
  CHECK(begins(s.give(Opcode::TopK, {s.f({1})}, {s.r(1)}),
               "invalid-attribute: attribute 'k' of 'top_k' is an integer"));
  CHECK(begins(s.give(Opcode::Sum, {s.f({1})}, {{}, s.n(1)}),
               "invalid-attribute: attribute 'keep' of 'sum' is no value"));
  CHECK(begins(s.give(Opcode::Cast, {s.f({1})}, {Builder::number(77)}),
               "invalid-attribute: attribute 'to' of 'cast' is an element type"));
  CHECK(begins(
      s.give(Opcode::LeakyRelu, {s.f({1})}, {s.n(1)}),
      "invalid-attribute: attribute 'slope' of 'leaky_relu' is a number or a scalar of type f32"));
  CHECK(begins(s.give(Opcode::Clamp, {s.i({1})}, {s.r(1), s.r(2)}),
               "invalid-attribute: attribute 'low' of 'clamp' is a number of type i32"));
  CHECK(begins(
      s.give(Opcode::CrossEntropy, {s.f({1, 2}), s.i({1})}, {Builder::number(3)}),
      "invalid-attribute: attribute 'reduction' of 'cross_entropy' is one of mean|sum|none"));
  CHECK(begins(
      s.give(Opcode::Matmul, {s.f({1, 2}), s.f({2, 1}), {}}, {{}, {}, {}, Builder::number(0x0201)}),
      "invalid-attribute: attribute 'tail' of 'matmul' is a pointwise instruction"));
  CHECK(begins(s.give(Opcode::Emit, {s.f({1})}, {s.n(1)}),
               "invalid-attribute: attribute 'name' of 'emit' is a string"));
  CHECK(
      begins(s.give(Opcode::Slice, {s.f({1})}, {s.n(0), s.l({1})}),
             "invalid-attribute: attribute 'at' of 'slice' is a list of integers and i64 scalars"));
  CHECK(begins(s.give(Opcode::Uniform, {}, {{}, {}, s.l({1}), Shapes::to(DType::f32), s.r(1)}),
               "invalid-attribute: attribute 'key' of 'uniform' is an integer or an i64 scalar"));
  CHECK(begins(s.give(Opcode::Uniform, {}, {{}, {}, s.l({1}), Shapes::to(DType::i32), s.n(1)}),
               "invalid-attribute: 'uniform' gives f64, f32, f16 or bf16, not i32"));
  CHECK(begins(s.give(Opcode::Argmax, {s.f({1})}, {{}, {}, Shapes::to(DType::f32)}),
               "invalid-attribute: 'argmax' gives indices, which are integers, not f32"));
}

TEST_CASE("moves") {
  Shapes s;
  CHECK(s.give(Opcode::Fill, {s.r(1)}, {s.l({2, 0}), Shapes::to(DType::f32)}) == "f32[2,0]");
  CHECK(begins(
      s.give(Opcode::Fill, {s.r(1)}, {s.l({1, 1, 1, 1, 1, 1, 1, 1, 1}), Shapes::to(DType::f32)}),
      "shape-limit"));
  CHECK(begins(s.give(Opcode::Fill, {s.r(1)}, {s.l({-1}), Shapes::to(DType::f32)}), "shape-limit"));
  CHECK(s.give(Opcode::Iota, {}, {s.l({2, 3}), Shapes::to(DType::i8), s.n(-1)}) == "i8[2,3]");
  CHECK(begins(s.give(Opcode::Iota, {}, {s.l({2}), Shapes::to(DType::i8), s.n(1)}),
               "axis-range: axis 1 is outside a tensor of rank 1"));
  CHECK(s.give(Opcode::Reshape, {s.f({2, 6})}, {s.l({3, -1})}) == "f32[3,4]");
  CHECK(begins(s.give(Opcode::Reshape, {s.f({2, 6})}, {s.l({-1, -1})}),
               "shape-mismatch: [2,6] cannot be reshaped to [-1,-1]: at most one"));
  CHECK(begins(s.give(Opcode::Reshape, {s.f({2, 6})}, {s.l({5, -1})}),
               "shape-mismatch: [2,6] cannot be reshaped to [5,-1]: 12 elements do not divide"));
  CHECK(begins(s.give(Opcode::Reshape, {s.f({2, 6})}, {s.l({5})}),
               "shape-mismatch: [2,6] cannot be reshaped to [5]: 12 elements against 5"));
  CHECK(begins(s.give(Opcode::Reshape, {s.f({2})}, {s.l({1, 1, 1, 1, 1, 1, 1, 1, 2})}),
               "shape-mismatch"));
  CHECK(begins(s.give(Opcode::Reshape, {s.f({2})}, {s.l({-2})}), "shape-mismatch"));
  CHECK(s.give(Opcode::Permute, {s.f({2, 3, 4})}, {s.l({2, 0, 1})}) == "f32[4,2,3]");
  CHECK(begins(s.give(Opcode::Permute, {s.f({2, 3})}, {s.l({0})}),
               "invalid-attribute: 'axes' has 1 entries for a tensor of rank 2"));
  CHECK(begins(s.give(Opcode::Permute, {s.f({2, 3})}, {s.l({0, 0})}),
               "axis-range: axis 0 is named twice"));
  CHECK(begins(s.give(Opcode::Permute, {s.f({2, 3})}, {s.l({0, 2})}),
               "axis-range: axis 2 is outside"));
  CHECK(s.give(Opcode::Slice, {s.f({5, 6})}, {s.l({1, 0}), s.l({2, 3}), s.l({2, 2})}) ==
        "f32[2,3]");
  CHECK(s.give(Opcode::Slice, {s.f({5})}, {s.l({5}), s.l({0})}) == "f32[0]");
  CHECK(begins(s.give(Opcode::Slice, {s.f({5})}, {s.l({4}), s.l({2})}),
               "index-range: 2 elements with stride 1 from 4 on leave axis 0 of [5]"));
  CHECK(begins(s.give(Opcode::Slice, {s.f({5})}, {s.l({0}), s.l({6})}),
               "shape-mismatch: 6 elements with stride 1 do not fit"));
  CHECK(begins(s.give(Opcode::Slice, {s.f({0})}, {s.l({0}), s.l({1})}), "shape-mismatch"));
  CHECK(begins(s.give(Opcode::Slice, {s.f({5})}, {s.l({0}), s.l({1}), s.l({0})}),
               "invalid-attribute: stride 0 on axis 0"));
  CHECK(begins(s.give(Opcode::Slice, {s.f({5})}, {s.l({0, 0}), s.l({1})}),
               "invalid-attribute: 'at' has 2 entries"));
  CHECK(begins(s.give(Opcode::Slice, {s.f({5})}, {s.l({0}), s.l({1}), s.l({1, 1})}),
               "invalid-attribute: 'stride' has 2"));
  CHECK(begins(s.give(Opcode::Slice, {s.f({5})}, {s.l({0}), s.l({-1})}), "shape-limit"));
  CHECK(s.give(Opcode::Update, {s.f({5, 5}), s.f({2, 5})}, {s.l({3, 0})}) == "f32[5,5]");
  CHECK(begins(s.give(Opcode::Update, {s.f({5}), s.f({6})}, {s.l({0})}),
               "shape-mismatch: 'x' has shape [5] and 'y' [6]: 'y' is larger on axis 0"));
  CHECK(begins(s.give(Opcode::Update, {s.f({5}), s.f({1, 1})}, {s.l({0})}),
               "shape-mismatch: 'x' has shape [5] and 'y' [1,1]: they must have one rank"));
  CHECK(begins(s.give(Opcode::Update, {s.f({5}), s.f({2})}, {s.l({4})}),
               "index-range: 2 elements from 4 on"));
  CHECK(begins(s.give(Opcode::Update, {s.f({5}), s.f({2})}, {s.l({})}), "invalid-attribute"));
  CHECK(s.give(Opcode::Concat, {s.f({2, 3}), s.f({4, 3})}) == "f32[6,3]");
  CHECK(begins(s.give(Opcode::Concat, {s.f({2, 3}), s.f({4, 2})}),
               "shape-mismatch: operand 2 has shape [4,2] and the first [2,3]"));
  CHECK(begins(s.give(Opcode::Concat, {s.f({2, 3})}, {s.n(2)}), "axis-range"));
  CHECK(begins(s.give(Opcode::Concat, {s.f({int64_t{1} << 48}), s.f({1})}), "shape-limit"));
  CHECK(s.give(Opcode::Pad, {s.f({2, 3})}, {s.l({1, 0}), s.l({0, 2})}) == "f32[3,5]");
  CHECK(begins(s.give(Opcode::Pad, {s.f({2})}, {s.l({-1}), s.l({0})}),
               "invalid-attribute: padding -1"));
  CHECK(begins(s.give(Opcode::Pad, {s.f({2})}, {s.l({1, 1}), s.l({0})}),
               "invalid-attribute: 'low' has 2"));
  CHECK(begins(s.give(Opcode::Pad, {s.f({2})}, {s.l({int64_t{1} << 48}), s.l({0})}),
               "shape-limit: the result would be"));
  CHECK(s.give(Opcode::Gather, {s.f({5, 6, 7}), s.i({2, 3})}, {s.n(1)}) == "f32[5,2,3,7]");
  CHECK(begins(s.give(Opcode::Gather, {s.f({5}), s.f({2})}),
               "operand-type: operand 'index' of 'gather' is of type i8"));
  CHECK(begins(s.give(Opcode::Gather, {s.f({5}), s.i({2})}, {s.n(1)}), "axis-range"));
  CHECK(
      begins(s.give(Opcode::Gather, {s.f({1, 1, 1, 1, 1}), s.i({1, 1, 1, 1, 1})}), "shape-limit"));
  CHECK(s.give(Opcode::Scatter, {s.f({5, 6}), s.i({2}), s.f({2, 6})}) == "f32[5,6]");
  CHECK(begins(
      s.give(Opcode::ScatterAdd, {s.f({5, 6}), s.i({2}), s.f({2, 5})}),
      "shape-mismatch: 'y' has shape [2,5]: for 'x' [5,6] and 'index' [2] it must be [2,6]"));
  CHECK(begins(s.give(Opcode::Scatter, {s.f({5}), s.i({2}), s.f({2})}, {s.n(4)}), "axis-range"));
  CHECK(s.give(Opcode::Broadcast, {s.f({3, 1})}, {s.l({2, 3, 4})}) == "f32[2,3,4]");
  CHECK(begins(s.give(Opcode::Broadcast, {s.f({3})}, {s.l({2})}),
               "shape-mismatch: [3] does not broadcast to [2]"));
  CHECK(begins(s.give(Opcode::Broadcast, {s.f({3})}, {s.l({1})}), "shape-mismatch"));
  CHECK(begins(s.give(Opcode::Broadcast, {s.f({3})}, {s.l({-3})}), "shape-limit"));
  CHECK(s.give(Opcode::OneHot, {s.i({2})}, {s.n(10), Shapes::to(DType::f32)}) == "f32[2,10]");
  CHECK(begins(s.give(Opcode::OneHot, {s.i({2})}, {s.n(-1), Shapes::to(DType::f32)}),
               "invalid-attribute: depth -1"));
  CHECK(begins(
      s.give(Opcode::OneHot, {s.i({1, 1, 1, 1, 1, 1, 1, 1})}, {s.n(1), Shapes::to(DType::f32)}),
      "shape-limit"));
}

TEST_CASE("reductions and order") {
  Shapes s;
  CHECK(s.give(Opcode::Sum, {s.f({2, 3, 4})}) == "f32[]");
  CHECK(s.give(Opcode::Sum, {s.f({2, 3, 4})}, {s.l({0, -1})}) == "f32[3]");
  CHECK(s.give(Opcode::Mean, {s.f({2, 3})}, {s.l({1}), Shapes::on()}) == "f32[2,1]");
  CHECK(begins(s.give(Opcode::Sum, {s.f({2, 3})}, {s.l({0, -2})}),
               "axis-range: axis 0 is named twice"));
  CHECK(begins(s.give(Opcode::Sum, {s.f({2, 3})}, {s.l({2})}), "axis-range"));
  CHECK(begins(s.give(Opcode::Max, {s.f({2, 0})}, {s.l({1})}),
               "empty-reduction: 'max' over no elements"));
  CHECK(s.give(Opcode::Max, {s.f({0, 2})}, {s.l({1})}) == "f32[0]");
  CHECK(s.give(Opcode::Sum, {s.f({0})}) == "f32[]");
  CHECK(s.give(Opcode::Argmax, {s.f({2, 3})}, {s.l({1})}) == "i64[2]");
  CHECK(s.give(Opcode::Argmin, {s.f({2, 3})}, {s.l({1}), {}, Shapes::to(DType::u16)}) == "u16[2]");
  CHECK(s.give(Opcode::Cumsum, {s.f({2, 3})}) == "f32[2,3]");
  CHECK(
      begins(s.give(Opcode::Sort, {s.f({})}), "axis-range: axis -1 is outside a tensor of rank 0"));
  CHECK(s.give(Opcode::TopK, {s.f({2, 9})}, {s.n(3)}) == "f32[2,3] i64[2,3]");
  CHECK(begins(s.give(Opcode::TopK, {s.f({2, 9})}, {s.n(10)}),
               "invalid-attribute: k is 10, outside 0 to 9"));
  CHECK(begins(s.give(Opcode::TopK, {s.f({2, 9})}, {s.n(1), s.n(5)}), "axis-range"));
}

TEST_CASE("matrix products") {
  Shapes s;
  const Ref none;
  CHECK(s.give(Opcode::Matmul, {s.f({2, 3}), s.f({3, 4})}) == "f32[2,4]");
  CHECK(s.give(Opcode::Matmul, {s.f({3, 2}), s.f({4, 3})}, {Shapes::on(), Shapes::on()}) ==
        "f32[2,4]");
  CHECK(s.give(Opcode::Matmul, {s.f({7, 1, 2, 3}), s.f({5, 3, 4})}) == "f32[7,5,2,4]");
  CHECK(s.give(Opcode::Matmul, {s.t(DType::i8, {2, 3}), s.t(DType::i8, {3, 4})}) == "i32[2,4]");
  CHECK(s.give(Opcode::Matmul, {s.t(DType::u64, {2, 3}), s.t(DType::u64, {3, 4})}) == "i64[2,4]");
  CHECK(s.give(Opcode::Matmul, {s.t(DType::f16, {2, 3}), s.t(DType::f16, {3, 4}), s.f({4})},
               {none, none, none, none, Shapes::to(DType::f32)}) == "f32[2,4]");
  CHECK(begins(s.give(Opcode::Matmul, {s.f({2, 3}), s.f({4, 5})}),
               "shape-mismatch: 'a' has shape [2,3] and 'b' [4,5]: K of a is 3, of b 4"));
  CHECK(begins(s.give(Opcode::Matmul, {s.f({3}), s.f({3, 5})}),
               "shape-mismatch: 'a' has shape [3] and 'b' [3,5]: a matrix has at least two axes"));
  CHECK(begins(s.give(Opcode::Matmul, {s.f({2, 1, 3}), s.f({3, 3, 5})}), "shape-mismatch"));
  CHECK(begins(s.give(Opcode::Matmul, {s.f({2, 3}), s.f({3, 4}), s.f({3})}),
               "shape-mismatch: 'bias' has shape [3] and the product [2,4]"));
  CHECK(begins(s.give(Opcode::Matmul, {s.f({2, 3}), s.f({3, 4}), s.i({4})}),
               "operand-type: operand 'bias' of 'matmul'"));
  CHECK(begins(s.give(Opcode::Matmul, {s.i({2, 3}), s.i({3, 4})},
                      {none, none, none, none, Shapes::to(DType::i8)}),
               "invalid-attribute: a product of i32 gives i32, i64 or a float type, not i8"));
  CHECK(begins(s.give(Opcode::Matmul, {s.f({2, 3}), s.f({3, 4})},
                      {none, none, none, none, Shapes::to(DType::i32)}),
               "invalid-attribute: a product of f32 gives a float type"));
  CHECK(begins(s.give(Opcode::Matmul, {s.i({2, 3}), s.i({3, 4})},
                      {none, none, none, Builder::number(static_cast<uint32_t>(Opcode::Relu))}),
               "invalid-attribute: 'tail' needs float operands"));
  CHECK(begins(s.give(Opcode::Matmul, {s.f({int64_t{1} << 30, 1}), s.f({1, int64_t{1} << 30})}),
               "shape-limit"));
}

TEST_CASE("losses, optimizers, random numbers, streams and elements") {
  Shapes s;
  CHECK(s.give(Opcode::Softmax, {s.f({2, 3})}) == "f32[2,3]");
  CHECK(begins(s.give(Opcode::SoftmaxGrad, {s.f({2, 3}), s.f({3, 2})}),
               "shape-mismatch: 'dy' has shape [2,3] and 'y' [3,2]: they must be equal"));
  CHECK(s.give(Opcode::CrossEntropy, {s.t(DType::f16, {4, 10}), s.i({4})}) == "f32[]");
  CHECK(s.give(Opcode::CrossEntropy, {s.f({4, 10}), s.i({4})}, {Builder::number(2)}) == "f32[4]");
  CHECK(
      begins(s.give(Opcode::CrossEntropy, {s.f({}), s.i({})}), "shape-mismatch: 'z' has shape []"));
  CHECK(begins(s.give(Opcode::CrossEntropy, {s.f({4, 10}), s.i({5})}),
               "shape-mismatch: 'z' has shape [4,10] and 't' [5]"));
  CHECK(s.give(Opcode::CrossEntropyGrad, {s.f({}), s.f({4, 10}), s.i({4})}) == "f32[4,10]");
  CHECK(begins(s.give(Opcode::CrossEntropyGrad, {s.f({4}), s.f({4, 10}), s.i({4})}),
               "shape-mismatch: 'dl' has shape [4]"));
  CHECK(begins(s.give(Opcode::CrossEntropyGrad, {s.f({}), s.f({4, 10}), s.i({3})}),
               "shape-mismatch"));
  CHECK(s.give(Opcode::CrossEntropyWithGrad, {s.f({4, 10}), s.i({4})}) == "f32[] f32[4,10]");
  CHECK(s.give(Opcode::Sgd, {s.f({4}), s.f({4})}, {s.r(1)}).empty());
  CHECK(begins(s.give(Opcode::Sgd, {s.f({4}), s.f({5})}, {s.r(1)}), "shape-mismatch"));
  CHECK(begins(s.give(Opcode::SgdMomentum,
                      {s.t(DType::f16, {4}), s.t(DType::f16, {4}), s.t(DType::f16, {4})}, {s.r(1)}),
               "operand-type: operand 'v' of 'sgd.momentum' is of type f32"));
  CHECK(s.give(Opcode::ClipNorm, {s.f({4}), s.f({2, 2})}, {s.r(1)}) == "f32[] f32[4] f32[2,2]");
  CHECK(s.give(Opcode::Normal, {}, {{}, {}, s.l({3}), Shapes::to(DType::bf16), s.n(1)}) ==
        "bf16[3]");
  CHECK(s.give(Opcode::Bernoulli, {}, {s.r(0.5), s.l({3}), s.n(1)}) == "bool[3]");
  CHECK(s.give(Opcode::Permutation, {}, {s.n(9), {}, s.n(1)}) == "i64[9]");
  CHECK(
      begins(s.give(Opcode::Permutation, {}, {s.n(-9), {}, s.n(1)}), "invalid-attribute: n is -9"));
  CHECK(s.give(Opcode::Dropout, {s.f({3})}, {s.r(0.5), s.n(1)}) == "f32[3] bool[3]");
  CHECK(s.give(Opcode::DropoutGrad, {s.f({3}), s.t(DType::boolean, {3})}, {s.r(0.5)}) == "f32[3]");
  CHECK(s.give(Opcode::Load, {s.t(DType::u8, {3})}, {s.l({2})}) == "i64");
  CHECK(begins(s.give(Opcode::Load, {s.f({3})}, {s.l({3})}),
               "index-range: index 3 leaves axis 0 of [3]"));
  CHECK(s.give(Opcode::Store, {s.f({3}), s.r(1)}, {s.l({2})}).empty());
  CHECK(
      begins(s.give(Opcode::Store, {s.f({3}), s.n(1)}, {s.l({2})}),
             "operand-type: an element of f32[3] is stored from a scalar of type f32, found i64"));
  CHECK(begins(s.give(Opcode::Store, {s.f({3}), s.r(1)}, {s.l({2, 0})}), "invalid-attribute"));
  CHECK(s.give(Opcode::Next, {s.f({3})}) == "f32[3] bool");
  CHECK(s.give(Opcode::AssertFinite, {s.f({3})}).empty());
}

TEST_CASE("an attribute equal to its default is stored as absent") {
  Shapes s;
  REQUIRE_FALSE(s.build.add(Opcode::Softmax, {s.f({2, 3})}, {s.n(-1)}));
  CHECK_FALSE(s.module.attributes(s.build.function().code.back())[0]);
  REQUIRE_FALSE(s.build.add(Opcode::LeakyRelu, {s.f({2})}, {s.r(0.01)}));
  CHECK_FALSE(s.module.attributes(s.build.function().code.back())[0]);
  REQUIRE_FALSE(s.build.add(Opcode::CrossEntropy, {s.f({2, 3}), s.i({2})}, {Builder::number(0)}));
  CHECK_FALSE(s.module.attributes(s.build.function().code.back())[0]);
}

TEST_CASE("the builder refuses destinations of another type and regions that do not fit") {
  Shapes s;
  const Ref place = s.f({3});
  const std::vector<Ref> operands{s.f({2})};
  auto fault = s.build.add(Opcode::Copy, operands, {}, std::vector<Ref>{place});
  REQUIRE(fault);
  CHECK(fault->message == "the result is f32[2], its destination f32[3]");
  fault = s.build.add(Opcode::Copy, operands, {}, std::vector<Ref>{operands[0], operands[0]});
  REQUIRE(fault);
  CHECK(fault->code == ErrorCode::ResultCount);
  fault = s.build.add(Opcode::Concat, std::vector<Ref>(70000, operands[0]));
  REQUIRE(fault);
  CHECK(fault->code == ErrorCode::OperandCount);
  CHECK(s.build.open_loop(s.r(0), s.n(1), s.n(1), {})->code == ErrorCode::OperandType);
  CHECK(s.build.open_if(s.n(1), 0)->code == ErrorCode::OperandType);
  CHECK(s.build.yield({})->code == ErrorCode::Structure);
  CHECK(s.build.call(0, std::vector<Ref>(70000, operands[0]))->code == ErrorCode::OperandCount);
}
