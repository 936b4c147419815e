// Products of tensor cores, matrices read for them, and the copy engine of sm_90. Sums are f32, in the order of k; a
// device's own order and rounding are not written down anywhere.
#include <algorithm>

#include "tests/ptx/handlers.h"
#include "tests/ptx/small_floats.h"
#include "tests/ptx/tensor_map.h"

namespace trek::ptx {
namespace {

enum class Factors { f16, bf16, tf32 };
template <Factors kFactors>
constexpr uint32_t kFactorBytes = kFactors == Factors::tf32 ? 4 : 2;
// Of a product: 32 bytes of each line.
template <Factors kFactors>
constexpr uint32_t kDepth = 32 / kFactorBytes<kFactors>;

// Element e of a register.
template <Factors kFactors>
float factor(uint32_t word, uint32_t e) {
  if constexpr (kFactors == Factors::tf32)
    return std::bit_cast<float>(word & 0xFFFFE000);  // what the hardware sees of it
  else if constexpr (kFactors == Factors::bf16)
    return from_bf16(static_cast<uint16_t>(word >> 16 * e));
  else
    return from_f16(static_cast<uint16_t>(word >> 16 * e));
}

// ldmatrix: lane l has the address of row l % 8 of matrix l / 8; of each matrix a lane gets two neighbouring
// elements, or, transposed, two of a column.
template <bool kTransposed>
void load_matrices(Warp& warp, const Instruction& i, uint32_t lanes) {
  if (!warp.gather(kAllLanes, lanes)) return;
  const Addresses from = addresses(warp, i, 4);
  uint16_t elements[4][8][8];
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const std::byte* at = warp.memory(Space::shared, from[lane], 16, lane);
    warp.note_read(at, 16, lane);
    std::memcpy(elements[lane / 8][lane % 8], at, 16);
  }
  for (uint32_t m = 0; m < 4; ++m) {
    uint32_t* d = warp.words(i.operands[m]);
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const uint32_t line = lane / 4;
      const uint32_t pair = lane % 4 * 2;
      const uint16_t low = kTransposed ? elements[m][pair][line] : elements[m][line][pair];
      const uint16_t high = kTransposed ? elements[m][pair + 1][line] : elements[m][line][pair + 1];
      d[lane] = uint32_t{low} | uint32_t{high} << 16;
    }
  }
}

// movmatrix: a lane has two neighbouring elements of a line of eight, and gets two of a column.
void turn_matrix(Warp& warp, const Instruction& i, uint32_t lanes) {
  if (!warp.gather(kAllLanes, lanes)) return;
  const uint32_t* from = warp.words(i.operands[1]);
  uint16_t elements[8][8];
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    for (uint32_t e = 0; e < 2; ++e)
      elements[lane / 4][lane % 4 * 2 + e] = static_cast<uint16_t>(from[lane] >> (16 * e));
  uint32_t* d = warp.words(i.operands[0]);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t column = lane / 4;
    const uint32_t line = lane % 4 * 2;
    d[lane] = uint32_t{elements[line][column]} | uint32_t{elements[line + 1][column]} << 16;
  }
}

// The left operand of 16 rows in four registers: of its two halves of k a lane has one or two neighbours of row lane / 4,
// and of the row eight below.
template <Factors kFactors, uint32_t kK>
void left_of_registers(Warp& warp, const Operand* registers, float (&a)[16][kK]) {
  constexpr uint32_t kPer = 4 / kFactorBytes<kFactors>;  // elements of a register
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    for (uint32_t part = 0; part < 4; ++part)
      for (uint32_t e = 0; e < kPer; ++e)
        a[lane / 4 + part % 2 * 8][lane % 4 * kPer + part / 2 * (kK / 2) + e] =
            factor<kFactors>(warp.words(registers[part])[lane], e);
}

