#include "tests/property/random_module.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "isa/convert.h"
#include "isa/infer.h"
#include "isa/verifier.h"

namespace trek::property {

using isa::Builder;
using isa::DType;
using isa::Module;
using isa::Opcode;
using isa::OpInfo;
using isa::Ref;
using isa::RefKind;
using isa::Role;
using isa::Type;

namespace {

constexpr DType kScalarTypes[] = {DType::i64, DType::f32, DType::f64, DType::boolean};

class Generator {
 public:
  Generator(uint64_t seed, const RandomOptions& options)
      : random_(seed), options_(options), world_(module_, random_, options_) {}

  Module run() {
    for (const OpInfo& op : isa::all_ops())
      if (is_plain(op)) rows_.push_back(&op);
    for (uint64_t i = random_.below(4); i > 0; --i)
      world_.declare_param(random_.pick(kScalarTypes));
    for (uint64_t i = random_.below(4); i > 0; --i)
      world_.declare(world_.some_type(), random_role());
    const auto count =
        static_cast<int>(random_.below(static_cast<uint64_t>(options_.functions) + 1));
    for (int i = 0; i < count; ++i) function(fmt::format("f{}", i), true);
    function("main", false);
    world_.add_initialisers();
    if (options_.tests)
      for (uint64_t i = random_.below(3); i > 0; --i) test(i);
    if (options_.debug) add_random_debug(module_, random_);
    return std::move(module_);
  }

 private:
  Builder& build() { return world_.build(); }

  // Instructions that stand for themselves: the others open regions, close them or call.
  bool is_plain(const OpInfo& op) const {
    switch (op.opcode) {
      case Opcode::Loop:
      case Opcode::While:
      case Opcode::Test:
      case Opcode::If:
      case Opcode::Else:
      case Opcode::Yield:
      case Opcode::Call:
      case Opcode::Return:
        return false;
      case Opcode::Trap:
      case Opcode::AssertFinite:
      case Opcode::Next:
        return !options_.executable;
      default:
        return true;
    }
  }

  Role random_role() {
    constexpr Role kRoles[] = {Role::input, Role::output, Role::state, Role::data};
    return random_.pick(kRoles);
  }

  Type random_scalar_or_tensor() {
    return random_.chance(30) ? Type::make_scalar(random_.pick(kScalarTypes)) : world_.some_type();
  }

  void function(const std::string& name, bool has_signature) {
    const uint32_t index = build().begin_function(name);
    if (has_signature) {
      for (uint64_t i = random_.below(4); i > 0; --i) {
        const Type type = random_scalar_or_tensor();
        world_.see(build().parameter(type, !type.scalar && random_.chance(30)));
      }
      std::vector<Type> results;
      for (uint64_t i = random_.below(3); i > 0; --i) results.push_back(random_scalar_or_tensor());
      build().set_results(results);
    }
    body(0);
    std::vector<Ref> results;
    const std::vector<uint32_t> types = module_.functions[index].results;
    for (uint32_t type : types) results.push_back(world_.value(module_.types[type]));
    build().return_values(results);
    build().end_function();
    world_.forget(0);
    if (has_signature) callable_.push_back(index);
  }

  void body(int depth) {
    for (uint64_t i = random_.below(static_cast<uint64_t>(options_.instructions)) + 1; i > 0; --i) {
      const uint64_t kind = random_.below(20);
      if (kind == 0 && depth < options_.depth)
        loop(depth);
      else if (kind == 1 && depth < options_.depth)
        repeat_while(depth);
      else if (kind == 2 && depth < options_.depth)
        choice(depth);
      else if (kind == 3 && !callable_.empty())
        call();
      else
        plain();
    }
  }

  void plain() {
    constexpr int kAttempts = 20;  // some rows refuse what the dice give, say an axis of a rank 0
    for (int i = 0; i < kAttempts; ++i)
      if (add_random_instruction(world_, module_, *random_.pick(rows_))) return;
  }

  void expect(const std::optional<isa::Fault>& fault) {
    if (!fault) return;
    fmt::print(stderr, "random module: {}\n", fault->message);
    std::abort();
  }

  std::vector<Ref> carried_values() {
    std::vector<Ref> values;
    for (uint64_t i = random_.below(3); i > 0; --i)
      values.push_back(world_.value(random_scalar_or_tensor()));
    return values;
  }

  // Values of these types for a yield: those carried in, or any that are visible.
  std::vector<Ref> values_like(std::span<const Ref> originals) {
    std::vector<Ref> values;
    for (Ref original : originals)
      values.push_back(random_.chance(50) ? original : world_.value(build().type_of(original)));
    return values;
  }

  void see_all(const std::vector<Ref>& refs) {
    for (Ref ref : refs) world_.see(ref);
  }

  void loop(int depth) {
    const int64_t step = random_.chance(70) ? 1 : random_.between(-2, 3);
    const int64_t trips = random_.between(0, 3);
    const int64_t from = random_.between(-2, 2);
    const std::vector<Ref> carried = carried_values();
    expect(build().open_loop(build().integer(from), build().integer(from + trips * step),
                             build().integer(step == 0 ? 1 : step), carried));
    const std::vector<Ref> results(build().results().begin(), build().results().end());
    const std::vector<Ref> inside(build().registers().begin(), build().registers().end());
    const size_t mark = world_.mark();
    see_all(inside);
    body(depth + 1);
    expect(build().yield(values_like(std::span(inside).subspan(1))));
    world_.forget(mark);
    see_all(results);
  }

