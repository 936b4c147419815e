#include "tests/unit/plan/run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "assembler/assemble.h"
#include "emulator/plan/measured.h"
#include "emulator/ref/ref_engine.h"
#include "isa/convert.h"

namespace trek::plan::test {

Device small_device(int processors) {
  Device device;
  device.name = fmt::format("small{}", processors);
  device.processors = processors;
  device.matrix_rows = 4;
  device.matrix_columns = 8;
  device.chunk = 16;
  device.tiles_per_processor = device.tasks_per_processor = 64;
  return device;
}

isa::Module assembled(const std::string& text) {
  Assembly assembly = assemble_text("test.trek", ".trek 1.0\n" + text);
  for (const isa::Problem& problem : assembly.problems) FAIL_CHECK(problem.message);
  REQUIRE(assembly.ok());
  return std::move(assembly.module);
}

Plan linked(const isa::Module& module, const Device& device, bool fuse) {
  auto plan = link(module, device, {false, fuse});
  REQUIRE(plan.ok());
  return plan.take();
}

Plan linked_fast(const isa::Module& module, Device device) {
  device.copies_tensors = true;
  LinkOptions fast;
  fast.fast = true;
  isa::Result<Plan> plan = link(module, device, fast);
  REQUIRE(plan);
  return plan.take();
}

Plan linked_with_tiles(const isa::Module& module, const Device& device, LinkOptions options,
                       const std::function<bool(const MatrixTiles&)>& is_wanted) {
  const isa::Result<Plan> chosen = link(module, device, options);
  REQUIRE(chosen);
  const ChosenProduct& product = chosen->products.at(0);
  const std::vector<MatrixTiles> all = candidates(device, work_of(*chosen, product));
  const auto found = std::ranges::find_if(all, is_wanted);
  REQUIRE(found != all.end());
  MeasuredTiles measured;
  measured.set_instruction(product.node.instruction, *found);
  options.tiles = &measured;
  isa::Result<Plan> plan = link(module, device, options);
  REQUIRE(plan);
  return plan.take();
}

std::string errors_of(const Plan& plan) {
  std::string text;
  for (const std::string& error : check_plan(plan)) text += error + "\n";
  return text;
}

uint32_t node_of(const Plan& plan, isa::Opcode opcode) {
  uint32_t found = kNone;
  for (uint32_t n = 0; n < plan.nodes.size(); ++n) {
    const bool last = !plan.nodes[n].chain.empty() && plan.nodes[n].chain.back().opcode == opcode;
    if (plan.nodes[n].opcode != opcode && !last) continue;
    REQUIRE(found == kNone);
    found = n;
  }
  REQUIRE(found != kNone);
  return found;
}

void expect_each_in_one(const isa::Shape& shape, BoxSize boxes) {
  std::vector<uint8_t> times(static_cast<size_t>(shape.elements()), 0);
  for (int64_t number = 0; number < count_of(shape, boxes); ++number) {
    const Box box = box_at(shape, boxes, number);
    for (int64_t row = 0; row < box.rows; ++row)
      for (int64_t i = 0; i < box.row_bytes; ++i)
        ++times[static_cast<size_t>(box.begin + row * box.stride + i)];
  }
  CHECK(std::ranges::all_of(times, [](uint8_t of_one) { return of_one == 1; }));
}

void make_nans_one(isa::DType dtype, std::vector<std::byte>& bytes) {
  if (!isa::is_real(dtype)) return;
  const auto size = static_cast<size_t>(isa::byte_size(dtype));
  const uint64_t one = isa::double_to_bits(dtype, std::nan(""));
  for (size_t at = 0; at < bytes.size(); at += size) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, size);
    if (std::isnan(isa::bits_to_double(dtype, bits))) std::memcpy(bytes.data() + at, &one, size);
  }
}

namespace {

void write(std::span<std::byte> to, const std::vector<std::byte>& from) {
  REQUIRE(to.size() == from.size());
  std::copy(from.begin(), from.end(), to.begin());
}

void initialise(const isa::Module& module, const Plan& plan, std::span<std::byte> arena) {
  for (uint32_t i = 0; i < module.tensors.size(); ++i) {
    const isa::TensorDecl& decl = module.tensors[i];
    const auto bytes = tensor_bytes(plan, arena, i);
    if (decl.source == isa::DataSource::embedded && !bytes.empty())
      std::memcpy(bytes.data(), module.data.data() + decl.offset, bytes.size());
  }
  for (uint32_t i = 0; i < module.params.size(); ++i) {
    const auto bytes = param_bytes(plan, arena, i);
    std::memcpy(bytes.data(), &module.constants[module.params[i].value].bits, bytes.size());
  }
}

}  // namespace

