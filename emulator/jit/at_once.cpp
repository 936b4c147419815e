#include "emulator/jit/at_once.h"

#include "emulator/device/execute.h"
#include "emulator/device/matrix_panels.h"

namespace trek::jit {
namespace {

using device::Form;

// A resident::TaskFunction of which the addresses are the node's descriptor.
void multiply(std::byte* arena, const uint32_t* descriptor, std::byte* shared, uint64_t seed,
              const int64_t* counters, int64_t tile, int64_t /*count*/, device::Fault* fault) {
  const auto& node = *reinterpret_cast<const device::Node*>(descriptor);
  device::Block block;
  block.shared = shared;
  block.shared_bytes = device::kSharedBytes;
  const device::Task task(block);
  device::begin_task(task, block, node, {arena, seed, counters}, fault);
  const auto type = static_cast<isa::DType>(node.compute);
  const Form form = device::form_of(type);
  if (form == Form::real64)
    device::multiply_panels<double>(task, tile);
  else if (form == Form::real32)
    device::multiply_panels<float>(task, tile);
  else if (isa::byte_size(type) == 8)
    device::multiply_panels<uint64_t>(task, tile);
  else
    device::multiply_panels<uint32_t>(task, tile);
  if (device::is_fault(*fault)) device::describe(block);
}

class CodeAtOnce : public resident::HostCode {
 public:
  CodeAtOnce(const resident::Image& image, size_t nodes) : nodes_(nodes) {
    for (const resident::Record& record : image.records) {
      if (!resident::is_of_unit(record.kind)) continue;
      const device::Node& node = resident::node_of(image, record);
      if (static_cast<device::Kind>(node.kind) == device::Kind::matrix)
        nodes_[record.node] = {multiply, reinterpret_cast<const uint32_t*>(&node)};
    }
  }
  resident::NodeCode of(uint32_t node) const override { return nodes_[node]; }

 private:
  std::vector<resident::NodeCode> nodes_;
};

}  // namespace

std::shared_ptr<const resident::HostCode> code_at_once(const resident::Image& image, size_t nodes) {
  return std::make_shared<CodeAtOnce>(image, nodes);
}

}  // namespace trek::jit
