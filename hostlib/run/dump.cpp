#include "hostlib/run/dump.h"

#include <fmt/format.h>

#include "emulator/jit/gpu_engine.h"
#include "emulator/jit/jit_engine.h"
#include "emulator/plan/link.h"
#include "emulator/plan/print.h"
#include "hostlib/engines.h"
#include "hostlib/place.h"
#include "hostlib/run/output.h"
#include "hostlib/run/program.h"
#include "hostlib/run/tune.h"

namespace trek::run {

namespace {

// What the JIT makes of the program: on this computer, or on a device.
int dump_code(const Options& options, const isa::Module& module, const SourceManager& sources) {
  LoadOptions load;
  load.numerics = options.numerics;
  load.threads = options.threads;
  const auto place = [&](uint32_t function, uint32_t instruction) {
    const Place at = {function, instruction};
    return fmt::format("{}: {}", location_text(module, at), written_text(module, at));
  };
  const bool on_device = options.dump == "ptx" || options.dump == "sass" ||
                         (options.dump == "ir" && jit::names_gpu_level());
  const auto form = options.dump == "ir"    ? jit::Form::ir
                    : options.dump == "asm" ? jit::Form::assembly
                    : options.dump == "ptx" ? jit::Form::ptx
                                            : jit::Form::sass;
  const isa::Result<std::string> code =
      on_device ? jit::print_gpu_code(module, load, options.device, form, place)
                : jit::print_code(module, load, form, place);
  if (!code) {
    const isa::Problem& first = code.problems().front();
    const bool is_missing = first.code == isa::ErrorCode::UnknownInstruction;
    if (is_missing && first.place.empty())  // something of this machine's, not of the program
      print_error(fmt::format("trek-run: {}\n", first.message));
    else
      print_problems(code.problems(), sources, options.file);
    return is_missing ? kExitNoEngine : kExitInvalid;
  }
  print_out(*code);
  return printed();
}

// The device to link for; null where there is none, and `code` says why.
std::shared_ptr<const plan::Device> device_of(const Options& options, int& code) {
  if (options.device != kDeviceHere) {
    const plan::Device& known = *plan::find_device(options.device);
    const bool is_compiled = options.engine == jit::engine_name(resident::Executing::compiles);
    const bool is_generic = &known == &plan::known_devices()[0];
    return std::make_shared<const plan::Device>(
        is_compiled && !is_generic ? jit::device_linked_for(options.device) : known);
  }
  std::string why;
  const std::unique_ptr<Engine> engine = make_engine(options.engine, why);
  code = kExitNoEngine;
  if (engine == nullptr) {
    print_error(fmt::format("trek-run: {}\n", why));
    return nullptr;
  }
  const auto device = engine->device(load_options(options));
  if (!device) {
    print_error(fmt::format("trek-run: {}\n", device.problems()[0].message));
  } else if (*device == nullptr) {
    code = kExitUsage;
    print_error(fmt::format("trek-run: --device here: the engine {} links for no device\n",
                            engine->name()));
  }
  return device ? *device : nullptr;
}

}  // namespace

int dump(const Options& options, const ModuleFile& file, const SourceManager& sources) {
  const isa::Module& module = file.module;
  if (options.dump != "plan" && options.dump != "fusion")
    return dump_code(options, module, sources);
  int code = kExitDone;
  const std::shared_ptr<const plan::Device> device = device_of(options, code);
  if (device == nullptr) return code;
  const std::shared_ptr<const plan::MeasuredTiles> tiles = remembered_tiles(*device);
  plan::LinkOptions link;
  link.fast = options.numerics == NumericsMode::fast;
  link.tiles = tiles.get();
  const isa::Result<plan::Plan> linked = plan::link(module, *device, link);
  if (!linked) {
    print_problems(linked.problems(), sources, options.file);
    return kExitInvalid;
  }
  if (options.dump == "fusion") {
    print_out(plan::print_fusion(*linked));
  } else {
    plan::PrintOptions print;
    print.place = [&](uint32_t function, uint32_t instruction) {
      return location_text(module, {function, instruction});
    };
    print_out(plan::print_plan(*linked, print));
  }
  return printed();
}

}  // namespace trek::run