  // Counts to a small number in its first carried register.
  void repeat_while(int depth) {
    std::vector<Ref> carried = carried_values();
    carried.insert(carried.begin(), build().integer(0));
    build().open_while(carried);
    const std::vector<Ref> results(build().results().begin(), build().results().end());
    const std::vector<Ref> inside(build().registers().begin(), build().registers().end());
    const size_t mark = world_.mark();
    see_all(inside);
    expect(build().add(Opcode::Lt, {inside[0], build().integer(random_.between(0, 3))}));
    const Ref more = build().results()[0];
    expect(build().add(Opcode::Test, {more}));
    body(depth + 1);
    expect(build().add(Opcode::Add, {inside[0], build().integer(1)}));
    const Ref next = build().results()[0];
    std::vector<Ref> yielded = values_like(std::span(inside).subspan(1));
    yielded.insert(yielded.begin(), next);
    expect(build().yield(yielded));
    world_.forget(mark);
    see_all(results);
  }

  void choice(int depth) {
    std::vector<Type> types;
    for (uint64_t i = random_.below(3); i > 0; --i) types.push_back(random_scalar_or_tensor());
    expect(build().open_if(world_.scalar(DType::boolean), static_cast<uint32_t>(types.size())));
    const std::vector<Ref> results(build().results().begin(), build().results().end());
    const bool has_else = !types.empty() || random_.chance(50);
    for (int region = 0; region < (has_else ? 2 : 1); ++region) {
      if (region == 1) build().open_else();
      const size_t mark = world_.mark();
      body(depth + 1);
      std::vector<Ref> values;
      for (const Type& type : types) values.push_back(world_.value(type));
      expect(build().yield(values));
      world_.forget(mark);
    }
    see_all(results);
  }

  void call() {
    const uint32_t callee = random_.pick(callable_);
    std::vector<Ref> arguments;
    for (uint32_t p = 0; p < module_.functions[callee].parameters; ++p) {
      const Type type = module_.types[module_.functions[callee].values[p].type];
      // A fresh state for what is changed in place: no function reaches it another way.
      arguments.push_back(module_.functions[callee].inplace[p] != 0
                              ? world_.declare(type, Role::state)
                              : world_.value(type));
    }
    const auto is_changed = [&](size_t p) { return module_.functions[callee].inplace[p] != 0; };
    for (size_t p = 0; p < arguments.size(); ++p)
      for (size_t q = 0; q < arguments.size(); ++q)
        if (p != q && is_changed(p) && arguments[p] == arguments[q]) return;
    expect(build().call(callee, arguments));
    see_all({build().results().begin(), build().results().end()});
  }

  void bind(Ref target, const Type& type, std::vector<isa::TestBinding>& to) {
    std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
    const auto size = static_cast<size_t>(isa::byte_size(type.dtype));
    for (size_t at = 0; at < bytes.size(); at += size) {
      const uint64_t bits = world_.element(type.dtype);
      std::memcpy(bytes.data() + at, &bits, size);
    }
    to.push_back({target, build().embed(bytes)});
  }

  void test(uint64_t number) {
    isa::Test test;
    test.name = build().string(fmt::format("case {} \"{{\\\n\x01é", number));
    for (uint32_t i = 0; i < module_.tensors.size(); ++i) {
      const Role role = module_.tensors[i].role;
      const Type type = module_.types[module_.tensors[i].type];
      if (role != Role::output && role != Role::data && random_.chance(10))
        bind({RefKind::tensor, i}, type, test.given);
    }
    for (uint32_t i = 0; i < module_.params.size(); ++i)
      if (random_.chance(30))
        bind({RefKind::param, i}, Type::tensor(module_.params[i].dtype, {}), test.given);
    if (random_.chance(30)) {
      test.trap = random_.chance(50) ? isa::TrapCode::IndexOutOfRange : isa::TrapCode::Explicit;
    } else {
      for (uint32_t i = 0; i < module_.tensors.size(); ++i)
        if (module_.tensors[i].role != Role::stream && random_.chance(10))
          bind({RefKind::tensor, i}, module_.types[module_.tensors[i].type], test.expected);
    }
    module_.tests.push_back(test);
  }

  Random random_;
  RandomOptions options_;
  Module module_;
  RandomWorld world_;
  std::vector<const OpInfo*> rows_;
  std::vector<uint32_t> callable_;
};

}  // namespace

Module random_module(uint64_t seed, const RandomOptions& options) {
  Module module = Generator(seed, options).run();
  if (const isa::Problems problems = isa::verify(module); !problems.empty()) {
    for (const isa::Problem& problem : problems)
      fmt::print(stderr, "random module {}: {}: error[{}]: {}\n", seed, problem.place,
                 isa::code(problem.code), problem.message);
    std::abort();
  }
  return module;
}

}  // namespace trek::property
