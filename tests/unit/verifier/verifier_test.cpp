// Each rule of the verifier is broken once, in a module that is otherwise right.
#include "isa/verifier.h"

#include <functional>

#include <catch2/catch.hpp>

#include "isa/builder.h"

using namespace trek::isa;

namespace {

const Type kMatrix = Type::tensor(DType::f32, {2, 2});
const Type kVector = Type::tensor(DType::f32, {4});
const Type kIndexScalar = Type::make_scalar(DType::i64);
const Type kCondition = Type::make_scalar(DType::boolean);

// A module with one tensor of each role and a params of each type.
struct Fixture {
  Module module;
  Builder build{module};
  Ref x = build.tensor("x", kMatrix, Role::input);
  Ref y = build.tensor("y", kMatrix, Role::output);
  Ref w = build.tensor("w", kMatrix, Role::state);
  Ref c = build.tensor("c", kMatrix, Role::data);
  Ref s = build.tensor("s", kMatrix, Role::stream);
  Ref lr = build.param("lr", DType::f32, 0x3F800000);
  Ref n = build.param("n", DType::i64, 3);
  Ref flag = build.param("flag", DType::boolean, 1);

  void add(Opcode opcode, std::initializer_list<Ref> operands,
           std::initializer_list<Ref> attributes = {},
           std::initializer_list<Ref> destinations = {}) {
    const auto fault = build.add(opcode, operands, attributes, destinations);
    INFO((fault ? fault->message : ""));
    REQUIRE_FALSE(fault);
  }
  Ref shape(std::initializer_list<int64_t> dims) {
    return build.integers(std::span(dims.begin(), dims.size()));
  }
  Instruction& last() { return build.function().code.back(); }
  Ref& word(const Instruction& instruction, size_t i) {
    return module.words[instruction.first + i];
  }
};

using Break = std::function<void(Fixture&)>;

// Builds `main` by `body`, then lets `after` change the finished module.
Problems problems_of(const Break& body, const Break& after = {}) {
  Fixture f;
  f.build.begin_function("main");
  body(f);
  f.build.end_function();
  if (after) after(f);
  return verify(f.module);
}

void check(const Problems& problems, ErrorCode want, std::string_view words) {
  REQUIRE_FALSE(problems.empty());
  CAPTURE(std::string(code(problems[0].code)), problems[0].message, problems[0].place);
  CHECK(problems[0].code == want);
  CHECK(problems[0].message.find(words) != std::string::npos);
}

const Break kNothing = [](Fixture&) {};

}  // namespace

TEST_CASE("a right module has no problems") {
  const Problems problems = problems_of([](Fixture& f) {
    f.add(Opcode::Add, {f.x, f.w});
    const Ref sum = f.build.results()[0];
    f.add(Opcode::Copy, {sum}, {}, {f.y});
    f.add(Opcode::Add, {f.w, f.x}, {}, {f.w});
    f.add(Opcode::Sgd, {f.w, sum}, {f.lr});
    f.add(Opcode::Next, {f.s});
    REQUIRE_FALSE(
        f.build.open_loop(f.build.integer(0), f.n, f.build.integer(1), std::vector<Ref>{sum}));
    const Ref carried = f.build.registers()[1];
    f.add(Opcode::Mul, {carried, f.lr});
    REQUIRE_FALSE(f.build.yield(std::vector<Ref>{f.build.results()[0]}));
    REQUIRE_FALSE(f.build.open_if(f.flag, 1));
    REQUIRE_FALSE(f.build.yield(std::vector<Ref>{f.x}));
    f.build.open_else();
    REQUIRE_FALSE(f.build.yield(std::vector<Ref>{f.c}));
    f.build.open_while({});
    f.add(Opcode::Test, {f.flag});
    REQUIRE_FALSE(f.build.yield({}));
  });
  for (const Problem& problem : problems) UNSCOPED_INFO(problem.place << ": " << problem.message);
  CHECK(problems.empty());
}