Outcome run(const isa::Module& module, const Plan& plan, uint64_t order_seed, const Given& given) {
  InterpretOptions options;
  options.order_seed = order_seed;
  options.task_limit = 2'000'000;
  int blocks = 0;
  options.next = [&](uint32_t, std::span<std::byte> block) {
    if (++blocks > given.blocks) return false;
    for (size_t i = 0; i < block.size(); ++i)
      block[i] = static_cast<std::byte>((i + static_cast<size_t>(blocks)) % 3 == 0);
    return true;
  };
  int64_t arena_bytes = plan.arena_bytes;
  if (given.prepare) given.prepare(plan, options, arena_bytes);
  std::vector<std::byte> arena(static_cast<size_t>(arena_bytes));
  initialise(module, plan, arena);
  auto first = link(module, plan.device, {true, true});
  REQUIRE(first.ok());
  REQUIRE(errors_of(*first).empty());
  InterpretOptions first_options = options;
  int64_t first_bytes = first->arena_bytes;
  if (given.prepare) given.prepare(*first, first_options, first_bytes);
  std::vector<std::byte> first_arena(static_cast<size_t>(first_bytes));
  initialise(module, *first, first_arena);
  const Interpreted initial = interpret(*first, first_arena, first_options);
  REQUIRE(initial.failure.empty());
  for (uint32_t i = 0; i < module.tensors.size(); ++i) {
    const auto from = tensor_bytes(*first, first_arena, i);
    std::copy(from.begin(), from.end(), tensor_bytes(plan, arena, i).begin());
  }
  for (const auto& [tensor, bytes] : given.tensors) write(tensor_bytes(plan, arena, tensor), bytes);
  for (const auto& [param, bytes] : given.params) write(param_bytes(plan, arena, param), bytes);

  const Interpreted result = interpret(plan, arena, options);
  Outcome outcome;
  outcome.failure = result.failure;
  outcome.emitted = result.emitted;
  for (EmittedValue& value : outcome.emitted) make_nans_one(value.type.dtype, value.bytes);
  if (result.trap) {
    outcome.trap =
        fmt::format("{} at {}:{} element {}", isa::name(result.trap->code), result.trap->function,
                    result.trap->instruction, result.trap->element);
    return outcome;  // memory is not defined
  }
  outcome.instructions = result.instructions;
  for (uint32_t i = 0; i < module.tensors.size(); ++i) {
    const auto bytes = tensor_bytes(plan, arena, i);
    outcome.tensors.emplace_back(bytes.begin(), bytes.end());
    make_nans_one(module.types[module.tensors[i].type].dtype, outcome.tensors.back());
  }
  return outcome;
}

Outcome reference(const isa::Module& module) {
  LoadOptions options;
  options.threads = 1;
  auto program = make_ref_engine()->load(module, options);
  REQUIRE(program.ok());
  Outcome outcome;
  const RunResult result = (*program)->run({});
  if (result.trap) {
    outcome.trap = fmt::format("{} at {}:{} element {}", isa::name(result.trap->code),
                               result.trap->place.function, result.trap->place.instruction,
                               result.trap->element);
    return outcome;
  }
  outcome.instructions = (*program)->counters().instructions;
  for (uint32_t i = 0; i < module.tensors.size(); ++i) {
    std::vector<std::byte> bytes;
    if (module.tensors[i].role != isa::Role::stream) {
      const auto span = (*program)->read(i);
      bytes.assign(span.begin(), span.end());
      make_nans_one(module.types[module.tensors[i].type].dtype, bytes);
    }
    outcome.tensors.push_back(std::move(bytes));
  }
  return outcome;
}

void expect_as_reference(const isa::Module& module) {
  const Outcome want = reference(module);
  for (const int processors : {1, 2, 9})
    for (const bool fuse : {true, false}) {
      INFO(processors << " processors" << (fuse ? ", fused" : ""));
      const Plan plan = linked(module, small_device(processors), fuse);
      REQUIRE(errors_of(plan) == "");
      const Outcome got = run(module, plan, 1);
      REQUIRE(got.failure == "");
      CHECK(got.trap == want.trap);
      CHECK(got.tensors == want.tensors);
      CHECK(got.instructions == want.instructions);
    }
}

std::vector<std::string> conformance_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/conformance"))
    if (entry.path().extension() == ".trek") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

Given given_by(const isa::Module& module, const isa::Test& test) {
  Given given;
  given.blocks = 0;
  for (const isa::TestBinding& binding : test.given) {
    const bool is_tensor = binding.target.is(isa::RefKind::tensor);
    const uint32_t index = binding.target.index();
    const int64_t size = is_tensor ? module.types[module.tensors[index].type].bytes()
                                   : isa::byte_size(module.params[index].dtype);
    const auto from = module.data.begin() + static_cast<std::ptrdiff_t>(binding.offset);
    (is_tensor ? given.tensors : given.params)[index] = {from, from + size};
  }
  return given;
}

void expect(const isa::Module& module, const isa::Test& test, const Outcome& outcome) {
  if (test.trap != isa::TrapCode::None) {
    CHECK(outcome.trap.starts_with(std::string(isa::name(test.trap)) + " "));
    return;
  }
  REQUIRE(outcome.trap.empty());
  for (const isa::TestBinding& binding : test.expected) {
    const uint32_t tensor = binding.target.index();
    const isa::Type& type = module.types[module.tensors[tensor].type];
    const auto from = module.data.begin() + static_cast<std::ptrdiff_t>(binding.offset);
    std::vector<std::byte> want(from, from + type.bytes());
    make_nans_one(type.dtype, want);
    INFO("@" << module.strings[module.tensors[tensor].name] << " " << type.text());
    CHECK(outcome.tensors[tensor] == want);
  }
}

}  // namespace trek::plan::test