// mma.sync of 16 rows, 8 columns and 32 bytes of k: operands d 0..3, a 4..7, b 8..9, c 10..13.
template <Factors kFactors>
void multiply(Warp& warp, const Instruction& i, uint32_t lanes) {
  if (!warp.gather(kAllLanes, lanes)) return;
  constexpr uint32_t kPer = 4 / kFactorBytes<kFactors>;  // elements of a register
  constexpr uint32_t kK = kDepth<kFactors>;
  float a[16][kK];
  float b[8][kK];
  left_of_registers<kFactors>(warp, i.operands + 4, a);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t line = lane / 4;
    const uint32_t k = lane % 4 * kPer;
    for (uint32_t e = 0; e < kPer; ++e) {
      for (uint32_t part = 0; part < 2; ++part)
        b[line][k + part * (kK / 2) + e] =
            factor<kFactors>(warp.words(i.operands[8 + part])[lane], e);
    }
  }
  float sums[4][kLanes];
  for (uint32_t part = 0; part < 4; ++part) {
    const uint32_t* c = warp.words(i.operands[10 + part]);
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const uint32_t row = lane / 4 + part / 2 * 8;
      const uint32_t column = lane % 4 * 2 + part % 2;
      float sum = std::bit_cast<float>(c[lane]);
      for (uint32_t k = 0; k < kK; ++k) sum += a[row][k] * b[column][k];
      sums[part][lane] = canonical(sum);
    }
  }
  for (uint32_t part = 0; part < 4; ++part) {
    uint32_t* d = warp.words(i.operands[part]);
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      d[lane] = std::bit_cast<uint32_t>(sums[part][lane]);
  }
}

// An operand of a warpgroup's product, by its descriptor: addresses in units of 16 bytes, rows of 128 bytes with a
// swizzle. By line, eight lines are an atom, and k runs along a row; else eight k are one, and 64 lines a row.
class GroupOperand {
 public:
  GroupOperand(Warp& warp, uint64_t descriptor, bool is_by_line)
      : warp_(warp),
        start_(static_cast<uint32_t>(descriptor & 0x3FFF) << 4),
        leading_(static_cast<uint32_t>(descriptor >> 16 & 0x3FFF) << 4),
        stride_(static_cast<uint32_t>(descriptor >> 32 & 0x3FFF) << 4),
        is_by_line_(is_by_line) {
    if (descriptor >> 62 != 1) warp.fail("an operand whose rows of 128 bytes are not swizzled");
  }
  // Lines [first, first + count), of which give(line, k) takes each element.
  template <Factors kFactors, typename Give>
  void each(uint32_t first, uint32_t count, Give give) const {
    constexpr uint32_t kPiece = 16 / kFactorBytes<kFactors>;  // elements
    if (is_by_line_) {
      for (uint32_t line = first; line < first + count; ++line)
        for (uint32_t k = 0; k < kDepth<kFactors>; k += kPiece)
          piece<kFactors>(line / 8 * stride_ + line % 8 * 128 + k * kFactorBytes<kFactors>,
                          [&](uint32_t e, float value) { give(line, k + e, value); });
    } else {
      for (uint32_t k = 0; k < kDepth<kFactors>; ++k)
        for (uint32_t line = first; line < first + count; line += kPiece)
          piece<kFactors>(line / 64 * leading_ + k / 8 * stride_ + k % 8 * 128 +
                              line % 64 * kFactorBytes<kFactors>,
                          [&](uint32_t e, float value) { give(line + e, k, value); });
    }
  }

 private:
  // Sixteen bytes that lie together.
  template <Factors kFactors, typename Give>
  void piece(uint32_t at, Give give) const {
    const std::byte* from = warp_.memory(Space::shared, swizzled(start_ + at), 16, 0);
    warp_.note_read(from, 16, 0);
    for (uint32_t e = 0; e < 16 / kFactorBytes<kFactors>; ++e) {
      uint32_t word = 0;
      std::memcpy(&word, from + e * kFactorBytes<kFactors>, kFactorBytes<kFactors>);
      give(e, factor<kFactors>(word, 0));
    }
  }

  Warp& warp_;
  uint32_t start_;
  uint32_t leading_;
  uint32_t stride_;
  bool is_by_line_;
};

// Columns whose sums stay in the computer's registers.
constexpr uint32_t kTogether = 8;

template <uint32_t kK>
void add_products(float* sums, const float (&a)[kK], const float (&b)[kK][256], uint32_t first) {
  float together[kTogether];
  for (uint32_t c = 0; c < kTogether; ++c) together[c] = sums[c];
  for (uint32_t k = 0; k < kK; ++k)
    for (uint32_t c = 0; c < kTogether; ++c) together[c] += a[k] * b[k][first + c];
  for (uint32_t c = 0; c < kTogether; ++c) sums[c] = together[c];
}