TEST_CASE("problems carry the place in the source where it is known, and the function's name") {
  const Problems problems = problems_of([](Fixture& f) { f.add(Opcode::Copy, {f.x}, {}, {f.y}); },
                                        [](Fixture& f) {
                                          f.word(f.module.functions[0].code[0], 0) = f.x;
                                          f.module.debug.lines.resize(1);
                                          f.module.debug.lines[0].code = {{3, 14, 5}};
                                        });
  check(problems, ErrorCode::NotWritable, "@x is of role input");
  CHECK(problems[0].place == "function main, instruction 0 (copy)");
  CHECK(problems[0].where.file == 3);
  CHECK(problems[0].where.line == 14);
}

TEST_CASE("every table entry is checked") {
  const auto broken = [](const Break& after, ErrorCode want, std::string_view words) {
    DYNAMIC_SECTION(words) { check(problems_of(kNothing, after), want, words); }
  };
  const auto bad = ErrorCode::BadEncoding;
  broken([](Fixture& f) { f.module.strings[0] = "x"; }, bad, "string 0");
  broken([](Fixture& f) { f.module.types[0].dtype = DType::none; }, bad, "no such element type");
  broken([](Fixture& f) { f.module.types.push_back(Type::make_scalar(DType::f16)); }, bad,
         "a scalar is of type");
  broken([](Fixture& f) { f.module.types.push_back(Type::tensor(DType::f32, {1 << 30, 1 << 30})); },
         ErrorCode::ShapeLimit, "more than");
  broken([](Fixture& f) { f.module.types.push_back(Type::tensor(DType::f32, {-1})); },
         ErrorCode::ShapeLimit, "negative");
  broken([](Fixture& f) { f.module.constants.push_back({DType::none, 0}); }, bad,
         "no such element type");
  broken([](Fixture& f) { f.module.constants.push_back({DType::f16, 0x10000}); }, bad, "is no f16");
  broken([](Fixture& f) { f.module.constants.push_back({DType::f32, 0x7FC00001}); }, bad,
         "is no f32");
  broken([](Fixture& f) { f.module.constants.push_back({DType::boolean, 2}); }, bad, "is no bool");
  broken([](Fixture& f) { f.module.constants.push_back({DType::u8, 256}); }, bad, "is no u8");
  broken([](Fixture& f) { f.module.externals.push_back({999, 0, 0, 0, 0}); }, bad,
         "a string that does not exist");
  broken([](Fixture& f) { f.module.externals.push_back({f.build.string("gif"), 0, 0, 0, 0}); }, bad,
         "'gif' is no format");
  broken(
      [](Fixture& f) {
        f.module.externals.push_back(
            {f.build.string("npy"), f.build.string(std::string_view("a\0b", 3)), 0, 0, 0});
      },
      bad, "zero byte");
  broken([](Fixture& f) { f.module.tensors[0].name = 999; }, bad, "a string that does not exist");
  broken([](Fixture& f) { f.module.tensors[0].name = f.build.string("a b"); }, bad,
         "a name that is not");
  broken([](Fixture& f) { f.module.tensors[0].name = f.build.string("0a"); }, bad,
         "a name that is not");
  broken([](Fixture& f) { f.module.tensors[0].name = f.module.tensors[1].name; },
         ErrorCode::Redefined, "'y' is defined twice");
  broken([](Fixture& f) { f.module.tensors[0].type = 999; }, bad, "a type that is not a tensor's");
  broken([](Fixture& f) { f.module.tensors[0].type = f.build.type(kIndexScalar); }, bad,
         "a type that is not a tensor's");
  broken([](Fixture& f) { f.module.tensors[0].role = static_cast<Role>(9); }, bad, "no such role");
  broken([](Fixture& f) { f.module.tensors[0].offset = 64; }, bad,
         "a source of data that is not used");
  broken([](Fixture& f) { f.module.tensors[3].source = DataSource::embedded; }, bad,
         "leave the data");
  broken(
      [](Fixture& f) {
        f.module.tensors[3].source = DataSource::embedded;
        f.module.tensors[3].external = 1;
      },
      bad, "not used");
  broken(
      [](Fixture& f) {
        f.module.data.resize(128);
        f.module.tensors[3].source = DataSource::embedded;
        f.module.tensors[3].offset = 1;
      },
      bad, "no multiple of 64");
  broken([](Fixture& f) { f.module.tensors[0].source = DataSource::external; }, bad,
         "an external that does not exist");
  broken(
      [](Fixture& f) {
        f.module.tensors[0].source = DataSource::external;
        f.module.tensors[0].offset = 64;
      },
      bad, "not used");
  broken([](Fixture& f) { f.module.tensors[0].source = static_cast<DataSource>(7); }, bad,
         "no such source");
  broken(
      [](Fixture& f) {
        f.module.data.resize(128);
        f.module.tensors[1].source = DataSource::embedded;
      },
      bad, "has no data of its own");
  broken([](Fixture& f) { f.module.params[0].dtype = DType::f16; }, bad, "a param is of type");
  broken([](Fixture& f) { f.module.params[0].value = 999; }, bad, "a default that is no constant");
  broken([](Fixture& f) { f.module.params[0].name = f.build.string(""); }, bad,
         "a name that is not");
  broken([](Fixture& f) { f.module.functions[0].parameters = 1; }, bad,
         "more parameters than registers");
  broken([](Fixture& f) { f.module.functions[0].inplace = {1}; }, bad,
         "in-place flag per parameter");
  broken([](Fixture& f) { f.module.functions[0].values.push_back({999}); }, bad,
         "a register of a type");
  broken([](Fixture& f) { f.module.functions[0].results.push_back(999); }, bad,
         "a result of a type");
  broken(
      [](Fixture& f) {
        f.module.functions[0].values.push_back({0});
        f.module.functions[0].parameters = 1;
        f.module.functions[0].inplace = {2};
      },
      bad, "neither 0 nor 1");
  broken(
      [](Fixture& f) {
        f.module.functions[0].values.push_back({f.build.type(kIndexScalar)});
        f.module.functions[0].parameters = 1;
        f.module.functions[0].inplace = {1};
      },
      ErrorCode::InPlace, "is a scalar");
  broken([](Fixture& f) { f.module.functions[0].name = f.build.string("start"); },
         ErrorCode::NoEntry, "no function 'main'");
  broken([](Fixture& f) { f.module.functions[0].results.push_back(0); }, ErrorCode::NoEntry,
         "takes no parameters");
  broken([](Fixture& f) { f.module.init.values.push_back({0}); }, bad, "they have no name");
}

