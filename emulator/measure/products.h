// Matrix products by cuBLAS that ours are measured against, and whether a product is right.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "emulator/measure/ceiling_bench.h"

namespace trek::measure {

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

// One product of given operands, again and again, recorded in a CUDA graph: what is timed is the products, not their
// launches. Operands that fit in the cache are found there.
class CublasGraph {
 public:
  // A replay lasts about so many seconds, or has kMostNodes products. Bytes are of row-major matrices of the shape.
  static Result<CublasGraph> create(const CeilingBench& bench, const driver::Cublas& cublas,
                                    driver::GemmType type, const driver::GemmShape& shape,
                                    std::span<const std::byte> a, std::span<const std::byte> b,
                                    double seconds);

  // Seconds of one product.
  Contender contender(std::string name);
  Result<std::vector<std::byte>> result() const;

 private:
  static constexpr int kMostNodes = 2000;
  CublasGraph(const CeilingBench& bench, driver::Graph graph, int products,
              std::vector<driver::DeviceBuffer> buffers)
      : bench_(&bench),
        graph_(std::move(graph)),
        products_(products),
        buffers_(std::move(buffers)) {}

  const CeilingBench* bench_;
  driver::Graph graph_;
  int products_;                               // of a replay
  std::vector<driver::DeviceBuffer> buffers_;  // A, B, C
};

// Some elements of C[m,n] = A B against sums in f64, for operands of unit variance; bytes are of row-major
// matrices of the shape.
Status check_product(driver::GemmType type, const driver::GemmShape& shape,
                     std::span<const std::byte> a, std::span<const std::byte> b,
                     std::span<const std::byte> c);

// Where two results of one product are farther from each other than two may be that are right: how many elements, for
// how many of them ours is the one that is nearer to f64, and the first of them.
struct Disagreement {
  uint64_t elements = 0;
  uint64_t ours_nearer = 0;
  uint64_t row = 0;
  uint64_t column = 0;
  double ours = 0;
  double rival = 0;
  double exact = 0;  // in f64
};
std::string text(const Disagreement& found);

// Every element of two results of one product, whose operands have unit variance. A sum of many products may be far from
// another's because that one is wrong, so where they disagree ours is held to the sum in f64: an error where it is beyond
// its own bound there, or where they disagree too often for that.
Result<Disagreement> compare_products(driver::GemmType type, const driver::GemmShape& shape,
                                      std::span<const std::byte> a, std::span<const std::byte> b,
                                      std::span<const std::byte> ours,
                                      std::span<const std::byte> rival);

}  // namespace trek::measure