// wgmma.mma_async: each warp makes its 16 of 64 rows. Operands: the sums, the left operand's descriptor or its four
// registers, the right one's, whether they are added to, signs, and for 16 bits whether each operand lies by k.
template <Factors kFactors, bool kOfRegisters = false>
void multiply_group(Warp& warp, const Instruction& i, uint32_t lanes) {
  if (!warp.gather(kAllLanes, lanes)) return;
  const uint32_t count = i.count;  // of sums
  const uint32_t columns = count * 2;
  const Operand* left = i.operands + count;
  const Operand* rest = left + (kOfRegisters ? 4 : 1);
  const auto is_transposed = [&](uint32_t which) {
    return kFactors != Factors::tf32 && warp.words(rest[4 + which])[0] != 0;
  };
  constexpr uint32_t kK = kDepth<kFactors>;
  float a[16][kK];
  float b[kK][256];
  const uint32_t first = warp.number() % 4 * 16;
  if constexpr (kOfRegisters)
    left_of_registers<kFactors>(warp, left, a);
  else
    GroupOperand(warp, warp.longs(left[0])[0], !is_transposed(0))
        .each<kFactors>(first, 16,
                        [&](uint32_t row, uint32_t k, float v) { a[row - first][k] = v; });
  GroupOperand(warp, warp.longs(rest[0])[0], !is_transposed(1))
      .each<kFactors>(0, columns, [&](uint32_t column, uint32_t k, float v) { b[k][column] = v; });
  // A lane has two neighbouring columns of every eight, in its row and the one eight below.
  const auto place = [](uint32_t e, uint32_t lane) {
    return std::pair(lane / 4 + e / 2 % 2 * 8, e / 4 * 8 + lane % 4 * 2 + e % 2);
  };
  float sums[16][256];
  const bool adds = (warp.predicate(rest[1]) & 1) != 0;
  for (uint32_t e = 0; e < count; ++e) {
    const uint32_t* c = warp.words(i.operands[e]);
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const auto [row, column] = place(e, lane);
      sums[row][column] = adds ? std::bit_cast<float>(c[lane]) : 0.0F;
    }
  }
  for (uint32_t row = 0; row < 16; ++row)
    for (uint32_t column = 0; column < columns; column += kTogether)
      add_products(sums[row] + column, a[row], b, column);
  for (uint32_t e = 0; e < count; ++e) {
    uint32_t* d = warp.words(i.operands[e]);
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const auto [row, column] = place(e, lane);
      d[lane] = std::bit_cast<uint32_t>(canonical(sums[row][column]));
    }
  }
}

// The products of a warpgroup are those of its four warps together: none of them begins more before all have what they
// had, and a group of products has not ended before all warps have made it.
void meet_group(Warp& warp, const Instruction& /*i*/, uint32_t lanes) {
  constexpr uint32_t kWarps = 4;
  if (!warp.gather(kAllLanes, lanes)) return;
  const uint32_t barrier = kNamedBarriers + warp.number() / kWarps;
  warp.wait_at_barrier(barrier, lanes);
  warp.block().arrive(barrier, kWarps * kLanes, kLanes);
}
// Of all but the last groups that is so where the warps met to begin the last.
void wait_for_groups(Warp& warp, const Instruction& i, uint32_t lanes) {
  if (warp.words(i.operands[0])[0] == 0) meet_group(warp, i, lanes);
}
void nothing(Warp& /*warp*/, const Instruction& /*i*/, uint32_t /*lanes*/) {}

// The box at (x, y, z) of a tensor to shared memory; elements outside of it are 0.
class Box {
 public:
  Box(Warp& warp, const TensorMap& map, uint32_t to, const int32_t (&from)[kMostAxes])
      : warp_(warp), map_(map), to_(to), from_{from[0], from[1], from[2]} {}

  void copy() const {
    const uint32_t bytes = map_.box[0] * map_.element_bytes;
    uint32_t to = to_;
    for (uint32_t z = 0; z < map_.box[2]; ++z)
      for (uint32_t y = 0; y < map_.box[1]; ++y, to += bytes)
        if (!copy_line(y, z, to, bytes))
          for (uint32_t x = 0; x < map_.box[0]; ++x)
            copy_element({x, y, z}, to + x * map_.element_bytes);
  }