TEST_CASE("every rule of operands, attributes and results is checked") {
  const auto broken = [](const Break& body, const Break& after, ErrorCode want,
                         std::string_view words) {
    DYNAMIC_SECTION(words) { check(problems_of(body, after), want, words); }
  };
  const Break copy = [](Fixture& f) { f.add(Opcode::Copy, {f.x}); };
  const auto set = [](size_t i, Ref ref) {
    return [=](Fixture& f) { f.word(f.module.functions[0].code[0], i) = ref; };
  };
  const auto bad = ErrorCode::BadEncoding;
  broken(
      copy, [](Fixture& f) { f.module.functions[0].code[0].opcode = static_cast<Opcode>(0xFFFF); },
      ErrorCode::UnknownInstruction, "0xffff");
  broken(
      copy, [](Fixture& f) { f.module.functions[0].code[0].first = 1000; }, bad,
      "words lie outside");
  broken(copy, set(0, Ref(RefKind::value, 7)), bad, "a result that names nothing");
  broken(copy, set(0, Ref(RefKind::param, 0)), bad, "a result that names nothing");
  broken(copy, set(1, Ref(RefKind::tensor, 99)), bad, "a operand that names nothing");
  broken(copy, set(1, Ref(RefKind::string, 0)), bad, "a operand that names nothing");
  broken(
      copy,
      [](Fixture& f) {
        f.module.functions[0].code[0].attributes = 1;
        f.module.words.emplace_back();
      },
      bad, "list of attributes");
  broken([](Fixture& f) { f.add(Opcode::Reshape, {f.x}, {f.shape({4})}); },
         set(2, Ref(RefKind::list, 900)), bad, "a attribute that names nothing");
  broken([](Fixture& f) { f.add(Opcode::Reshape, {f.x}, {f.shape({4})}); },
         [](Fixture& f) { f.module.lists[0].bits = 900; }, bad, "a attribute that names nothing");
  broken([](Fixture& f) { f.add(Opcode::Reshape, {f.x}, {f.shape({4})}); },
         [](Fixture& f) { f.module.lists[1] = Ref(RefKind::list, 0); }, bad,
         "a attribute that names nothing");
  broken(copy, set(1, Ref(RefKind::value, 0)), ErrorCode::UndefinedValue,
         "%0 is read before it is defined");
  broken(
      copy, [](Fixture& f) { f.word(f.module.functions[0].code[0], 1) = f.s; },
      ErrorCode::NotReadable, "@s is a stream");
  broken([](Fixture& f) { f.add(Opcode::Next, {f.s}); },
         [](Fixture& f) { f.word(f.module.functions[0].code[0], 2) = f.x; }, ErrorCode::NotReadable,
         "'next' reads a stream, and @x is none");
  broken([](Fixture& f) { f.add(Opcode::Next, {f.s}); },
         [](Fixture& f) { f.word(f.module.functions[0].code[0], 2) = f.n; }, ErrorCode::NotReadable,
         "'next' reads a stream");
  broken(
      copy, [](Fixture& f) { f.word(f.module.functions[0].code[0], 1) = {}; },
      ErrorCode::OperandCount, "operand 'x' of 'copy' is missing");
  broken(
      copy, [](Fixture& f) { f.module.functions[0].values[0].type = f.build.type(kVector); },
      ErrorCode::ResultType, "the result is f32[2,2], and %0 is f32[4]");
  broken(
      copy,
      [](Fixture& f) {
        f.module.functions[0].code[0].operands = 2;
        f.module.words.push_back(f.x);
      },
      ErrorCode::OperandCount, "takes 1 operand, found 2");
  broken(
      [](Fixture& f) {
        f.add(Opcode::Dropout, {f.x}, {f.build.real(DType::f32, 0.5), f.build.integer(1)});
      },
      [](Fixture& f) { f.word(f.module.functions[0].code[0], 5) = f.build.integer(0); },
      ErrorCode::NotCanonical, "attribute 'offset' is its default");
  broken(
      [](Fixture& f) {
        f.add(Opcode::Dropout, {f.x}, {f.build.real(DType::f32, 0.5), f.build.integer(1)});
      },
      [](Fixture& f) {
        f.module.functions[0].code[0].results = 1;
        ++f.module.functions[0].code[0].first;
      },
      ErrorCode::BadEncoding, "list of attributes");
  broken(copy, set(0, Ref(RefKind::tensor, 0)), ErrorCode::NotWritable, "@x is of role input");
  broken([](Fixture& f) { f.add(Opcode::Sgd, {f.w, f.x}, {f.lr}); },
         set(0, Ref(RefKind::tensor, 3)), ErrorCode::NotWritable, "@c is of role data");
  broken([](Fixture& f) { f.add(Opcode::Sgd, {f.w, f.x}, {f.lr}); },
         set(1, Ref(RefKind::tensor, 2)), ErrorCode::Alias, "@w is changed in place and read");
  broken([](Fixture& f) { f.add(Opcode::Matmul, {f.w, f.x}, {}, {f.y}); },
         set(0, Ref(RefKind::tensor, 2)), ErrorCode::Alias, "which 'matmul' does not allow");
  broken(
      [](Fixture& f) {
        f.add(Opcode::Copy, {f.x});
        f.add(Opcode::Sgd, {f.w, f.x}, {f.lr});
      },
      [](Fixture& f) { f.word(f.module.functions[0].code[1], 0) = Ref(RefKind::value, 0); },
      ErrorCode::NotWritable, "%0 is a register");
  broken(
      [](Fixture& f) {
        f.add(Opcode::Copy, {f.x});
        f.add(Opcode::Copy, {f.x});
      },
      [](Fixture& f) { f.word(f.module.functions[0].code[1], 0) = Ref(RefKind::value, 0); },
      ErrorCode::Redefined, "defined out of order or twice");
  broken(
      copy, [](Fixture& f) { f.module.functions[0].values.push_back({0}); }, bad,
      "1 of 2 registers are defined");
  broken(
      [](Fixture& f) {
        f.add(Opcode::Slice, {f.x}, {f.build.list(std::vector<Ref>{f.n, f.n}), f.shape({1, 1})});
      },
      [](Fixture& f) { f.module.lists[1] = Ref(RefKind::value, 0); }, ErrorCode::UndefinedValue,
      "read before");
  broken(
      [](Fixture& f) {
        f.add(Opcode::Uniform, {},
              {{}, {}, f.shape({2}), Builder::dtype(DType::f32), f.build.integer(1)});
      },
      [](Fixture& f) { f.word(f.module.functions[0].code[0], 5) = Ref(RefKind::value, 0); },
      ErrorCode::UndefinedValue, "read before");
}

