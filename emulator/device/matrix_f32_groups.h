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

// Where one stands in the stages, which go by rounds of `groups` blocks of k.
struct Stage {
  uint32_t first = 0;  // block of the round
  uint32_t k = 0;      // within its blocks
  uint32_t slot = 0;   // where its panels lie; in bytes

  // To the next one; whether this was the last of the round.
  TREK_ON_DEVICE bool next(uint32_t groups, uint32_t depth, uint32_t bytes, uint32_t ring) {
    slot = slot + bytes == ring ? 0 : slot + bytes;
    k += depth;
    if (k != kBlock) return false;
    k = 0;
    first += groups;
    return true;
  }
};

// What is multiplied of a stage: the blocks that are there, and of the last one the k that are there.
struct Extent {
  uint32_t groups;
  uint32_t rest;
};
TREK_TILE Extent extent_of(const Stage& stage, uint32_t k_end, uint32_t groups, uint32_t depth) {
  const uint32_t blocks = (k_end - stage.first * kBlock + kBlock - 1) / kBlock;
  if (blocks > groups) return {groups, depth};
  const uint32_t last = k_end - (stage.first + blocks - 1) * kBlock;
  if (last <= stage.k) return {blocks - 1, depth};
  return {blocks, last - stage.k < depth ? last - stage.k : depth};
}

// What a thread copies of one operand for each stage. Threads lie along the rows of panels, then across them,
// then over the panels of groups: a pass of the block is 1 << together_bits panels, or a part of one. Lines that
// do not exist are the last one again: their outputs nobody takes. It waits in shared memory, or it would take
// registers from multiplications.
struct alignas(16) Copier {
  const std::byte* from;  // the thread's column at the first row, in its first group's block
  uint32_t to;
  uint16_t row;
  uint16_t group;  // the thread's first
};
static_assert(sizeof(Copier) == 16 && 2 * kBlockThreads * sizeof(Copier) <= kCopiersBytes);
TREK_TILE Copier& copier_of(const Task& task, uint32_t thread, bool is_left) {
  return task.shared<Copier>(kCopiers)[thread + (is_left ? 0 : kBlockThreads)];
}

TREK_TILE void begin_copies(const Task& task, const Side& side, const CutSide& cut, bool is_left) {
  const uint32_t thread = task.thread();
  const uint32_t column = (thread & ((1u << cut.copies_bits) - 1)) << cut.unit_bits;
  const uint32_t last_column = (side.lines - 1) & ~((1u << cut.unit_bits) - 1);
  const uint32_t group = thread >> cut.copies_bits >> cut.row_bits;
  const uint32_t row = thread >> cut.copies_bits & ((1u << cut.row_bits) - 1);
  copier_of(task, thread, is_left) = {
      side.data + uint64_t{group} * cut.group +
          (cut.by_line != 0 || column < last_column ? column : last_column) * 4,
      address(task, kPanels) + cut.first + group * cut.bytes + row * cut.pitch + column * 4,
      static_cast<uint16_t>(row), static_cast<uint16_t>(group)};
}