 private:
  static constexpr uint32_t kPiece = 16;           // bytes, of which lines have whole ones
  static constexpr uint32_t kMostBytes = 256 * 4;  // of a line

  bool is_inside(uint32_t axis, uint32_t at) const {
    const int64_t place = int64_t{from_[axis]} + at;
    return place >= 0 && static_cast<uint64_t>(place) < map_.sizes[axis];
  }
  uint64_t address(const uint32_t (&at)[kMostAxes]) const {
    uint64_t address = map_.address;
    for (uint32_t axis = 0; axis < kMostAxes; ++axis)
      address += static_cast<uint64_t>(int64_t{from_[axis]} + at[axis]) * map_.strides[axis];
    return address;
  }
  uint32_t place(uint32_t to) const { return map_.swizzle == 3 ? swizzled(to) : to; }

  // A line at once; false where that is not plainly right, and nothing has been done.
  bool copy_line(uint32_t y, uint32_t z, uint32_t to, uint32_t bytes) const {
    std::byte* const shared =
        warp_.find_piece(Space::shared, to & ~127U, (to + bytes - 1) | 127U, 1);
    if (shared == nullptr) return false;
    alignas(kPiece) std::byte line[kMostBytes] = {};
    const int64_t first = std::clamp<int64_t>(-int64_t{from_[0]}, 0, map_.box[0]);
    const int64_t end =
        std::clamp<int64_t>(static_cast<int64_t>(map_.sizes[0]) - from_[0], 0, map_.box[0]);
    if (is_inside(1, y) && is_inside(2, z) && first < end) {
      const uint64_t from = address({static_cast<uint32_t>(first), y, z});
      const uint64_t size = static_cast<uint64_t>(end - first) * map_.element_bytes;
      const std::byte* const memory = warp_.find_piece(Space::global, from, from + size - 1, 1);
      if (memory == nullptr || from % map_.element_bytes != 0) return false;
      std::memcpy(line + first * map_.element_bytes, memory, size);
    }
    if (map_.rounds_to_tf32 != 0)
      for (uint32_t at = 0; at < bytes; at += 4) {
        float element;
        std::memcpy(&element, line + at, 4);
        const uint32_t rounded = to_tf32(element);
        std::memcpy(line + at, &rounded, 4);
      }
    for (uint32_t at = 0; at < bytes; at += kPiece)
      std::memcpy(shared + (place(to + at) - (to & ~127U)), line + at, kPiece);
    return true;
  }
  void copy_element(const uint32_t (&at)[kMostAxes], uint32_t to) const {
    uint32_t element = 0;
    if (is_inside(0, at[0]) && is_inside(1, at[1]) && is_inside(2, at[2])) {
      std::memcpy(&element, warp_.memory(Space::generic, address(at), map_.element_bytes, 0),
                  map_.element_bytes);
      if (map_.rounds_to_tf32 != 0) element = to_tf32(std::bit_cast<float>(element));
    }
    std::memcpy(warp_.memory(Space::shared, place(to), map_.element_bytes, 0), &element,
                map_.element_bytes);
  }

  Warp& warp_;
  const TensorMap& map_;
  uint32_t to_;
  int32_t from_[kMostAxes];
};

