// Native contenders on one device that an engine's figures stand beside: barriers across the grid and plain additions
// (matrix products: products.h). Each keeps its buffers, makes contenders that refer to it, and checks what was
// computed.
#pragma once

#include <vector>

#include "emulator/measure/ceiling_bench.h"

namespace trek::measure {

// Every multiprocessor's block waits for all others, `count` times in one launch.
class GridBarriers {
 public:
  static Result<GridBarriers> create(const CeilingBench& bench, unsigned count);

  // Seconds of one barrier of blocks of so many threads.
  Contender contender(std::string name, unsigned threads);
  // That nobody's arrival was lost in all samples taken.
  Status check() const;

 private:
  GridBarriers(const CeilingBench& bench, driver::Kernel kernel, driver::DeviceBuffer counter,
               unsigned count)
      : bench_(&bench), kernel_(std::move(kernel)), counter_(std::move(counter)), count_(count) {}
  const CeilingBench* bench_;
  driver::Kernel kernel_;
  driver::DeviceBuffer counter_;
  unsigned count_;
  unsigned base_ = 0;  // arrivals so far
};

// Sums of two random arrays of f32, over as many sets as pass the cache: what reading and writing reach at most.
class Additions {
 public:
  // `elements` are those of an array, a multiple of 4 and at least 4096.
  static Result<Additions> create(const CeilingBench& bench, uint64_t elements);

  // Seconds of one sum of all elements, of `repeats` in a row.
  Contender contender(std::string name, int repeats);
  // Read and written by one.
  uint64_t bytes() const { return 3 * sizeof(float) * elements_; }
  Status check() const;

 private:
  Additions(const CeilingBench& bench, driver::Kernel kernel, uint64_t elements, int sets,
            std::vector<driver::DeviceBuffer> buffers)
      : bench_(&bench),
        kernel_(std::move(kernel)),
        elements_(elements),
        buffers_(std::move(buffers)),
        turn_(sets) {}
  Status enqueue(int repeats);

  const CeilingBench* bench_;
  driver::Kernel kernel_;
  uint64_t elements_;
  std::vector<driver::DeviceBuffer> buffers_;  // the sum and both operands of each set
  Turn turn_;
};

// Elements that are compared at the beginning, in the middle and at the end of an array.
inline constexpr uint64_t kWindow = 4096;
std::vector<uint64_t> windows(uint64_t elements);

}  // namespace trek::measure
