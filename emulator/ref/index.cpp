#include "emulator/ref/index.h"

#include <fmt/format.h>

namespace trek::ref {

Status read_indices(const Step& step, const Tensor& index, int64_t size, const std::string& what,
                    Buffer& out) {
  const int64_t n = index.elements();
  const Kernels& kernels = step.kernels();
  const int64_t found = kernels.first_outside(index.data, index.dtype(), n, size);
  if (found != n) {
    int64_t value = 0;
    kernels.convert(&value, DType::i64, index.data + found * isa::byte_size(index.dtype()),
                    index.dtype(), 1);
    const std::string text = index.dtype() == DType::u64
                                 ? std::to_string(static_cast<uint64_t>(value))
                                 : std::to_string(value);
    return trap(isa::TrapCode::IndexOutOfRange, found,
                fmt::format("index {} is outside {} {}", text, what, size));
  }
  const uint64_t bytes = static_cast<uint64_t>(n) * sizeof(int64_t);
  out = step.scratch(bytes);
  if (!out) return step.out_of_memory(bytes);
  kernels.convert(out.data(), DType::i64, index.data, index.dtype(), n);
  return nullptr;
}

}  // namespace trek::ref