// Copies the next stage of an operand to its slot; `ends`: it is the last of its round.
TREK_TILE void copy_stage(const Task& task, const CutSide& cut, uint32_t slot, const Extent& extent,
                          bool ends, bool is_left) {
  uint32_t thread = task.thread();
  hide(thread);  // what depends on it is worked out here, not ahead of the loop around
  Copier& copier = copier_of(task, thread, is_left);
  const Copier mine = copier;
  const Cut& all = kept_cut(task);
  const uint32_t depth = 1u << all.depth_bits;
  const uint32_t lines = is_left ? part_of(task).rows : part_of(task).columns;
  const bool fours = cut.unit_bits != 0;
  const bool by_line = cut.by_line != 0;
  const uint32_t bits = uint32_t{cut.copies_bits} + cut.row_bits;
  const uint32_t together_bits = bits < 8 ? 8 - bits : 0;
  const uint32_t last_row = by_line ? lines - 1 : kBlock;
  const uint32_t k = (thread & ((1u << cut.copies_bits) - 1)) << cut.unit_bits;
  const uint32_t step = cut.step;
  const uint32_t rows = 1u << cut.row_bits;
  const uint32_t row_step = kBlockThreads >> cut.copies_bits;
  const uint32_t to_row = row_step * cut.pitch;
  const uint32_t group_step = 1u << together_bits;
  const uint64_t from_step = uint64_t{cut.group} << together_bits;
  const uint32_t to_step = cut.bytes << together_bits;
  copier.from = mine.from + cut.advance + (ends ? uint64_t{all.groups - 1u} * cut.group : 0);
  uint32_t to = slot + mine.to;
  uint32_t row = mine.row;
  TREK_ROLLED
  do {
    const std::byte* at = mine.from + uint64_t{row < last_row ? row : last_row} * step;
    uint32_t place = to;
    if (fours && extent.rest == depth) {
      TREK_ROLLED
      for (uint32_t g = mine.group; g < extent.groups; g += 4 * group_step) {
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
          copy_four(g + i * group_step < extent.groups, place, at);
          at += from_step;
          place += to_step;
        }
      }
    } else if (fours) {
      const bool behind_last = (by_line ? k : row) >= extent.rest;
      TREK_ROLLED
      for (uint32_t g = mine.group; g < extent.groups; g += group_step) {
        copy_ahead<16>(place, behind_last && g + 1 == extent.groups ? behind(is_left) : at);
        at += from_step;
        place += to_step;
      }
    } else {
      // Asynchronous copies of four bytes take as many cycles as they have lanes, and more.
      constexpr uint32_t kOnTheirWay = 8;
      const bool behind_last = (by_line ? k : row) >= extent.rest;
      TREK_ROLLED
      for (uint32_t g = mine.group; g < extent.groups; g += kOnTheirWay * group_step) {
        float x[kOnTheirWay];
#pragma unroll
        for (uint32_t i = 0; i < kOnTheirWay; ++i) {
          const uint32_t of = g + i * group_step;
          x[i] = load_one(of < extent.groups,
                          behind_last && of + 1 == extent.groups ? behind(is_left) : at);
          at += from_step;
        }
#pragma unroll
        for (uint32_t i = 0; i < kOnTheirWay; ++i) {
          if (g + i * group_step < extent.groups) store_one(place, x[i]);
          place += to_step;
        }
      }
    }
    row += row_step;
    to += to_row;
  } while (row < rows);
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
  uint32_t at;    // line 0 at the k at hand
  uint32_t step;  // from line to line; an address for each would take too many registers

  TREK_ON_DEVICE Lines(uint32_t first, uint32_t to_next, uint32_t) : at(first), step(to_next) {}
  // To the k that is `k` on.
  TREK_ON_DEVICE void skip(uint32_t k) {
    at += 4 * k;
    hide(at);
  }
  // Line i at k and k + 1 from where it stands.
  TREK_ON_DEVICE void load(uint32_t k, uint32_t i, float (&to)[2][M]) const {
    const Float2 two = load_two(at + i * step + k * 4);
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

// Adds the sums of blocks first ... first + here - 1, which give() stores for all lanes to see, and gives the
// totals behind the last block: to the result, or where it has a tail that is not plain, to kValues. Four v of
// lane l of group g is at (v x groups + g) x lanes + l, and four f = v x lanes + l of the part is the v-th of
// lane l.
template <uint32_t M, class Give>
TREK_TILE void add_blocks(const Task& task, uint32_t first, uint32_t here, uint32_t blocks,
                          Give give) {
  constexpr uint32_t kBits = M == 8 ? 3 : 2;
  const Part& part = part_of(task);
  const Cut& cut = kept_cut(task);
  const uint32_t down_bits = cut.row_bits - kBits;
  const uint32_t across_bits = cut.column_bits - kBits;
  const uint32_t lane_bits = down_bits + across_bits;
  const uint32_t fours = M * M / 4 << lane_bits;
  const uint32_t groups = cut.groups;
  const uint32_t sums = address(task, cut.sums);
  const uint32_t segments = sums + groups * fours * 16;
  const uint32_t totals = segments + fours * 16;
  const uint32_t step = 16u << lane_bits;
  const bool last = first + here == blocks;
  const bool is_plain = cut.plain != 0;
  const bool left_by_line = cut.left.by_line != 0;
  const bool right_by_line = cut.right.by_line != 0;
  uint32_t f = task.thread();
  hide(f);
  TREK_ROLLED
  do {
    const uint32_t v = f >> lane_bits;
    const uint32_t lane = f & ((1u << lane_bits) - 1);
    const Lane stands = lane_of(lane, down_bits, across_bits);
    const uint32_t row = line_of<M>(left_by_line, stands.down, 1u << down_bits, v / (M / 4));
    const uint32_t column =
        line_of<M>(right_by_line, stands.across, 1u << across_bits, v % (M / 4) * 4);
    const bool exists = f < fours && row < part.rows && column < part.columns;
    const Outputs at_outputs = {part.row + row, part.column + column,
                                right_by_line ? 1u << across_bits : 1, part.column + part.columns};
    const bool gives = last && exists && is_plain;
    // What stands beside arrives while the sums are exchanged.
    Float4 beside[kCutTails] = {0, 0, 0};
    if (gives) load_beside(task, at_outputs, beside);
    if (f < kBlockThreads) {
      give();
      task.sync();
    }
    if (f >= fours) break;
    uint32_t at = sums + (((v * groups) << lane_bits) + lane) * 16;
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
    f += kBlockThreads;
  } while (f < fours);
}

}  // namespace groups

