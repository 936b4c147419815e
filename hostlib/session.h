// Session: a module loaded into an engine, from its inputs to its results.
//
//   trek::ModuleFile file = ...;                       // hostlib/module_file.h
//   trek::Bindings bindings(file.module);
//   bindings.bind_file("x", "images.npy");
//   auto session = trek::Session::open(file, engine, bindings, {});
//   trek::RunResult result = session->run({});
//   session->write("y", "scores.npy");
//   session->save_state("weights.safetensors");
//
// The module file and the engine must outlive the session. No exception crosses this interface: what a
// user did wrong comes back as Problems, what the program did wrong as a Trap in the RunResult.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/engine.h"
#include "hostlib/bindings.h"
#include "hostlib/digest.h"
#include "hostlib/module_file.h"

namespace trek {

struct TensorDigest {
  uint32_t tensor = 0;
  Digest digest;
};

class Session {
 public:
  // Loads the module, reading external data relative to its file and checking it, and binds. `options`
  // as in LoadOptions; its `external` is ignored.
  static isa::Result<Session> open(const ModuleFile& file, Engine& engine, const Bindings& bindings,
                                   LoadOptions options);

  // Binds again, between runs; streams begin anew.
  isa::Problems bind(const Bindings& bindings);
  RunResult run(const RunOptions& options) { return program_->run(options); }

  const isa::Module& module() const { return program_->module(); }
  const Counters& counters() const { return program_->counters(); }
  // The bytes of a module tensor; valid until the next call.
  std::span<const std::byte> read(uint32_t tensor) { return program_->read(tensor); }

  // Writes one output or state tensor in the format of the file's ending.
  isa::Problems write(uint32_t tensor, std::string_view file);
  // Writes every state tensor to a safetensors file, whole or not at all.
  isa::Problems save_state(const std::filesystem::path& file);
  // Of each output and state tensor, in the module's order.
  std::vector<TensorDigest> digests();

 private:
  explicit Session(std::unique_ptr<Program> program) : program_(std::move(program)) {}
  std::unique_ptr<Program> program_;
};

}  // namespace trek