TEST_CASE("two results cannot be one tensor") {
  Fixture f;
  const Ref kept = f.build.tensor("kept", Type::tensor(DType::f32, {2, 2}), Role::output);
  f.build.begin_function("main");
  const Ref targets = f.build.tensor("t", Type::tensor(DType::i32, {2}), Role::input);
  const Ref rows = f.build.tensor("rows", Type::tensor(DType::i64, {2, 2}), Role::output);
  static_cast<void>(targets);
  f.add(Opcode::TopK, {f.x}, {f.build.integer(2)}, {kept, rows});
  f.build.end_function();
  CHECK(verify(f.module).empty());
  f.word(f.module.functions[0].code[0], 1) = kept;
  const Problems problems = verify(f.module);
  REQUIRE(problems.size() >= 2);
  CHECK(problems[1].message == "@kept is written twice");
}

TEST_CASE("regions nest, carry and end as they must") {
  const auto broken = [](const Break& body, const Break& after, ErrorCode want,
                         std::string_view words) {
    DYNAMIC_SECTION(words) { check(problems_of(body, after), want, words); }
  };
  const Break loop = [](Fixture& f) {
    static_cast<void>(
        f.build.open_loop(f.build.integer(0), f.n, f.build.integer(1), std::vector<Ref>{f.x}));
    f.add(Opcode::Copy, {f.build.registers()[1]});
    static_cast<void>(f.build.yield(std::vector<Ref>{f.build.results()[0]}));
  };
  const auto at = [](Fixture& f, size_t i) -> Instruction& {
    return f.module.functions[0].code[i];
  };
  broken(
      [](Fixture& f) {
        for (int i = 0; i <= kMaxNesting; ++i) f.build.open_while({});
      },
      {}, ErrorCode::NestingLimit, "at most 64 deep");
  broken([](Fixture& f) { f.build.open_while({}); }, {}, ErrorCode::Structure,
         "'return' inside the region of 'while'");
  broken([](Fixture& f) { f.build.open_while({}); },
         [](Fixture& f) { f.module.functions[0].code.pop_back(); }, ErrorCode::Structure,
         "'while' is not closed");
  broken(
      kNothing, [](Fixture& f) { f.module.functions[0].code.clear(); }, ErrorCode::Structure,
      "a function ends with 'return'");
  broken(
      kNothing, [](Fixture& f) { f.module.functions[0].code.push_back({}); }, ErrorCode::Structure,
      "follow the 'return'");
  broken(
      [](Fixture& f) {
        static_cast<void>(f.build.yield({}));
        f.module.functions[0].code.push_back({Opcode::Yield, 0, 0, 0, 0});
      },
      {}, ErrorCode::Structure, "'yield' outside a region");
  broken(
      [](Fixture& f) {
        f.build.open_else();
        static_cast<void>(f.build.yield({}));
      },
      {}, ErrorCode::Structure, "'else' follows the region");
  broken(
      [](Fixture& f) {
        f.build.open_while({});
        static_cast<void>(f.build.yield({}));
      },
      {}, ErrorCode::Structure, "without 'test' never ends");
  broken([](Fixture& f) { f.add(Opcode::Test, {f.flag}); }, {}, ErrorCode::Structure,
         "'test' stands in the region of a 'while'");
  broken(
      [](Fixture& f) {
        f.build.open_while({});
        f.add(Opcode::Test, {f.flag});
        f.add(Opcode::Test, {f.flag});
        static_cast<void>(f.build.yield({}));
      },
      {}, ErrorCode::Structure, "has one 'test'");
  broken(
      [](Fixture& f) {
        static_cast<void>(f.build.open_if(f.flag, 1));
        static_cast<void>(f.build.yield(std::vector<Ref>{f.x}));
      },
      {}, ErrorCode::Structure, "needs an 'else'");
  broken(
      [](Fixture& f) {
        static_cast<void>(f.build.open_if(f.flag, 1));
        const auto fault = f.build.yield({});
        REQUIRE(fault);
        CHECK(fault->code == ErrorCode::YieldMismatch);
      },
      {}, ErrorCode::BadEncoding, "a register of a type that does not exist");
  broken(
      loop, [&](Fixture& f) { f.word(at(f, 2), 0) = f.n; }, ErrorCode::YieldMismatch,
      "value 1 of the region is f32[2,2], and 'yield' gives i64");
  broken(
      loop, [&](Fixture& f) { at(f, 2).operands = 0; }, ErrorCode::YieldMismatch,
      "hands on 1 value, and 'yield' gives 0");
  broken(
      loop, [&](Fixture& f) { f.word(at(f, 0), 1) = f.lr; }, ErrorCode::OperandType,
      "operand 'from' of 'loop' is of type i64, found f32");
  broken(
      loop,
      [&](Fixture& f) {
        at(f, 0).operands = 3;
        f.word(at(f, 0), 4) = f.word(at(f, 0), 5);
      },
      ErrorCode::OperandCount, "'loop' carries 0 values in, 1 inside and 1 out");
  broken(
      loop, [&](Fixture& f) { f.word(at(f, 0), 4) = {}; }, ErrorCode::OperandCount,
      "a carried value is missing");
  broken(
      loop, [&](Fixture& f) { f.word(at(f, 0), 0) = f.y; }, ErrorCode::ResultType,
      "what a region carries are registers");
  broken(
      loop, [&](Fixture& f) { f.module.functions[0].values[0].type = f.build.type(kVector); },
      ErrorCode::ResultType, "%0 is f32[4], and starts as f32[2,2]");
  broken(
      loop, [&](Fixture& f) { f.module.functions[0].values[1].type = f.build.type(kCondition); },
      ErrorCode::ResultType, "the counter of a loop is a scalar i64");
  broken(
      [&](Fixture& f) {
        loop(f);
        f.add(Opcode::Copy, {f.x});
      },
      [&](Fixture& f) { f.word(at(f, 3), 1) = Ref(RefKind::value, 3); }, ErrorCode::UndefinedValue,
      "in a region that has ended");
  broken(
      [](Fixture& f) {
        static_cast<void>(f.build.open_if(f.flag, 0));
        static_cast<void>(f.build.yield({}));
      },
      [&](Fixture& f) { f.word(at(f, 0), 0) = f.lr; }, ErrorCode::OperandType,
      "operand 'c' of 'if' is a scalar bool");
  broken(
      [](Fixture& f) {
        static_cast<void>(f.build.open_if(f.flag, 0));
        static_cast<void>(f.build.yield({}));
      },
      [&](Fixture& f) { at(f, 0).operands = 0; }, ErrorCode::OperandCount, "takes one condition");
  broken(
      kNothing,
      [&](Fixture& f) {
        at(f, 0).operands = 1;
        f.module.words.push_back(f.n);
      },
      ErrorCode::YieldMismatch, "the function gives 0 results, and 'return' 1");
}

