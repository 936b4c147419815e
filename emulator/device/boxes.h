// Boxes of tensors that a block's own warps ask the tensor copy engine for, in units whose blocks wait for nobody else's copies: a
// lane asks for a whole box, where copies of 16 bytes take an instruction of the warp for 512 of them. Their tensor maps are at the
// node's scratch, and they arrive at barriers that stay from task to task (BoxBarriers). Compiled for sm_90a alone.
#pragma once

#ifdef TREK_SM90A

#include "emulator/device/ring.h"
#include "emulator/device/tensor_core.h"

namespace trek::device::boxes {

TREK_TILE tensor::BoxBarriers& barriers() {
  return *reinterpret_cast<tensor::BoxBarriers*>(memory_of_units + tensor::Ring90::kBoxesAt);
}
TREK_TILE uint32_t part_barrier(uint32_t number) {
  return shared_address(barriers().part + number);
}
TREK_TILE uint32_t own_barrier() { return shared_address(&barriers().own); }

TREK_TILE const tensor::TensorMap* maps_of(const Task& task) {
  return reinterpret_cast<const tensor::TensorMap*>(in_device_memory(task.at(task.node().scratch)));
}

// A phase in which so many bytes come, or none; by elected().
TREK_TILE void expect(uint32_t barrier, uint32_t bytes) {
  if (bytes != 0)
    tensor::barrier_expect(barrier, bytes);
  else
    tensor::barrier_arrive(barrier);
}

}  // namespace trek::device::boxes

#endif  // TREK_SM90A
