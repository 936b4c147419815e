// cuBLAS, found at run time: the matrix products that Trek's own are measured against.
//
// Matrices are row-major here, as everywhere in Trek; cuBLAS counts by columns, and the exchange of
// operands happens in this class alone.
#pragma once

#include "emulator/driver/memory.h"

namespace trek::driver {

// Types of the operands and the result; the accumulator is f32.
enum class GemmType : int {
  f32,   // plain f32 arithmetic
  tf32,  // f32 operands, rounded to tf32 for the tensor cores
  bf16,
  f16,
};
std::string_view name(GemmType type);
uint64_t element_bytes(GemmType type);

// C[m,n] = A x B, where B is [k,n], or [n,k] if `b_transposed`, and A is [m,k], or [k,m] if `a_transposed`.
// Row-major without padding.
struct GemmShape {
  int m = 0;
  int n = 0;
  int k = 0;
  bool b_transposed = false;
  bool a_transposed = false;
};

struct CublasApi;

// A cuBLAS handle on one stream, with a workspace of its own so that products can be recorded in graphs.
class Cublas {
 public:
  // Fails with every file name that was tried. $TREK_CUBLAS_LIBRARY names another file.
  static Result<Cublas> create(const Context& context, const Stream& stream);

  Cublas(Cublas&& other) noexcept;
  Cublas& operator=(Cublas&& other) noexcept;
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;
  ~Cublas();

  const std::string& file() const { return file_; }
  std::string version() const;  // "13.1.0"
  // Enqueues one product.
  Status gemm(GemmType type, const GemmShape& shape, CuDevicePointer a, CuDevicePointer b,
              CuDevicePointer c) const;

 private:
  Cublas() = default;
  Status check(int status, std::string doing) const;

  std::shared_ptr<const CublasApi> api_;
  void* handle_ = nullptr;
  DeviceBuffer workspace_;
  std::string file_;
  int version_ = 0;
};

}  // namespace trek::driver