TEST_CASE("calls fit their functions, do not recurse and do not alias what is changed in place") {
  struct Calls {
    Fixture f;
    uint32_t callee = 0;
    Calls() {
      callee = f.build.begin_function("step");
      const Ref p = f.build.parameter(kMatrix, true, "p");
      const Ref g = f.build.parameter(kMatrix, false, "g");
      f.build.set_results(std::vector<Type>{kMatrix});
      f.add(Opcode::Sgd, {p, g}, {f.lr});
      f.add(Opcode::Add, {p, g}, {}, {p});
      f.build.return_values(std::vector<Ref>{g});
      f.build.end_function();
      f.build.begin_function("main");
    }
    Problems call(std::vector<Ref> arguments, std::vector<Ref> destinations = {}) {
      REQUIRE_FALSE(f.build.call(callee, arguments, destinations));
      f.build.end_function();
      return verify(f.module);
    }
  };
  Calls calls;
  Fixture& f = calls.f;
  SECTION("right") { CHECK(calls.call({f.w, f.x}, {f.y}).empty()); }
  SECTION("too few") {
    check(calls.call({f.w}), ErrorCode::CallMismatch, "'step' takes 2 arguments, found 1");
  }
  SECTION("type") {
    check(calls.call({f.w, f.n}), ErrorCode::CallMismatch,
          "argument 2 of 'step' is f32[2,2], found i64");
  }
  SECTION("not writable") {
    check(calls.call({f.x, f.w}), ErrorCode::NotWritable, "@x is of role input");
  }
  SECTION("twice") {
    check(calls.call({f.w, f.w}), ErrorCode::Alias, "handed over in place and used elsewhere");
  }
  SECTION("result over argument") {
    check(calls.call({f.w, f.x}, {f.w}), ErrorCode::Alias,
          "handed over in place and used elsewhere");
  }
  SECTION("result not writable") {
    check(calls.call({f.w, f.x}, {f.c}), ErrorCode::NotWritable, "@c is of role data");
  }
  SECTION("result count") {
    static_cast<void>(calls.call({f.w, f.x}));
    f.module.functions[0].results.push_back(f.module.functions[0].results[0]);
    const Problems problems = verify(f.module);
    REQUIRE(problems.size() == 2);
    CHECK(problems[1].message == "'step' gives 2 results, found 1");
  }
  SECTION("return type") {
    static_cast<void>(calls.call({f.w, f.x}));
    f.module.functions[0].results[0] = f.build.type(kVector);
    check(verify(f.module), ErrorCode::YieldMismatch,
          "result 1 of the function is f32[4], and 'return' gives f32[2,2]");
  }
  SECTION("result type") {
    static_cast<void>(calls.call({f.w, f.x}));
    f.module.functions[1].values[0].type = f.build.type(kVector);
    check(verify(f.module), ErrorCode::ResultType,
          "result 1 of the call is f32[2,2], and %0 is f32[4]");
  }
  SECTION("no function") {
    static_cast<void>(calls.call({f.w, f.x}));
    f.word(f.module.functions[1].code[0], 3) = Builder::number(0);
    check(verify(f.module), ErrorCode::BadEncoding, "a call without a function");
  }
  SECTION("by name and in place") {
    f.word(f.module.functions[0].code[1], 2) = f.w;  // step reads @w itself
    check(calls.call({f.w, f.x}), ErrorCode::Alias,
          "@w is handed over in place to 'step', and 'step' uses it by name");
  }
  SECTION("recursion") {
    static_cast<void>(calls.call({f.w, f.x}));
    f.word(f.module.functions[1].code[0], 3) = Ref(RefKind::function, 1);
    f.module.functions[1].code[0].operands = 0;
    f.module.functions[1].code[0].results = 0;
    f.module.functions[1].code[0].first += 3;
    f.module.functions[1].values.clear();
    check(verify(f.module), ErrorCode::Recursion, "'main' calls 'main'");
  }
}

