#include "hostlib/run/dump.h"

#include "emulator/plan/link.h"
#include "emulator/plan/print.h"
#include "hostlib/place.h"
#include "hostlib/run/output.h"
#include "hostlib/run/program.h"

namespace trek::run {

int dump(const Options& options, const ModuleFile& file, const SourceManager& sources) {
  const isa::Module& module = file.module;
  const plan::Device* device = plan::find_device(options.device);
  plan::LinkOptions link;
  link.fast = options.numerics == NumericsMode::fast;
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
  return out_failed() ? kExitNoOutput : kExitDone;
}

}  // namespace trek::run
