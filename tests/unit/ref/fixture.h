// Small programs for tests of the reference engine: a module is built, loaded, bound and run in a line
// each, and tensors are vectors of numbers.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "emulator/ref/ref_engine.h"
#include "isa/builder.h"
#include "isa/convert.h"
#include "isa/verifier.h"

namespace trek::test {

using isa::DType;
using isa::Opcode;
using isa::Ref;
using isa::Role;
using isa::Shape;
using isa::Type;

struct Fixture {
  isa::Module module;
  isa::Builder build{module};
  LoadOptions load_options;
  RunOptions run_options;
  std::unique_ptr<Program> program;

  Ref input(std::string_view name, DType dtype, Shape shape) {
    return build.tensor(name, Type::tensor(dtype, shape), Role::input);
  }
  Ref output(std::string_view name, DType dtype, Shape shape) {
    return build.tensor(name, Type::tensor(dtype, shape), Role::output);
  }
  Ref state(std::string_view name, DType dtype, Shape shape) {
    return build.tensor(name, Type::tensor(dtype, shape), Role::state);
  }
  Ref list(std::initializer_list<int64_t> values) {
    return build.integers(std::span(values.begin(), values.size()));
  }
  static Ref flag(bool on = true) { return isa::Builder::number(on ? 1 : 0); }
  static Ref dtype(DType dtype) { return isa::Builder::dtype(dtype); }

  // Appends an instruction; its first result.
  Ref add(Opcode opcode, std::initializer_list<Ref> operands,
          std::initializer_list<Ref> attributes = {},
          std::initializer_list<Ref> destinations = {}) {
    const auto fault = build.add(opcode, operands, attributes, destinations);
    INFO(isa::info(opcode).mnemonic << ": " << (fault ? fault->message : ""));
    REQUIRE_FALSE(fault);
    return build.results().empty() ? Ref{} : build.results()[0];
  }
  Ref result(size_t i) const { return build.results()[i]; }

  isa::Problems load() {
    const isa::Problems problems = isa::verify(module);
    for (const isa::Problem& problem : problems)
      UNSCOPED_INFO(problem.place << ": " << problem.message);
    REQUIRE(problems.empty());
    auto loaded = make_ref_engine()->load(module, load_options);
    if (!loaded) return loaded.take_problems();
    program = loaded.take();
    return {};
  }
  void must_load() {
    const isa::Problems problems = load();
    INFO((problems.empty() ? "" : problems[0].message));
    REQUIRE(problems.empty());
  }
  RunResult run() const { return program->run(run_options); }
  void must_run() {
    if (!program) must_load();
    const RunResult result = run();
    INFO((result.trap ? result.trap->detail : result.detail));
    REQUIRE(result.outcome == Outcome::done);
  }

  const Type& type(Ref tensor) const { return module.types[module.tensors[tensor.index()].type]; }
  template <class T>
  void bind(Ref tensor, const std::vector<T>& values) {
    if (!program) must_load();
    const auto problems = program->bind(tensor.index(), std::as_bytes(std::span<const T>(values)));
    INFO((problems.empty() ? "" : problems[0].message));
    REQUIRE(problems.empty());
  }
  // Numbers rounded to the tensor's type.
  void bind_reals(Ref tensor, const std::vector<double>& values) {
    const DType dtype = type(tensor).dtype;
    const auto size = static_cast<size_t>(isa::byte_size(dtype));
    std::vector<std::byte> bytes(values.size() * size);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint64_t bits = isa::is_real(dtype)
                                ? isa::double_to_bits(dtype, values[i])
                                : static_cast<uint64_t>(static_cast<int64_t>(values[i]));
      std::memcpy(bytes.data() + i * size, &bits, size);
    }
    bind(tensor, bytes);
  }
  template <class T>
  std::vector<T> read(Ref tensor) const {
    const auto bytes = program->read(tensor.index());
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<double> read_reals(Ref tensor) const {
    const DType dtype = type(tensor).dtype;
    const auto size = static_cast<size_t>(isa::byte_size(dtype));
    const auto bytes = program->read(tensor.index());
    std::vector<double> values;
    for (size_t at = 0; at < bytes.size(); at += size) {
      uint64_t bits = 0;
      std::memcpy(&bits, bytes.data() + at, size);
      if (isa::is_real(dtype)) {
        values.push_back(isa::bits_to_double(dtype, bits));
      } else {
        const int shift =
            isa::kind(dtype) == isa::DTypeKind::sint ? 64 - 8 * static_cast<int>(size) : 0;
        values.push_back(static_cast<double>(static_cast<int64_t>(bits << shift) >> shift));
      }
    }
    return values;
  }
};

// Numbers that look random, with zeros of both signs and of many magnitudes among them; the same on
// every machine.
inline std::vector<float> noise(size_t n, uint64_t seed) {
  std::vector<float> values(n);
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (float& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto bits = static_cast<uint32_t>(state >> 33);
    value =
        (static_cast<float>(bits % 4096) - 2048.0f) / static_cast<float>(1u << (bits >> 12 & 15));
  }
  return values;
}

}  // namespace trek::test
