// Parts of the f32 product that groups of lanes share: each group multiplies a block of k of its own, and the
// groups' sums meet in shared memory, where they are added in ascending order. Device only.
//
// An operand whose k are neighbours in memory lies as [lines][k] in its panels, else as [k][lines], so that
// every copy is of 16 bytes where alignment allows.
#pragma once

#ifdef __CUDA__

#include "emulator/device/matrix_f32_result.h"

namespace trek::device::matrix_f32 {

namespace groups {

// Stages in the order in which they are brought and multiplied.
struct Stage {
  uint32_t first = 0;  // block of the round
  uint32_t k = 0;      // within its blocks
  uint32_t slot = 0;   // where its panels lie

  // Whether that was the last of the round.
  TREK_ON_DEVICE bool next(const Cut& cut) {
    slot = slot + 1 == cut.ahead ? 0 : slot + 1;
    k += 1u << cut.depth_bits;
    if (k != kBlock) return false;
    k = 0;
    first += cut.groups;
    return true;
  }
};

TREK_TILE uint32_t blocks_of(const Task& task) {
  return static_cast<uint32_t>((task.node().matrix.k + kBlock - 1) / kBlock);
}

// Copies one operand's part of a stage. Threads lie along the rows of panels, then across them, then over the
// panels of groups. Of the last of them `rest` of the block's k are before the last k.
TREK_TILE void bring_side(uint32_t thread, const Side& side, const CutSide& cut, uint32_t slot,
                          const Stage& stage, uint32_t groups, uint32_t rest, bool is_left) {
  const bool by_line = cut.by_line != 0;
  const bool fours = cut.unit_bits != 0;
  const uint32_t column = (thread & ((1u << cut.copies_bits) - 1)) << cut.unit_bits;
  const uint32_t rows = 1u << cut.row_bits;
  const uint32_t row_step = kBlockThreads >> cut.copies_bits;
  // A pass of the block is `together` panels, or a part of one.
  const uint32_t together_bits =
      cut.copies_bits + cut.row_bits <= 8 ? 8u - cut.copies_bits - cut.row_bits : 0;
  const uint32_t group = thread >> cut.copies_bits >> cut.row_bits;
  uint32_t row = thread >> cut.copies_bits & (rows - 1);
  const uint64_t from_step = uint64_t{cut.group} << together_bits;
  const uint32_t to_step = cut.bytes << together_bits;
  const int32_t count =
      static_cast<int32_t>(groups - group + (1u << together_bits) - 1) >> together_bits;
  // The copy that is of the last block.
  const uint32_t before_last = groups - 1 - group;
  const int32_t last = (before_last & ((1u << together_bits) - 1)) == 0
                           ? static_cast<int32_t>(before_last >> together_bits)
                           : -1;
  const std::byte* data = side.data + uint64_t{stage.first + group} * cut.group +
                          uint64_t{stage.k} * (by_line ? 4 : cut.step) + column * 4;
  slot += cut.first + group * cut.bytes + column * 4;
  TREK_ROLLED
  do {
    const std::byte* from = data + uint64_t{row} * cut.step;
    uint32_t to = slot + row * cut.pitch;
    const bool exists = (by_line ? row : column) < side.lines;
    const bool ends = stage.k + (by_line ? column : row) >= rest;
    if (exists) {
      TREK_ROLLED
      for (int32_t n = 0; n < count; n += 4) {
#pragma unroll
        for (int32_t i = 0; i < 4; ++i) {
          const std::byte* at = ends && n + i == last ? behind(is_left) : from;
          copy_four(fours && n + i < count, to, at);
          copy_one(!fours && n + i < count, to, at);
          from += from_step;
          to += to_step;
        }
      }
    }
    row += row_step;
  } while (row < rows);
}

TREK_TILE void bring(const Task& task, uint32_t blocks, Stage& stage) {
  const Part& part = part_of(task);
  const Matrix& of = task.node().matrix;
  const Cut& cut = of.cut;
  uint32_t here = blocks - stage.first;
  uint32_t rest = kBlock;
  if (here <= cut.groups)
    rest = static_cast<uint32_t>(of.k) - (blocks - 1) * kBlock;
  else
    here = cut.groups;
  const uint32_t slot = address(task, kPanels) + stage.slot * cut.stage;
  bring_side(task.thread(), part.left, cut.left, slot, stage, here, rest, true);
  bring_side(task.thread(), part.right, cut.right, slot, stage, here, rest, false);
  stage.next(cut);
}

// How lanes stand over the lines of one operand, M for each of them.
template <uint32_t M>
TREK_TILE uint32_t line_of(bool by_line, uint32_t lane, uint32_t lanes, uint32_t i) {
  return by_line ? lane + lanes * i : lane * 4 + lanes * 4 * (i / 4) + i % 4;
}

// Where a lane stands in its group: lanes beside and below one another alternate.
struct Lane {
  uint32_t down;
  uint32_t across;
};
TREK_TILE uint32_t even_bits(uint32_t bits) {
  return (bits & 1) | (bits >> 1 & 2) | (bits >> 2 & 4) | (bits >> 3 & 8);
}
TREK_TILE Lane lane_of(uint32_t lane, uint32_t down_bits, uint32_t across_bits) {
  const uint32_t both = down_bits < across_bits ? down_bits : across_bits;
  const uint32_t pairs = lane & ((1u << 2 * both) - 1);
  const uint32_t rest = lane >> 2 * both << both;
  return {even_bits(pairs >> 1) | (across_bits > both ? 0 : rest),
          even_bits(pairs) | (across_bits > both ? rest : 0)};
}

// A lane's M lines in a panel, gone through two k after two.
template <uint32_t M, bool kByLine>
struct Lines;

template <uint32_t M>
struct Lines<M, true> {
  uint32_t line[M];

