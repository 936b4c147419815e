// Thin products that make the rows of their left operand themselves (emulator/plan/left_rows.h).
//
// Where code is made for a node, every warp takes the whole row through its phases, in registers (row_phases.h): a row is
// no more than a tile of the reduction order, so no warp needs another. What comes last is shared out: a thread gives
// every block_threads()-th element, from what it has read of memory for itself, and works out anew what a phase keeps.
// A scale and a shift that nothing writes are asked for before the task's inputs are there.
//
// On a host rows are staged as those of a row node, before the right operand is brought, since both take the same shared
// memory. The resident kernel, which interprets, has such products of two forms of rows (row_form.h).
#pragma once

#include "emulator/device/matrix_thin_tags.h"
#include "emulator/device/matrix_thin_tensor.h"
#include "emulator/device/row_phases.h"

namespace trek::device::thin {

#if defined(TREK_SPECIALISED) && defined(__CUDA__)

TREK_TILE void load_tails(const Task& task, const Work& work);  // matrix_thin.h

inline constexpr bool kLeftBeforeRight = false;
inline constexpr uint32_t kOwn =
    row_detail::kTile / kBlockThreads;  // elements of a thread, at most

// Calls act(i, k) for this thread's elements of a row.
template <class Act>
TREK_TILE void each_own(const Task& task, uint32_t n, Act act) {
  TREK_UNROLLED
  for (uint32_t i = 0; i < kOwn; ++i)
    if (const uint32_t k = task.thread() + i * task.threads(); k < n) act(i, k);
}

struct Columns {
  uint32_t x[kMaxColumns][kOwn];
};
TREK_TILE void load_columns(const Task& task, const Work& work, Columns& to) {
  const Phases& of = work.node.phases();
  TREK_UNROLLED
  for (uint32_t c = 0; c < kMaxColumns; ++c) {
    if (c >= of.columns) continue;
    const Operand& from = work.node.operand(of.column[c]);
    each_own(task, of.n, [&](uint32_t i, uint32_t k) TREK_TILE_LAMBDA {
      to.x[c][i] = load32(work.memory(from), static_cast<DType>(from.dtype), k);
    });
  }
}

TREK_TILE bool makes_rows(const Work& work) { return makes_left(work.node); }
// Where they may be read before the task's inputs are there, or else behind that.
TREK_TILE void load_columns(const Task& task, const Work& work, Columns& to, bool ready) {
  if (makes_rows(work) && (work.node.phases().columns_stay == 0) == ready)
    load_columns(task, work, to);
}

// The array that a row is made of, where it comes in words: in shared memory. A sync at the end.
TREK_TILE const float* bring_made_of(const Task& task, const Work& work) {
  const Phases& of = work.node.phases();
  auto* row = task.shared<float>(shared_at::kElements);
  static_assert(row_detail::kTile * sizeof(float) <= shared_at::kValues - shared_at::kElements);
  gather_row(task, work, static_cast<DType>(work.node.operand(of.operand[0]).dtype), of.n,
             [&](uint32_t k, float value, float next) TREK_TILE_LAMBDA {
               row[k] = value;
               row[k + 1] = next;
             });
  task.sync();
  return row;
}

// Asks for what tails read, too, behind the first row, unless that comes in words: then they have been asked for. Called,
// so that it is not copied into the code of a product that has no such rows.
TREK_ON_DEVICE __attribute__((noinline)) static inline void make_left(const Task& task,
                                                                      const Work& work,
                                                                      const Columns& columns) {
  using namespace row_detail;  // NOLINT(google-build-using-namespace)
  const Phases& of = work.node.phases();
  const Part part(task, of.n);
  float* x = task.shared<float>(shared_at::kValues);
  TREK_ROLLED
  for (uint32_t r = 0; r < work.cut().rows; ++r) {
    const int64_t number = work.row + r;
    const int64_t begin = number * of.n;
    Row row{};
    uint32_t own[kMaxHeld][kOwn] = {};
    if (has_tagged_left(work.node)) {
      TaggedBeside beside(task, work);
      const auto* brought = bring_made_of(task, work);
      beside.put(task, work);
      inputs_came(task);
      row.held[0] = tile_of(part, [&](uint32_t i) TREK_TILE_LAMBDA {
        return brought[part.first + part.lane + 32 * i];
      });
      each_own(task, of.n,
               [&](uint32_t i, uint32_t k) TREK_TILE_LAMBDA { own[0][i] = bits_of(brought[k]); });
    } else {
      TREK_UNROLLED
      for (uint32_t h = 0; h < kMaxHeld; ++h) {
        if (h >= of.brought) continue;
        const Operand& from = work.node.operand(of.operand[h]);
        row.held[h] = bring(task, part, from, begin);
        each_own(task, of.n, [&](uint32_t i, uint32_t k) TREK_TILE_LAMBDA {
          own[h][i] = load32(work.memory(from), static_cast<DType>(from.dtype), begin + k);
        });
      }
      if (r == 0) load_tails(task, work);
    }
    each_phase(of, [&](uint32_t p) TREK_TILE_LAMBDA { run_phase(task, part, p, number, 0, row); });
    each_own(task, of.n, [&](uint32_t i, uint32_t k) TREK_TILE_LAMBDA {
      uint32_t mains[kMains] = {};
      TREK_UNROLLED
      for (uint32_t h = 0; h < kMaxHeld; ++h) mains[h] = own[h][i];
      each_phase(of, [&](uint32_t p) TREK_TILE_LAMBDA {
        const Phase& phase = of.phase[p];
        if (phase.kind == Phase::keep)
          mains[phase.held] = value_of(task, p, begin, k, mains, row.numbers);
      });
      TREK_UNROLLED
      for (uint32_t c = 0; c < kMaxColumns; ++c) mains[kMaxHeld + c] = columns.x[c][i];
      const float made = as_float(value_of(task, kRowDeliver, begin, k, mains, row.numbers));
      if (!by_tensor_cores(work.cut()))
        x[left_at(work, r, k)] = made;
      else if (static_cast<DType>(work.node.operand(1).dtype) == DType::bf16)
        put_in_row<DType::bf16>(task, k, made);
      else
        put_in_row<DType::f16>(task, k, made);
    });
  }
}

#elif defined(__CUDA__)

TREK_TILE void load_tails(const Task& task, const Work& work);  // matrix_thin.h

inline constexpr bool kLeftBeforeRight = false;
using Columns = row_form::Scales;

TREK_TILE bool makes_rows(const Work& work) { return makes_left(work.node); }
TREK_TILE void load_columns(const Task& task, const Work& work, Columns& to, bool ready) {
  if (makes_rows(work) && (work.node.phases().scales_stay == 0) == ready)
    row_form::load_scales(task, work.node, work.arena, to);
}
TREK_TILE void make_left(const Task& task, const Work& work, const Columns& columns) {
  float* x = task.shared<float>(shared_at::kValues);
  row_form::make_rows(
      task, work.node, work.arena, work.row, work.cut().rows, columns,
      [&]() TREK_TILE_LAMBDA { load_tails(task, work); },
      [&](uint32_t r, uint32_t k, float value)
          TREK_TILE_LAMBDA { x[left_at(work, r, k)] = value; });
}

#else

inline constexpr bool kLeftBeforeRight = true;
struct Columns {};
TREK_TILE void load_columns(const Task& /*task*/, const Work& /*work*/, Columns& /*to*/,
                            bool /*ready*/) {}

TREK_TILE bool makes_rows(const Work& work) { return makes_left(work.node); }
TREK_TILE void make_left(const Task& task, const Work& work, const Columns& /*columns*/) {
  using namespace row_detail;  // NOLINT(google-build-using-namespace)
  const Phases& of = work.node.phases();
  const row_detail::Rows group = {work.row, work.cut().rows, kHeld};
  bring_columns(task);
  bring(task, group);
  task.sync();
  each_phase(of, [&](uint32_t p) { run_phase(task, p, group); });
  stage_elements(task, kRowDeliver, group, kTerms);
  task.sync();
  const auto* made = task.shared<const float>(kTerms);
  float* x = task.shared<float>(shared_at::kValues);
  for (uint32_t i = task.thread(); i < group.rows * of.n; i += task.threads())
    x[left_at(work, i / of.n, i % of.n)] = made[i];
  task.sync();
}

#endif

}  // namespace trek::device::thin
