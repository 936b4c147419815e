// Pointwise instructions, tile by tile: each operand's elements for a tile of the result are brought
// into the lane type, one function makes the tile, and it is converted to the result's type.
#include "emulator/kernels/loops.h"

namespace trek::kernels::TREK_KERNEL_LEVEL {
namespace {

inline constexpr int64_t kTileBytes = kTile * 8;

// Copies the elements that meet results [begin, begin + n): runs along the innermost axis, of
// consecutive elements (stride 1) or of one (stride 0).
template <class T>
void gather_tile(T* out, const TileOperand& operand, int64_t begin, int64_t n) {
  const auto* data = reinterpret_cast<const T*>(operand.data);
  int64_t index[isa::kMaxRank] = {};
  int64_t offset = 0;
  int64_t rest = begin;
  const int last = operand.rank - 1;
  for (int axis = last; axis >= 0; --axis) {
    index[axis] = rest % operand.dims[axis];
    rest /= operand.dims[axis];
    offset += index[axis] * operand.strides[axis];
  }
  for (int64_t done = 0; done < n;) {
    const int64_t run = least(operand.dims[last] - index[last], n - done);
    const T* from = data + offset;
    const int64_t stride = operand.strides[last];
    if (stride == 1) {
      __builtin_memcpy(out + done, from, static_cast<size_t>(run) * sizeof(T));
    } else if (stride == 0) {
      const T value = *from;
      for (int64_t i = 0; i < run; ++i) out[done + i] = value;
    } else {
      for (int64_t i = 0; i < run; ++i) out[done + i] = from[i * stride];
    }
    done += run;
    index[last] += run;
    offset += run * stride;
    for (int axis = last; axis > 0 && index[axis] == operand.dims[axis]; --axis) {
      offset += operand.strides[axis - 1] - index[axis] * operand.strides[axis];
      index[axis] = 0;
      ++index[axis - 1];
    }
  }
}

void gather_bytes(void* out, const TileOperand& operand, int64_t begin, int64_t n) {
  switch (bytes_of(operand.dtype)) {
    case 1:
      return gather_tile(static_cast<uint8_t*>(out), operand, begin, n);
    case 2:
      return gather_tile(static_cast<uint16_t*>(out), operand, begin, n);
    case 4:
      return gather_tile(static_cast<uint32_t*>(out), operand, begin, n);
    default:
      return gather_tile(static_cast<uint64_t*>(out), operand, begin, n);
  }
}

// One value for all: its tile is made once.
bool is_uniform(const TileOperand& operand) { return operand.rank == 1 && operand.strides[0] == 0; }

const void* load_tile(const TileOperand& operand, int64_t begin, int64_t n, std::byte* raw,
                      std::byte* out) {
  const std::byte* from = operand.data + begin * bytes_of(operand.dtype);
  if (!operand.dense) {
    std::byte* gathered = operand.dtype == operand.lane ? out : raw;
    gather_bytes(gathered, operand, begin, n);
    from = gathered;
  }
  if (operand.dtype == operand.lane) return from;
  convert_run(out, operand.lane, from, operand.dtype, n);
  return out;
}

}  // namespace

void run_pointwise(const PointwiseTask& task, int64_t begin, int64_t end) {
  alignas(64) std::byte raw[kTileBytes];
  alignas(64) std::byte loaded[3][kTileBytes];
  alignas(64) std::byte made[kTileBytes];
  const void* x[3] = {};
  const bool direct = task.lane == task.dtype;
  const int64_t bytes = bytes_of(task.dtype);
  for (int64_t at = begin; at < end; at += kTile) {
    const int64_t n = least(kTile, end - at);
    for (int i = 0; i < task.operands; ++i) {
      if (is_uniform(task.operand[i]) && at != begin) continue;
      x[i] = load_tile(task.operand[i], at, n, raw, loaded[i]);
    }
    for (int i = task.operands; i < 3; ++i) x[i] = x[0];
    std::byte* out = task.result + at * bytes;
    task.function(direct ? out : made, x[0], x[1], x[2], task.attributes, n);
    if (!direct) convert_run(out, task.dtype, made, task.lane, n);
  }
}

ElementFunction find_element(Opcode opcode, DType lane) {
  if (opcode == Opcode::Where) return element_where(lane);
  if (lane == DType::f32) return element_f32(opcode);
  if (lane == DType::f64) return element_f64(opcode);
  return element_integer(opcode, lane);
}

int64_t find_zero(const void* x, DType dtype, int64_t n) {
  int64_t found = n;
  with_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (semantics::kIsInteger<T>) {
      const auto* values = static_cast<const T*>(x);
      for (found = 0; found < n && values[found] != T(0);) ++found;
    }
  });
  return found;
}

int64_t find_outside(const void* x, DType dtype, int64_t n, int64_t limit) {
  int64_t found = n;
  with_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (semantics::kIsInteger<T>) {
      // A negative index is a great one when it is read as unsigned.
      const auto* values = static_cast<const T*>(x);
      const auto bound = static_cast<uint64_t>(limit);
      for (found = 0; found < n; ++found)
        if (static_cast<uint64_t>(values[found]) >= bound) return;
    }
  });
  return found;
}

int64_t find_not_finite(const void* x, DType dtype, int64_t n) {
  int64_t found = n;
  with_real(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using C = Compute<T>;
    const auto* values = static_cast<const T*>(x);
    // x × 0 is 0 for a finite x and NaN else; whole tiles first, so that the common case vectorises.
    for (int64_t at = 0; at < n; at += kTile) {
      const int64_t end = least(n, at + kTile);
      int bad = 0;
      for (int64_t i = at; i < end; ++i) {
        const C value = semantics::convert<C>(values[i]);
        bad |= value * C(0) == C(0) ? 0 : 1;
      }
      if (bad == 0) continue;
      for (int64_t i = at; i < end; ++i) {
        const C value = semantics::convert<C>(values[i]);
        if (value * C(0) == C(0)) continue;
        found = i;
        return;
      }
    }
  });
  return found;
}

}  // namespace trek::kernels::TREK_KERNEL_LEVEL