  // Line 0 is at `at`, the next `step` bytes on.
  TREK_ON_DEVICE Lines(uint32_t at, uint32_t step, uint32_t) {
    hide(step);
#pragma unroll
    for (uint32_t i = 0; i < M; ++i) {
      line[i] = at;
      at += step;
    }
  }
  // To the k that is `k` on.
  TREK_ON_DEVICE void skip(uint32_t k) {
#pragma unroll
    for (uint32_t i = 0; i < M; ++i) line[i] += 4 * k;
  }
  // Line i at k and k + 1 from where it stands.
  TREK_ON_DEVICE void load(uint32_t k, uint32_t i, float (&to)[2][M]) const {
    const Float2 two = load_two(line[i] + k * 4);
    to[0][i] = two.x;
    to[1][i] = two.y;
  }
  TREK_ON_DEVICE void load_pair(uint32_t k, float (&to)[2][M]) const {
#pragma unroll
    for (uint32_t i = 0; i < M; ++i) load(k, i, to);
  }
};

template <uint32_t M>
struct Lines<M, false> {
  uint32_t at;    // of the k at hand
  uint32_t step;  // to the next
  uint32_t half;  // from one half of a patch to the other

  TREK_ON_DEVICE Lines(uint32_t first, uint32_t to_next, uint32_t to_half)
      : at(first), step(to_next), half(to_half) {}
  TREK_ON_DEVICE void next() {
    at += step;
    hide(at);
  }
  TREK_ON_DEVICE void load(uint32_t quarter, float (&to)[M]) const {
    const Float4 four = load_four(at + (quarter == 0 ? 0 : half));
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) to[4 * quarter + e] = four[e];
  }
  TREK_ON_DEVICE void load_k(float (&to)[M]) const {
#pragma unroll
    for (uint32_t f = 0; f < M / 4; ++f) load(f, to);
  }
};

// Adds the products of `depth` k to the sums of a lane's patch. What is loaded takes the place of what has been
// multiplied for the last time, so that it has 64 multiplications to arrive; only where the right operand is by
// line, or the patch is small, there are two places.
template <uint32_t M, bool kLeftByLine, bool kRightByLine>
TREK_TILE void multiply(Lines<M, kLeftByLine> left, Lines<M, kRightByLine> right, uint32_t depth,
                        float (&sum)[M][M]) {
  constexpr uint32_t kLefts = M == 4 ? 2 : 1;
  constexpr uint32_t kRights = M == 4 || kRightByLine ? 2 : 1;
  float x[kLefts][2][M];
  float y[kRights][2][M];
  const auto load_both = [](auto& lines, auto& to) __attribute__((always_inline)) {
    lines.load_k(to[0]);
    lines.next();
    lines.load_k(to[1]);
  };
  if constexpr (kLeftByLine)
    left.load_pair(0, x[0]);
  else
    load_both(left, x[0]);
  if constexpr (kRightByLine)
    right.load_pair(0, y[0]);
  else
    load_both(right, y[0]);
#pragma unroll 1
  for (uint32_t k = 0; k < depth; k += kStep) {
#pragma unroll
    for (uint32_t p = 0; p < kStep / 2; ++p) {
      // Behind the last k there is shared memory, too, and what is loaded of it is not used.
      const uint32_t ahead = 2 * p + 2;
      auto& x_now = x[p % kLefts];
      auto& x_next = x[(p + 1) % kLefts];
      auto& y_now = y[p % kRights];
      auto& y_next = y[(p + 1) % kRights];
      if constexpr (kLefts == 2) {
        if constexpr (kLeftByLine) {
          left.load_pair(ahead, x_next);
        } else {
          left.next();
          load_both(left, x_next);
        }
      }
      if constexpr (kRights == 2) {
        if constexpr (kRightByLine) {
          right.load_pair(ahead, y_next);
        } else {
          right.next();
          load_both(right, y_next);
        }
      }
#pragma unroll
      for (uint32_t q = 0; q < 2; ++q) {
        if constexpr (kLefts == 1 && !kLeftByLine) left.next();
#pragma unroll
        for (uint32_t i = 0; i < M; ++i) {
          // To and fro, so that each multiplication shares an operand with the one before.
#pragma unroll
          for (uint32_t n = 0; n < M; ++n) {
            const uint32_t j = i % 2 == 0 ? n : M - 1 - n;
            sum[i][j] = semantics::fma(x_now[q][i], y_now[q][j], sum[i][j]);
          }
          if constexpr (kLefts == 1 && kLeftByLine) {
            if (q == 1) left.load(ahead, i, x_next);
          }
          if constexpr (kLefts == 1 && !kLeftByLine) {
            if (i % 4 == 3) left.load(i / 4, x_next[q]);
          }
        }
        if constexpr (kRights == 1) {
          right.next();
          right.load_k(y_next[q]);
        }
      }
    }
    if constexpr (kLeftByLine) left.skip(kStep);
    if constexpr (kRightByLine) right.skip(kStep);
  }
}

// Adds the sums of blocks first ... first + here - 1, which are there for every lane, and gives the totals
// behind the last block: to the result, or where it has a tail that is not plain, to kValues. Four v of lane l
// of group g is at (v x groups + g) x lanes + l, and four f = v x lanes + l of the part is the v-th of lane l.
template <uint32_t M>
TREK_TILE void add_blocks(const Task& task, uint32_t first, uint32_t here, uint32_t blocks) {
  constexpr uint32_t kBits = M == 8 ? 3 : 2;
  const Part& part = part_of(task);
  const Cut& cut = task.node().matrix.cut;
  const uint32_t down_bits = cut.row_bits - kBits;
  const uint32_t across_bits = cut.column_bits - kBits;
  const uint32_t lane_bits = down_bits + across_bits;
  const uint32_t fours = M * M / 4 << lane_bits;
  const uint32_t sums = address(task, cut.sums);
  const uint32_t segments = sums + cut.groups * fours * 16;
  const uint32_t totals = segments + fours * 16;
  const uint32_t step = 16u << lane_bits;
  const bool last = first + here == blocks;
  TREK_ROLLED
  for (uint32_t f = task.thread(); f < fours; f += kBlockThreads) {
    const uint32_t v = f >> lane_bits;
    const uint32_t lane = f & ((1u << lane_bits) - 1);
    const Lane stands = lane_of(lane, down_bits, across_bits);
    const bool by_line = cut.right.by_line != 0;
    const uint32_t row =
        line_of<M>(cut.left.by_line != 0, stands.down, 1u << down_bits, v / (M / 4));
    const uint32_t column = line_of<M>(by_line, stands.across, 1u << across_bits, v % (M / 4) * 4);
    const bool exists = row < part.rows && column < part.columns;
    const Outputs at_outputs = {part.row + row, part.column + column,
                                by_line ? 1u << across_bits : 1, part.column + part.columns};
    const bool gives = last && exists && cut.plain != 0;
    Float4 beside[kCutTails];
    if (gives) load_beside(task, at_outputs, beside);
    uint32_t at = sums + (((v * cut.groups) << lane_bits) + lane) * 16;
    // To -0 a first sum may be added: it stays itself.
    Float4 segment = -0.0f;
    if (first % kMostGroups != 0) segment = load_four(segments + f * 16);
    Float4 total = 0;
    if (blocks <= kMostGroups) {  // one segment
#pragma unroll 4
      for (uint32_t n = 0; n < here; ++n, at += step) segment = segment + load_four(at);
      total = segment;
    } else {
      TREK_ROLLED
      for (uint32_t block = first; block < first + here; ++block, at += step) {
        segment = segment + load_four(at);
        if (block % kMostGroups != kMostGroups - 1 && block + 1 != blocks) continue;
        total = segment;
        if (block >= kMostGroups) total = load_four(totals + f * 16) + segment;
        if (block + 1 != blocks) store_four(totals + f * 16, total);
        segment = -0.0f;
      }
    }
    if (gives) {
      give_four(task, at_outputs, beside, total);
    } else if (!last) {
      store_four(segments + f * 16, segment);
    } else if (exists) {
      float* to = task.shared<float>(shared_at::kValues) + row * part.columns + column;
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e)
        if (column + e * at_outputs.apart < part.columns) to[e * at_outputs.apart] = total[e];
    }
  }
}

}  // namespace groups

