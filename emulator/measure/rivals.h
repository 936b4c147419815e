// Native contenders on one device that an engine's figures stand beside: barriers across the grid, plain additions,
// and cuBLAS's matrix products. Each keeps its buffers, makes contenders that refer to it, and checks what was
// computed.
#pragma once

#include <cstddef>
#include <span>
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

// Products of random square matrices by cuBLAS, over as many sets of operands as pass the cache.
class CublasProducts {
 public:
  static Result<CublasProducts> create(const CeilingBench& bench, const driver::Cublas& cublas,
                                       driver::GemmType type, int size, bool b_transposed);

  // Seconds of one product, of `repeats` in a row: what runs long is slowed by its power.
  Contender contender(std::string name, int repeats);
  Status check() const;

 private:
  CublasProducts(const CeilingBench& bench, const driver::Cublas& cublas, driver::GemmType type,
                 driver::GemmShape shape, int sets, std::vector<driver::DeviceBuffer> buffers)
      : bench_(&bench),
        cublas_(&cublas),
        type_(type),
        shape_(shape),
        buffers_(std::move(buffers)),
        turn_(sets) {}
  Status enqueue(int repeats);

  const CeilingBench* bench_;
  const driver::Cublas* cublas_;
  driver::GemmType type_;
  driver::GemmShape shape_;
  std::vector<driver::DeviceBuffer> buffers_;  // A, B, C of each set
  Turn turn_;
};

// Some elements of C[m,n] = A B against sums in f64, for operands of unit variance; bytes are of row-major
// matrices of the shape.
Status check_product(driver::GemmType type, const driver::GemmShape& shape,
                     std::span<const std::byte> a, std::span<const std::byte> b,
                     std::span<const std::byte> c);

}  // namespace trek::measure