TEST_CASE("initialisers fill states, in order, from constants") {
  const auto with_init = [](const Break& body, const Break& after = {}) {
    Fixture f;
    f.build.begin_function("main");
    f.build.end_function();
    f.build.begin_init();
    body(f);
    f.build.end_init();
    if (after) after(f);
    return verify(f.module);
  };
  const auto fill = [](Fixture& f, Ref target) {
    f.add(Opcode::Fill, {f.build.real(DType::f32, 1)},
          {f.shape({2, 2}), Builder::dtype(DType::f32)}, {target});
  };
  CHECK(with_init([&](Fixture& f) { fill(f, f.w); }).empty());
  check(with_init([&](Fixture& f) { fill(f, f.y); }), ErrorCode::NotWritable, "only a state");
  check(with_init([&](Fixture& f) {
          fill(f, f.w);
          fill(f, f.w);
        }),
        ErrorCode::NotCanonical, "in the order of their tensors");
  check(with_init([&](Fixture& f) { f.add(Opcode::Copy, {f.x}, {}, {f.w}); }), ErrorCode::Structure,
        "an initialiser fills one tensor");
  check(with_init([&](Fixture& f) { fill(f, f.w); },
                  [](Fixture& f) { f.word(f.module.init.code[0], 1) = f.lr; }),
        ErrorCode::Structure, "constant operands");
  check(with_init([&](Fixture& f) {
          f.add(Opcode::Uniform, {},
                {f.lr, {}, f.shape({2, 2}), Builder::dtype(DType::f32), f.build.integer(1)}, {f.w});
        }),
        ErrorCode::Structure, "constant attributes");
}