// Multiplies a part by groups, and gives it as add_blocks() says.
template <uint32_t M>
TREK_TILE void multiply_groups(const Task& task) {
  using namespace groups;  // NOLINT(google-build-using-namespace)
  constexpr uint32_t kBits = M == 8 ? 3 : 2;
  const Cut& cut = task.node().matrix.cut;
  const uint32_t blocks = blocks_of(task);
  Stage next;
  const uint32_t ahead = cut.ahead;
  // All stages, if there is room for them, or all but one slot.
  const bool resident = cut.groups >= blocks && kBlock >> cut.depth_bits == ahead;
  TREK_ROLLED
  for (uint32_t i = resident ? 0 : 1; i < ahead; ++i) {
    bring(task, blocks, next);
    commit_copies();
  }

  const uint32_t down_bits = cut.row_bits - kBits;
  const uint32_t across_bits = cut.column_bits - kBits;
  const uint32_t lane_bits = down_bits + across_bits;
  const uint32_t group = task.thread() >> lane_bits;
  const Lane stands = lane_of(task.thread() & ((1u << lane_bits) - 1), down_bits, across_bits);
  const bool left_by_line = cut.left.by_line != 0;
  const bool right_by_line = cut.right.by_line != 0;
  const uint32_t left_at =
      address(task, kPanels) + stands.down * (left_by_line ? cut.left.pitch : 16);
  const uint32_t right_at = address(task, kPanels) + cut.right.first +
                            stands.across * (right_by_line ? cut.right.pitch : 16);
  const uint32_t left_step = cut.left.pitch << (left_by_line ? down_bits : 0);
  const uint32_t right_step = cut.right.pitch << (right_by_line ? across_bits : 0);

  float sum[M][M];
  Stage stage;
  TREK_ROLLED
  do {
    const uint32_t first = stage.first;
    const uint32_t here = blocks - first < cut.groups ? blocks - first : cut.groups;
    // Warps without a block wait with the others; lanes without one do as the last group does.
    const bool works = (task.thread() & ~31u) >> lane_bits < here;
    const uint32_t panel = group < here ? group : here - 1;
#pragma unroll
    for (uint32_t i = 0; i < M; ++i)
#pragma unroll
      for (uint32_t j = 0; j < M; ++j) sum[i][j] = 0;
    bool ends = false;
    TREK_ROLLED
    while (!ends) {
      if (resident) {
        const uint32_t behind = ahead - 1 - stage.slot;
        if (behind >= 3)
          asm volatile("cp.async.wait_group 3;" ::: "memory");
        else
          wait_for_copies(behind);
      } else {
        wait_for_copies(ahead - 2);
      }
      task.sync();
      if (!resident) {
        if (next.first < blocks) bring(task, blocks, next);
        commit_copies();
      }
      const uint32_t slot = stage.slot * cut.stage;
      ends = stage.next(cut);
      if (!works) continue;
      const uint32_t left = left_at + slot + panel * cut.left.bytes;
      const uint32_t right = right_at + slot + panel * cut.right.bytes;
      const auto with = [&]<bool kLeft, bool kRight>() __attribute__((always_inline)) {
        multiply<M, kLeft, kRight>(Lines<M, kLeft>(left, left_step, 16u << down_bits),
                                   Lines<M, kRight>(right, right_step, 16u << across_bits),
                                   1u << cut.depth_bits, sum);
      };
      if (left_by_line && right_by_line)
        with.template operator()<true, true>();
      else if (left_by_line)
        with.template operator()<true, false>();
      else if (right_by_line)
        with.template operator()<false, true>();
      else
        with.template operator()<false, false>();
    }
    if (cut.sums == shared_at::kWork) task.sync();  // over panels, which have been read
    if (group < here) {
      const uint32_t to = address(task, cut.sums) + task.thread() * 16;
      const uint32_t step = uint32_t{cut.groups} << (lane_bits + 4);
#pragma unroll
      for (uint32_t v = 0; v < M * M / 4; ++v) {
        const float* four = &sum[v / (M / 4)][v % (M / 4) * 4];
        store_four(to + v * step, Float4{four[0], four[1], four[2], four[3]});
      }
    }
    task.sync();
    add_blocks<M>(task, first, here, blocks);
  } while (stage.first < blocks);
}

}  // namespace trek::device::matrix_f32

#endif  // __CUDA__
