// Products of one row of f32 whose columns stay in shared memory, because nothing in the loop takes their place.
//
// In a loop the same weights come to the same processor in every trip, and bringing them takes longer than all else that
// a task does: a copy of 16 bytes of each row of the right operand is a request of its own. So the encoder gives tasks
// of a loop places in the upper part of shared memory (emulator/resident/places.h), one for everything that is the same
// there: the steps of an LSTM share theirs. A byte of shared memory says of each place whether the columns are there.
// Whoever uses this memory for something else says that nothing is (forget_places()); a new launch begins with none.
//
// Then a thread has its block of 64 k of a column in registers before the task's inputs are there, and only the left
// operand is to come; and where the next task has the same columns, they stay in the registers, too. Everything else is
// as in matrix_thin.h.
#pragma once

#include "emulator/device/matrix_thin.h"
#include "emulator/device/matrix_thin_outputs.h"

namespace trek::device {

namespace thin {

TREK_TILE bool stays(const Node& node) { return is_thin(node) && node.matrix.thin.cut.stays != 0; }
// Whether a task of a node leaves places as they are. Micro-programs of elements, unless they are streamed, and moves
// have no more than their slots.
TREK_TILE bool leaves_places(const Node& node) {
  switch (static_cast<Kind>(node.kind)) {
    case Kind::matrix:
      return is_thin(node) && !makes_left(node);
    case Kind::program:
      return node.result(0).elements < kStreamed;
    case Kind::move:
    case Kind::update:
    case Kind::fill:
      return true;
    default:
      return false;
  }
}
TREK_TILE uint8_t* place_of_columns(const Task& task, uint32_t number) {
  return task.shared<uint8_t>(shared_at::kPlaces) + number;
}

// A block of k of a column, and where its sum goes.
struct Chain {
  uint32_t block = 0;
  uint32_t column = 0;
  uint32_t depth = 0;  // k, a multiple of kAtOnce; 0: there is none
  float y[kBlock] = {};

  TREK_TILE_MEMBER void name(const Work& work, uint32_t columns, uint32_t number) {
    const Thin& cut = work.cut();
    const uint32_t by = cut.by_line != 0 ? cut.blocks : columns;
    const uint32_t above = number / by;
    const uint32_t beside = number - above * by;
    block = cut.by_line != 0 ? beside : above;
    column = cut.by_line != 0 ? above : beside;
    const uint32_t k = block * kBlock;
    if (number < cut.blocks * columns) depth = cut.k - k < kBlock ? cut.k - k : kBlock;
  }
  TREK_TILE_MEMBER void load(const Task& task, const Work& work, uint32_t panel) {
    const Thin& cut = work.cut();
    if (cut.by_line != 0) {
      const auto* at =
          task.shared<const std::byte>(panel + (column * cut.blocks + block) * cut.row);
      TREK_UNROLLED
      for (uint32_t k = 0; k < kBlock; k += 4) {
        if (k >= depth) continue;
        const Words four = *reinterpret_cast<const Words*>(ahead_of(at, 4 * k));
        TREK_UNROLLED
        for (uint32_t e = 0; e < 4; ++e) y[k + e] = as_float(four.e[e]);
      }
    } else {
      const auto* at =
          task.shared<const std::byte>(panel + block * (kBlock + 1) * cut.row + 4 * column);
      const auto load_where = [&](auto exists) TREK_TILE_LAMBDA {
        TREK_UNROLLED
        for (uint32_t k = 0; k < kBlock; ++k)
          if (exists(k)) y[k] = as_float(read<uint32_t>(ahead_of(at, k * cut.row), 0));
      };
      if (!kSpecialised && depth == kBlock)  // a third of the instructions
        load_where([](uint32_t) { return true; });
      else
        load_where([&](uint32_t k) { return k < depth; });
    }
  }
  // `kAtTime`: of x that a thread has at a time.
  template <uint32_t kAtTime>
  TREK_TILE_MEMBER void multiply(const Task& task, const Work& work, uint32_t columns) const {
    if (depth == 0) return;
    const float* x = task.shared<float>(shared_at::kValues) + block * (kBlock + kLeftPad);
    float sum = 0;
    if (depth == kBlock && work.cut().in_fours != 0) {
      sum = sum_in_fours<kAtTime>(x);
    } else if (depth == kBlock) {  // no branch within, so that much of x is on its way
      multiply_from<kAtTime, 0>(x, sum);
    } else {
      add<0, kAtOnce>(x, sum);
      if (depth > kAtOnce) add<kAtOnce, 2 * kAtOnce>(x, sum);
      if (depth > 2 * kAtOnce) add<2 * kAtOnce, 3 * kAtOnce>(x, sum);
    }
    task.shared<float>(work.cut().sums)[block * columns + column] = sum;
  }