TEST_CASE("embedded tests bind what exists and expect values or a trap") {
  const auto with_test = [](const std::function<Test(Fixture&)>& make) {
    return problems_of(kNothing, [&](Fixture& f) {
      f.module.data.resize(256);
      f.module.tests.push_back(make(f));
    });
  };
  const auto bad = ErrorCode::BadEncoding;
  CHECK(with_test([](Fixture& f) {
          return Test{0, {{f.x, 0}, {f.lr, 64}, {f.s, 0}}, {{f.y, 128}}, TrapCode::None};
        }).empty());
  check(with_test([](Fixture&) { return Test{99, {}, {}, TrapCode::None}; }), bad,
        "a name that does not exist");
  check(with_test(
            [](Fixture&) { return Test{0, {{Ref(RefKind::tensor, 99), 0}}, {}, TrapCode::None}; }),
        bad, "that does not exist");
  check(with_test([](Fixture& f) { return Test{0, {{f.y, 0}}, {}, TrapCode::None}; }),
        ErrorCode::NotWritable, "@y is of role output, which a test cannot give");
  check(with_test([](Fixture& f) { return Test{0, {}, {{f.s, 0}}, TrapCode::None}; }),
        ErrorCode::NotWritable, "which a test cannot expect");
  check(with_test([](Fixture& f) { return Test{0, {}, {{f.lr, 0}}, TrapCode::None}; }), bad,
        "neither a tensor nor a param");
  check(with_test([](Fixture& f) { return Test{0, {{f.x, 1024}}, {}, TrapCode::None}; }), bad,
        "16 bytes at 1024 are not in the data");
  check(with_test([](Fixture&) { return Test{0, {}, {}, static_cast<TrapCode>(99)}; }), bad,
        "no such trap");
  check(with_test([](Fixture& f) { return Test{0, {}, {{f.y, 0}}, TrapCode::Explicit}; }),
        ErrorCode::Structure, "values or a trap, not both");
}

TEST_CASE("problems stop at a hundred") {
  const Problems problems = problems_of(
      [](Fixture& f) {
        for (int i = 0; i < 200; ++i) f.add(Opcode::Copy, {f.x}, {}, {f.y});
      },
      [](Fixture& f) {
        for (size_t i = 0; i < 200; ++i) f.word(f.module.functions[0].code[i], 0) = f.x;
      });
  CHECK(problems.size() == kMaxProblems);
}
