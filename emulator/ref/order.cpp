// Sorting. An element becomes a key (isa/semantics/compare.h) beside its index, so that one comparison
// of integers gives the order of all types, and equal elements keep theirs. Turned round, a key gives
// the descending order.
#include "emulator/ref/order.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "emulator/ref/box.h"
#include "emulator/ref/execute.h"
#include "isa/semantics/compare.h"

namespace trek::ref {
namespace {

constexpr int64_t kParallelElements = 8'192;

// An element of 64 bits with its index.
struct LongItem {
  uint64_t key = 0;
  uint64_t index = 0;
  bool operator<(const LongItem& other) const {
    return key != other.key ? key < other.key : index < other.index;
  }
};

uint64_t index_of_item(uint64_t item) { return item & UINT32_MAX; }
uint64_t index_of_item(const LongItem& item) { return item.index; }

// What is sorted, and where its order goes.
struct Task {
  const Tensor* x = nullptr;
  int axis = 0;
  bool descending = false;
  int64_t wanted = 0;           // how many of each line
  std::byte* values = nullptr;  // [outer][wanted][inner], or null
  std::byte* indices = nullptr;
  DType index_dtype = DType::i64;
};

template <class Item>
void order_line(Item* items, Item* spare, int64_t n, int64_t wanted) {
  if (wanted < n / 8) {
    std::partial_sort(items, items + wanted, items + n);
  } else if constexpr (sizeof(Item) == sizeof(uint64_t)) {
    sort_items(items, spare, n);
  } else {
    std::sort(items, items + n);
  }
}

template <class T, class Item>
void order_lines(const Task& task, int64_t begin, int64_t end, Item* items) {
  using K = semantics::OrderKeyOf<T>;
  const int64_t n = task.x->shape()[task.axis];
  const int64_t inner = Strides(task.x->shape())[task.axis];
  for (int64_t line = begin; line < end; ++line) {
    const T* x = task.x->as<const T>() + line / inner * n * inner + line % inner;
    for (int64_t i = 0; i < n; ++i) {
      const K key = semantics::order_key(x[i * inner]);
      const K ordered = task.descending ? static_cast<K>(~key) : key;
      const auto index = static_cast<uint64_t>(i);
      if constexpr (sizeof(Item) == sizeof(uint64_t)) {
        items[i] = uint64_t{ordered} << 32 | index;
      } else {
        items[i] = {ordered, index};
      }
    }
    order_line(items, items + n, n, task.wanted);
    const int64_t first = line / inner * task.wanted * inner + line % inner;
    const int index_bytes = isa::byte_size(task.index_dtype);
    for (int64_t i = 0; i < task.wanted; ++i) {
      const auto index = static_cast<int64_t>(index_of_item(items[i]));
      const int64_t at = first + i * inner;
      if (task.values != nullptr) reinterpret_cast<T*>(task.values)[at] = x[index * inner];
      // An integer's first bytes are it modulo 2^n.
      if (task.indices != nullptr)
        std::memcpy(task.indices + at * index_bytes, &index, static_cast<size_t>(index_bytes));
    }
  }
}

template <class T>
Status order_as(const Step& step, const Task& task) {
  // Indices beyond 32 bits, and keys of 64, need the long form.
  const int64_t n = task.x->shape()[task.axis];
  const bool is_long = sizeof(T) == 8 || n > UINT32_MAX;
  const int64_t lines = task.x->elements() / n;
  const bool is_small = task.x->elements() < kParallelElements;
  const int64_t parts = is_small ? 1 : std::min<int64_t>(lines, step.pool().threads());
  const uint64_t line_bytes =
      static_cast<uint64_t>(2 * n) * (is_long ? sizeof(LongItem) : sizeof(uint64_t));
  const uint64_t bytes = line_bytes * static_cast<uint64_t>(parts);
  const Buffer scratch = step.scratch(bytes);
  if (!scratch) return step.out_of_memory(bytes);
  step.pool().run(parts, [&](int64_t part) {
    std::byte* items = scratch.data() + static_cast<uint64_t>(part) * line_bytes;
    const int64_t begin = lines * part / parts;
    const int64_t end = lines * (part + 1) / parts;
    if constexpr (sizeof(T) < 8) {
      if (!is_long) return order_lines<T>(task, begin, end, reinterpret_cast<uint64_t*>(items));
    }
    order_lines<T>(task, begin, end, reinterpret_cast<LongItem*>(items));
  });
  return nullptr;
}

Status order(const Step& step, const Task& task) {
  if (task.x->elements() == 0 || task.wanted == 0) return nullptr;
  switch (task.x->dtype()) {
    case DType::f64:
      return order_as<double>(step, task);
    case DType::f32:
      return order_as<float>(step, task);
    case DType::f16:
      return order_as<semantics::F16>(step, task);
    case DType::bf16:
      return order_as<semantics::BF16>(step, task);
    case DType::f8e4m3:
      return order_as<semantics::F8E4M3>(step, task);
    case DType::f8e5m2:
      return order_as<semantics::F8E5M2>(step, task);
    case DType::i8:
      return order_as<int8_t>(step, task);
    case DType::i16:
      return order_as<int16_t>(step, task);
    case DType::i32:
      return order_as<int32_t>(step, task);
    case DType::i64:
      return order_as<int64_t>(step, task);
    case DType::u8:
      return order_as<uint8_t>(step, task);
    case DType::u16:
      return order_as<uint16_t>(step, task);
    case DType::u32:
      return order_as<uint32_t>(step, task);
    case DType::u64:
      return order_as<uint64_t>(step, task);
    case DType::boolean:
      return order_as<semantics::Bool>(step, task);
    case DType::none:
      break;
  }
  return nullptr;
}

Task task_of(const Step& step) {
  Task task;
  task.x = &step.operand(0);
  task.axis = step.axis(task.x->shape().rank());
  task.wanted = task.x->shape()[task.axis];
  return task;
}

}  // namespace

void sort_items(uint64_t* items, uint64_t* spare, int64_t n) {
  constexpr int64_t kFew = 1024;
  if (n < kFew) {
    std::sort(items, items + n);
    return;
  }
  // By one byte of the key after the other, the lowest first; each pass is stable.
  for (int shift = 32; shift < 64; shift += 8) {
    std::array<int64_t, 257> begin{};
    for (int64_t i = 0; i < n; ++i) ++begin[(items[i] >> shift & 0xFF) + 1];
    if (std::find(begin.begin(), begin.end(), n) != begin.end()) continue;  // all in one
    for (size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
    for (int64_t i = 0; i < n; ++i) spare[begin[items[i] >> shift & 0xFF]++] = items[i];
    std::memcpy(items, spare, static_cast<size_t>(n) * sizeof(uint64_t));
  }
}

Status execute(Op<Opcode::Sort>, Step& step) {
  Task task = task_of(step);
  task.descending = step.flag("descending");
  task.values = step.result(0).data;
  return order(step, task);
}

Status execute(Op<Opcode::Argsort>, Step& step) {
  Task task = task_of(step);
  task.descending = step.flag("descending");
  task.indices = step.result(0).data;
  task.index_dtype = step.result(0).dtype();
  return order(step, task);
}

Status execute(Op<Opcode::TopK>, Step& step) {
  Task task = task_of(step);
  task.descending = !step.flag("smallest");
  task.wanted = step.integer("k");
  task.values = step.result(0).data;
  task.indices = step.result(1).data;
  task.index_dtype = step.result(1).dtype();
  return order(step, task);
}

}  // namespace trek::ref