 private:
  template <uint32_t kAtTime, uint32_t kFrom>
  TREK_TILE_MEMBER void multiply_from(const float* x, float& sum) const {
    add<kFrom, kFrom + kAtTime>(x, sum);
    if constexpr (kFrom + kAtTime < kBlock) multiply_from<kAtTime, kFrom + kAtTime>(x, sum);
  }
  // Under fast numerics: of 64 multiplications 16 wait for each other.
  template <uint32_t kAtTime>
  TREK_TILE_MEMBER float sum_in_fours(const float* x) const {
    float sum[4] = {};
    TREK_UNROLLED
    for (uint32_t k = 0; k < kBlock; k += kAtTime) {
      Words four[kAtTime / 4];
      TREK_UNROLLED
      for (uint32_t i = 0; i < kAtTime / 4; ++i)
        four[i] = *reinterpret_cast<const Words*>(ahead_of(x, k + 4 * i));
      TREK_UNROLLED
      for (uint32_t i = 0; i < kAtTime; ++i)
        sum[i % 4] = semantics::fma(as_float(four[i / 4].e[i % 4]), y[k + i], sum[i % 4]);
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
  template <uint32_t kFrom, uint32_t kTo>
  TREK_TILE_MEMBER void add(const float* x, float& sum) const {
    Words four[(kTo - kFrom) / 4];
    TREK_UNROLLED
    for (uint32_t i = 0; i < (kTo - kFrom) / 4; ++i)
      four[i] = *reinterpret_cast<const Words*>(ahead_of(x, kFrom + 4 * i));
    TREK_UNROLLED
    for (uint32_t k = kFrom; k < kTo; ++k)
      sum = semantics::fma(as_float(four[(k - kFrom) / 4].e[k % 4]), y[k], sum);
  }
};

}  // namespace thin

// Says that no place of shared memory has what it is for. What follows waits for a sync before it asks.
TREK_TILE void forget_places(const Task& task) {
  if (task.thread() == 0) *task.shared<Aliased<uint64_t>>(shared_at::kPlaces) = 0;
}

// A task of a product whose columns stay, and those that come: what multiply_staying() is told. `ready()`, which all
// threads call, waits until the task's inputs are there, and says whether it is to be executed at all; `next()`, which
// they call at a task's end, goes on to the next one if that has the same columns at the same place (ThinPlace).
template <class Ready>
class OneStaying {
 public:
  TREK_ON_DEVICE OneStaying(const Node& node, int64_t tile, ThinPlace place, Ready ready)
      : node_(node), tile_(tile), place_(place), ready_(ready) {}
  TREK_ON_DEVICE const Node& node() const { return node_; }
  TREK_ON_DEVICE int64_t tile() const { return tile_; }
  TREK_ON_DEVICE ThinPlace place() const { return place_; }
  TREK_ON_DEVICE bool ready() { return ready_(); }
  TREK_ON_DEVICE bool next() const { return false; }

