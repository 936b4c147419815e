// Transposition of a matrix of elements of 1, 2, 4 or 8 bytes, in blocks that fit a few cache lines.
#include "emulator/kernels/vectors.h"

namespace trek::kernels::TREK_KERNEL_LEVEL {
namespace {

constexpr int64_t kBlock = 8;

template <class T>
void transpose_any(T* r, int64_t r_stride, const T* x, int64_t x_stride, int64_t rows,
                   int64_t columns) {
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) r[j * r_stride + i] = x[i * x_stride + j];
}

template <class T>
void transpose_square(T* r, int64_t r_stride, const T* x, int64_t x_stride) {
  transpose_any(r, r_stride, x, x_stride, kBlock, kBlock);
}

#ifdef __AVX2__
// Eight rows of eight words: pairs of words, then pairs of pairs, then halves change places.
void transpose_square(uint32_t* r, int64_t r_stride, const uint32_t* x, int64_t x_stride) {
  __m256i row[8];
  for (int i = 0; i < 8; ++i)
    row[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(x + i * x_stride));
  __m256i pair[8];
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_epi32(row[i], row[i + 1]);
    pair[i + 1] = _mm256_unpackhi_epi32(row[i], row[i + 1]);
  }
  __m256i four[8];
  for (int i = 0; i < 8; i += 4) {
    four[i] = _mm256_unpacklo_epi64(pair[i], pair[i + 2]);
    four[i + 1] = _mm256_unpackhi_epi64(pair[i], pair[i + 2]);
    four[i + 2] = _mm256_unpacklo_epi64(pair[i + 1], pair[i + 3]);
    four[i + 3] = _mm256_unpackhi_epi64(pair[i + 1], pair[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    auto* low = reinterpret_cast<__m256i_u*>(r + i * r_stride);
    auto* high = reinterpret_cast<__m256i_u*>(r + (i + 4) * r_stride);
    _mm256_storeu_si256(low, _mm256_permute2x128_si256(four[i], four[i + 4], 0x20));
    _mm256_storeu_si256(high, _mm256_permute2x128_si256(four[i], four[i + 4], 0x31));
  }
}
#endif

template <class T>
void transpose(T* r, int64_t r_stride, const T* x, int64_t x_stride, int64_t rows,
               int64_t columns) {
  for (int64_t i = 0; i < rows; i += kBlock) {
    const int64_t height = least(kBlock, rows - i);
    for (int64_t j = 0; j < columns; j += kBlock) {
      const int64_t width = least(kBlock, columns - j);
      T* to = r + j * r_stride + i;
      const T* from = x + i * x_stride + j;
      if (height == kBlock && width == kBlock) {
        transpose_square(to, r_stride, from, x_stride);
      } else {
        transpose_any(to, r_stride, from, x_stride, height, width);
      }
    }
  }
}

}  // namespace

void transpose_block(void* r, int64_t r_stride, const void* x, int64_t x_stride, int64_t rows,
                     int64_t columns, int element_bytes) {
  switch (element_bytes) {
    case 1:
      return transpose(static_cast<uint8_t*>(r), r_stride, static_cast<const uint8_t*>(x), x_stride,
                       rows, columns);
    case 2:
      return transpose(static_cast<uint16_t*>(r), r_stride, static_cast<const uint16_t*>(x),
                       x_stride, rows, columns);
    case 4:
      return transpose(static_cast<uint32_t*>(r), r_stride, static_cast<const uint32_t*>(x),
                       x_stride, rows, columns);
    default:
      return transpose(static_cast<uint64_t*>(r), r_stride, static_cast<const uint64_t*>(x),
                       x_stride, rows, columns);
  }
}

}  // namespace trek::kernels::TREK_KERNEL_LEVEL
