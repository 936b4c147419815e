#include "emulator/measure/ceilings.h"

#include "emulator/measure/ceiling_bench.h"

namespace trek::measure {
namespace {

struct Group {
  std::string name;
  Status (*measure)(CeilingBench& bench);
};
const Group kGroups[] = {{"copy", measure_copy},
                         {"add", measure_add},
                         {"matmul", measure_matmul},
                         {"barrier", measure_barrier},
                         {"launch", measure_launch}};

}  // namespace

std::vector<std::string> ceiling_groups() {
  std::vector<std::string> names;
  for (const Group& group : kGroups) names.push_back(group.name);
  return names;
}

Result<Ceilings> measure_ceilings(const driver::Context& context, const CeilingOptions& options) {
  Result<CeilingBench> bench = CeilingBench::create(context, options);
  if (!bench) return bench.error();
  for (const Group& group : kGroups) {
    if (!options.only.empty() && options.only != group.name) continue;
    if (const Status status = group.measure(*bench); !status) return status.error();
  }
  return std::move(bench->results());
}

}  // namespace trek::measure
