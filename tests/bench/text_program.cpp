#include "tests/bench/text_program.h"

#include <cstring>

#include <fmt/format.h>

#include "assembler/assemble.h"

namespace trek::bench {

Result<std::unique_ptr<TextProgram>> TextProgram::open(Engine& engine, const std::string& text,
                                                       int threads) {
  std::unique_ptr<TextProgram> made(new TextProgram);
  Assembly assembly = assemble_text("bench.trek", text);
  if (!assembly.ok()) return to_error("assembling a program", assembly.problems);
  made->module_ = std::move(assembly.module);
  LoadOptions options;
  options.threads = threads;
  isa::Result<std::unique_ptr<Program>> program = engine.load(made->module_, options);
  if (!program) return to_error("loading a program", program.problems());
  made->program_ = program.take();
  return made;
}

uint32_t TextProgram::tensor_named(std::string_view name) const {
  for (uint32_t i = 0; i < module_.tensors.size(); ++i)
    if (module_.string(module_.tensors[i].name) == name) return i;
  return UINT32_MAX;
}

Status TextProgram::bind(std::string_view tensor, std::span<const float> values) {
  const isa::Problems problems = program_->bind(tensor_named(tensor), std::as_bytes(values));
  if (!problems.empty()) return to_error(fmt::format("binding @{}", tensor), problems);
  return Done{};
}

Status TextProgram::run() {
  const RunResult result = program_->run({});
  if (result.outcome != Outcome::done) return Error{"running a program", "", result.detail};
  return Done{};
}

std::vector<float> TextProgram::read(std::string_view tensor) {
  const std::span<const std::byte> bytes = program_->read(tensor_named(tensor));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

measure::Contender TextProgram::contender(std::string name) {
  return repeated(std::move(name), [this] { static_cast<void>(run()); });
}

}  // namespace trek::bench