// cp.async.bulk.tensor.3d [to], [map, {x, y, z}], [barrier]; and, to the blocks of the cluster that the last operand says,
// each at its own time.
template <bool kToCluster>
void begin_box(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Addresses to = addresses(warp, i, 0);
  const Addresses maps = addresses(warp, i, 1);
  const Addresses barriers = addresses(warp, i, 5);
  for_lanes(lanes, [&](uint32_t lane) {
    TensorMap map;
    if (maps[lane] % 64 != 0) warp.fail("a tensor map that is not at a multiple of 64 bytes");
    for (uint32_t byte = 0; byte < sizeof map; ++byte)
      reinterpret_cast<std::byte*>(&map)[byte] =
          *warp.memory(Space::generic, maps[lane] + byte, 1, lane);
    if (map.mark != kTensorMapMark) warp.fail("no tensor map", static_cast<int>(lane));
    const auto place = static_cast<uint32_t>(to[lane]);
    if (place % 128 != 0) warp.fail("a box goes to a multiple of 128 bytes");
    const auto barrier = static_cast<uint32_t>(barriers[lane]);
    const auto coordinate = [&](uint32_t axis) {
      return static_cast<int32_t>(warp.words(i.operands[2 + axis])[lane]);
    };
    const int32_t x = coordinate(0);
    const int32_t y = coordinate(1);
    const int32_t z = coordinate(2);
    const uint32_t bytes = map.box[0] * map.box[1] * map.box[2] * map.element_bytes;
    if constexpr (kToCluster) {
      const uint32_t blocks = warp.words(i.operands[6])[lane] & 0xFFFF;
      for (uint32_t rank = 0; rank < 16; ++rank) {
        if ((blocks >> rank & 1) == 0) continue;
        Warp& there = warp_of_cluster(warp, rank, lane);
        there.block().add_engine_copy([&there, map, place, barrier, bytes, x, y, z] {
          Box(there, map, place, {x, y, z}).copy();
          complete_bytes_from_outside(there, barrier, bytes);
        });
      }
      return;
    }
    if (warp.races() != nullptr)
      warp.judge(warp.races()->begin_box(warp.thread(lane), warp.touched(place, bytes), barrier),
                 lane);
    warp.block().add_engine_copy([&warp, map, place, barrier, bytes, x, y, z] {
      Box(warp, map, place, {x, y, z}).copy();
      complete_bytes(warp, barrier, bytes);
    });
  });
}

// cp.async.bulk [to], [from], bytes, [barrier]
void begin_bytes(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Addresses to = addresses(warp, i, 0);
  const Addresses from = addresses(warp, i, 1);
  const Addresses barriers = addresses(warp, i, 3);
  for_lanes(lanes, [&](uint32_t lane) {
    const uint32_t bytes = warp.words(i.operands[2])[lane];
    if ((to[lane] | from[lane] | bytes) % 16 != 0 || bytes == 0)
      warp.fail("bytes that are not in sixteens", static_cast<int>(lane));
    const auto place = static_cast<uint32_t>(to[lane]);
    const auto barrier = static_cast<uint32_t>(barriers[lane]);
    if (warp.races() != nullptr)
      warp.judge(warp.races()->begin_box(warp.thread(lane), warp.touched(place, bytes), barrier),
                 lane);
    warp.block().add_engine_copy([&warp, place, from = from[lane], barrier, bytes, lane] {
      for (uint32_t at = 0; at < bytes; at += 16)
        std::memcpy(warp.memory(Space::shared, place + at, 16, lane),
                    warp.memory(Space::global, from + at, 16, lane), 16);
      complete_bytes(warp, barrier, bytes);
    });
  });
}

}  // namespace

void add_matrices(Handlers& h) {
  h["ldmatrix.sync.aligned.m8n8.x4.shared.b16"] = load_matrices<false>;
  h["ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"] = load_matrices<true>;
  h["movmatrix.sync.aligned.m8n8.trans.b16"] = turn_matrix;
  h["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"] = multiply<Factors::f16>;
  h["mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"] = multiply<Factors::bf16>;
  h["mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"] = multiply<Factors::tf32>;
  for (int columns = 8; columns <= 256; columns += 8) {
    const std::string name = "wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns);
    h[name + "k16.f32.f16.f16"] = multiply_group<Factors::f16>;
    h[name + "k16.f32.bf16.bf16"] = multiply_group<Factors::bf16>;
    h[name + "k8.f32.tf32.tf32"] = multiply_group<Factors::tf32>;
    h[name + "k8.f32.tf32.tf32" + kOfRegisters] = multiply_group<Factors::tf32, true>;
  }
  h["wgmma.fence.sync.aligned"] = meet_group;
  h["wgmma.commit_group.sync.aligned"] = nothing;
  h["wgmma.wait_group.sync.aligned"] = wait_for_groups;
  h["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"] = begin_bytes;
  h["cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"] =
      begin_box<false>;
  h["cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::"
    "cluster"] = begin_box<true>;
}

}  // namespace trek::ptx