 private:
  const Node& node_;
  int64_t tile_;
  ThinPlace place_;
  Ready ready_;
};

namespace thin {

// stage() of a left operand of one row that is copied as it lies: where from, worked out before the wait.
class CopiedLeft {
 public:
  TREK_TILE_MEMBER CopiedLeft(const Task& task, const Work& work)
      : k_(4 * task.thread()),
        from_(work.cut().copied != 0 && work.cut().rows == 1 ? work.left + size_t{4} * k_
                                                             : nullptr) {}
  TREK_TILE_MEMBER bool is_known() const { return from_ != nullptr; }
  TREK_TILE_MEMBER void bring(const Task& task, const Work& work) const {
    TREK_ROLLED
    for (uint32_t k = k_; k < work.cut().k; k += 4 * task.threads())
      copy<16>(task, row_place(work, k), from_ + size_t{4} * (k - k_));
  }

 private:
  uint32_t k_;
  const std::byte* from_;
};

TREK_TILE uint32_t staying_columns(const Work& work) {
  return work.is_group() ? work.cut().part : work.columns;
}

// A task of a processor whose columns a thread has already: it differs from `first` in nothing but where its node is.
TREK_TILE Work work_behind(const Work& first, const Node& node, int64_t counter) {
  Work work = {first.task,  node,         first.arena,   nullptr,   first.right,
               first.first, first.column, first.columns, first.row, counter};
  work.left = work.memory(node.operand(0));
  return work;
}

// Has a thread's block of a column in registers, brought to its place before where it is not there.
TREK_TILE void bring_columns(const Task& task, const Work& first, ThinPlace place, Chain& chain) {
  if (*place_of_columns(task, place.number()) == 0) {
    ask<4>(task, first, 0, place.at());
    wait_for_copies(0);
    task.sync();
    if (task.thread() == 0) *place_of_columns(task, place.number()) = 1;
  }
  chain.name(first, staying_columns(first), task.thread());
  chain.load(task, first, place.at());
}

// Tasks whose columns a thread has: `first` and those behind it.
template <class Outputs, class Tasks>
TREK_TILE void multiply_stayed(const Task& task, Tasks& tasks, const Work& first,
                               const Chain& chain) {
  const uint32_t columns = staying_columns(first);
  Outputs outputs;
  uint32_t form = ThinPlace::kNoForm;
  TREK_ROLLED
  do {
    const Work work = work_behind(first, tasks.node(), counter_of_slices(task, tasks.node()));
    const CopiedLeft left(task, work);
    const uint32_t form_before = form;
    form = tasks.place().form();
    outputs.know(task, work, form != ThinPlace::kNoForm && form == form_before);
    const bool tagged = Outputs::kInWords && has_tagged_left(work.node);
    if (tagged) {
      outputs.ask(task, work);
      ask_rest(task, work);
    }
    if (!tasks.ready()) {
      if (tagged) wait_for_copies(0);
      continue;
    }
    if (tagged) {
      outputs.load(task, work);
      bring_tagged<DType::f32>(task, work);
    } else {
      if (left.is_known())
        left.bring(task, work);
      else
        stage<DType::f32>(task, work);
      outputs.load(task, work);
    }
    commit_copies();
    wait_for_copies(0);
    if (tagged) outputs.put(task, work);
    task.sync();
    chain.template multiply<Outputs::kAtTime>(task, work, columns);
#ifndef __CUDA__
    for (uint32_t i = task.thread() + task.threads(); i < work.cut().blocks * columns;
         i += task.threads()) {
      Chain other;
      other.name(work, columns, i);
      other.load(task, work, tasks.place().at());
      other.template multiply<Outputs::kAtTime>(task, work, columns);
    }
#endif
    task.sync();
    outputs.finish(task, work);
  } while (tasks.next());
}

}  // namespace thin

// multiply_tile_thin() of products whose columns stay.
template <class Tasks>
TREK_TILE void multiply_staying(const Task& task, Tasks& tasks, std::byte* arena) {
  using namespace thin;  // NOLINT(google-build-using-namespace)
  Chain chain;
  const Work first = work_of(task, tasks.node(), tasks.tile(), arena);
  bring_columns(task, first, tasks.place(), chain);
  if (first.is_group())
    multiply_stayed<GroupOutputs>(task, tasks, first, chain);
  else
    multiply_stayed<OneOutput>(task, tasks, first, chain);
}

}  // namespace trek::device