// Multiplies the part at kPart by groups, and gives it as add_blocks() says.
template <uint32_t M>
TREK_UNIT_CALL void multiply_groups(Task task) {
  using namespace groups;  // NOLINT(google-build-using-namespace)
  const Part& part = part_of(task);
  constexpr uint32_t kBits = M == 8 ? 3 : 2;
  const Cut& cut = kept_cut(task);
  const uint32_t k_end = part_of(task).k;
  const uint32_t groups = cut.groups;
  const uint32_t depth = 1u << cut.depth_bits;
  const uint32_t bytes = cut.stage;
  const uint32_t ahead = cut.ahead;
  const uint32_t panels = address(task, kPanels);
  const uint32_t blocks = (k_end + kBlock - 1) / kBlock;
  begin_copies(task, part.left, cut.left, true);
  begin_copies(task, part.right, cut.right, false);

  const uint32_t down_bits = cut.row_bits - kBits;
  const uint32_t across_bits = cut.column_bits - kBits;
  const uint32_t lane_bits = down_bits + across_bits;
  const uint32_t group = task.thread() >> lane_bits;
  const Lane stands = lane_of(task.thread() & ((1u << lane_bits) - 1), down_bits, across_bits);
  const bool left_by_line = cut.left.by_line != 0;
  const bool right_by_line = cut.right.by_line != 0;
  const uint32_t left_at =
      panels + stands.down * (left_by_line ? cut.left.pitch : 16) + group * cut.left.bytes;
  const uint32_t right_at = panels + cut.right.first +
                            stands.across * (right_by_line ? cut.right.pitch : 16) +
                            group * cut.right.bytes;
  const uint32_t left_step = cut.left.pitch << (left_by_line ? down_bits : 0);
  const uint32_t right_step = cut.right.pitch << (right_by_line ? across_bits : 0);

  float sum[M][M];
  const auto clear = [&]() __attribute__((always_inline)) {
#pragma unroll
    for (uint32_t i = 0; i < M; ++i)
#pragma unroll
      for (uint32_t j = 0; j < M; ++j) sum[i][j] = 0;
  };
  clear();  // here already: what is undefined anywhere counts as kept by every caller
  Stage brought;
  Stage stage;
  // A stage is brought while the `ahead` - 1 before it wait or are multiplied.
  TREK_ROLLED
  for (uint32_t behind_it = 1; stage.first < blocks; ++behind_it) {
    if (behind_it >= ahead) {
      wait_for_copies(ahead - 2);
      task.sync();
    }
    if (brought.first < blocks) {
      const Extent extent = extent_of(brought, k_end, groups, depth);
      const uint32_t slot = brought.slot;
      const bool ends = brought.next(groups, depth, bytes, ahead * bytes);
      copy_stage(task, cut.left, slot, extent, ends, true);
      copy_stage(task, cut.right, slot, extent, ends, false);
    }
    commit_copies();
    if (behind_it < ahead) continue;

    const uint32_t first = stage.first;
    const uint32_t slot = stage.slot;
    const uint32_t there = extent_of(stage, k_end, groups, depth).groups;
    const bool ends = stage.next(groups, depth, bytes, ahead * bytes);
    if (group < there) {
      const auto with = [&]<bool kLeft, bool kRight>() __attribute__((always_inline)) {
        multiply<M, kLeft, kRight>(
            Lines<M, kLeft>(left_at + slot, left_step, 16u << down_bits),
            Lines<M, kRight>(right_at + slot, right_step, 16u << across_bits), depth, sum);
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
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    if (!ends) continue;
    const uint32_t here = blocks - first < groups ? blocks - first : groups;
    if (cut.sums == shared_at::kWork) task.sync();  // over panels, which have been read
    add_blocks<M>(task, first, here, blocks, [&]() __attribute__((always_inline)) {
      if (group >= here) return;
      const uint32_t to = address(task, cut.sums) + task.thread() * 16;
      const uint32_t step = groups << (lane_bits + 4);
#pragma unroll
      for (uint32_t v = 0; v < M * M / 4; ++v) {
        const float* four = &sum[v / (M / 4)][v % (M / 4) * 4];
        store_four(to + v * step, Float4{four[0], four[1], four[2], four[3]});
      }
    });
    clear();
  }
}

}  // namespace trek::device::matrix_f32

#endif  // __CUDA__
