#include "hostlib/embedded_tests.h"

#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "hostlib/names.h"
#include "hostlib/place.h"
#include "hostlib/session.h"
#include "hostlib/values.h"

namespace trek {
namespace {

using isa::Module;

std::span<const std::byte> bytes_at(const Module& module, uint64_t offset, int64_t size) {
  return std::span(module.data).subspan(offset, static_cast<size_t>(size));
}

// A stream is given block by block.
Bindings given_by(const Module& module, const isa::Test& test) {
  Bindings bindings(module);
  std::map<uint32_t, std::vector<std::byte>> streams;
  for (const isa::TestBinding& given : test.given) {
    const uint32_t index = given.target.index();
    if (given.target.is(isa::RefKind::param)) {
      const isa::DType dtype = module.params[index].dtype;
      const auto bytes = bytes_at(module, given.offset, isa::byte_size(dtype));
      bindings.set(index, element_bits(dtype, bytes, 0));
    } else {
      const auto bytes = bytes_at(module, given.offset, tensor_type(module, index).bytes());
      if (module.tensors[index].role == isa::Role::stream) {
        std::vector<std::byte>& blocks = streams[index];
        blocks.insert(blocks.end(), bytes.begin(), bytes.end());
      } else {
        bindings.bind(index, {bytes.begin(), bytes.end()});
      }
    }
  }
  for (auto& [index, blocks] : streams) bindings.bind(index, std::move(blocks));
  return bindings;
}

// "@y[1,2]: expected 3 (0x40400000), found 4 (0x40800000)", or nothing where the bits are the same.
std::optional<std::string> difference(const Module& module, uint32_t tensor,
                                      std::span<const std::byte> expected,
                                      std::span<const std::byte> found) {
  const isa::Type& type = tensor_type(module, tensor);
  const std::optional<int64_t> at = first_difference(type.dtype, expected, found);
  if (!at) return std::nullopt;
  const uint64_t wanted_bits = element_bits(type.dtype, expected, *at);
  const uint64_t found_bits = element_bits(type.dtype, found, *at);
  return fmt::format("@{}{}: expected {} ({}), found {} ({})", tensor_name(module, tensor),
                     position_text(type.shape, *at), element_text(type.dtype, wanted_bits),
                     element_hex(type.dtype, wanted_bits), element_text(type.dtype, found_bits),
                     element_hex(type.dtype, found_bits));
}

// What is wrong with how the program ended, or nothing.
std::optional<std::string> wrong_outcome(const Module& module, const isa::Test& test,
                                         const RunResult& result) {
  switch (result.outcome) {
    case Outcome::done:
      if (test.trap == isa::TrapCode::None) return std::nullopt;
      return fmt::format("expected trap {}, but the program ended", isa::name(test.trap));
    case Outcome::trapped:
      if (result.trap->code == test.trap) return std::nullopt;
      return fmt::format("{}: {}trap {}: {}", location_text(module, result.trap->place),
                         test.trap == isa::TrapCode::None
                             ? ""
                             : fmt::format("expected trap {}, found ", isa::name(test.trap)),
                         isa::name(result.trap->code), result.trap->detail);
    case Outcome::limit:
      return fmt::format("{}: limit reached: {}", location_text(module, result.place),
                         result.detail);
    case Outcome::stopped:
      return fmt::format("{}: stopped before its end", location_text(module, result.place));
  }
  return std::nullopt;
}

}  // namespace

TestReport run_test(const ModuleFile& file, uint32_t index, Engine& engine, const LoadOptions& load,
                    const RunOptions& run) {
  const Module& module = file.module;
  const isa::Test& test = module.tests[index];
  TestReport report{module.string(test.name), {}};
  isa::Result<Session> session = Session::open(file, engine, given_by(module, test), load);
  if (!session) {
    for (const isa::Problem& found : session.problems()) report.failures.push_back(found.message);
    return report;
  }
  if (std::optional<std::string> wrong = wrong_outcome(module, test, session->run(run))) {
    report.failures.push_back(*wrong);
    return report;
  }
  for (const isa::TestBinding& expected : test.expected) {
    const uint32_t tensor = expected.target.index();
    const auto wanted = bytes_at(module, expected.offset, tensor_type(module, tensor).bytes());
    if (std::optional<std::string> wrong =
            difference(module, tensor, wanted, session->read(tensor)))
      report.failures.push_back(*wrong);
  }
  return report;
}

}  // namespace trek
