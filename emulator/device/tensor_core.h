// What tensor-core products are made of, as PTX: copies into shared memory that nobody waits for, matrices
// of 8 × 8 elements read from it, and the products themselves. Device only; the second half is Hopper's
// own (sm_90a): the tensor copy engine, and products of a warpgroup straight from shared memory.
//
// Operands are f16, bf16, or f32 rounded to the 11 bits of tf32 as they are brought or read; accumulators are
// f32. In shared memory an operand lies in rows of 128 bytes, 64 or 32 elements: so many places of k of one line of
// the operand, or so many lines at one k, as the operand lies in memory. The copy engine lays them with a swizzle of
// 128 bytes: the piece of 16 bytes that is p-th in row r is at place p xor (r mod 8). So eight rows of one column
// are in eight banks.
#pragma once

#ifdef __CUDA__

#include "emulator/device/copies.h"
#include "emulator/device/ring.h"
#include "isa/semantics/elements.h"

namespace trek::device::tensor {

// What operands are for tensor cores.
enum class Factors : uint8_t { f16, bf16, tf32 };
template <Factors kFactors>
inline constexpr uint32_t kBytesOf = kFactors == Factors::tf32 ? 4 : 2;  // of an element

// A product of tensor cores takes 32 bytes of k of each line: 16 elements, or 8.
inline constexpr uint32_t kProductBytes = 32;

// The same number, of which the compiler knows nothing: what depends on it is not worked out before loops
// around, where it would take registers from everything inside.
TREK_TILE uint32_t opaque(uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

// ---- sm_80 ---------------------------------------------------------------------------------------

// 16 bytes from global to shared memory; of them the first `bytes` are read, the others 0.
TREK_TILE void copy_16(uint32_t to, const void* from, uint32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

// Pieces of 16 bytes of shared memory.
TREK_TILE void load_piece(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
TREK_TILE void store_piece(uint32_t address, const uint32_t (&from)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(from[0]),
               "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}
// What this warp's lanes have written to shared memory is there for all of them.
TREK_TILE void warp_sync() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

// Four matrices of 8 × 8; lane l gives the address of row l mod 8 of matrix l / 8. Transposed, a lane gets
// what is beneath each other instead of what is side by side.
template <bool kTransposed>
TREK_TILE void load_matrices(uint32_t (&to)[4], uint32_t address) {
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// Two words of shared memory.
TREK_TILE void load_words(uint32_t& first, uint32_t& second, uint32_t address) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
               : "=r"(first), "=r"(second)
               : "r"(address)
               : "memory");
}
// A word of shared memory, and the nearest tf32 of the f32 in a word, of two the one that is farther from 0.
TREK_TILE uint32_t load_word(uint32_t address) {
  uint32_t word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}
TREK_TILE uint32_t rounded_to_tf32(uint32_t word) {
  uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(semantics::from_bits<float>(word)));
  return rounded;
}

// d += a × b of 16 rows, 8 columns and 32 bytes of k. Lane l has of d the columns 2 (l mod 4) and the next, in row
// l / 4 and in row l / 4 + 8.
template <Factors kFactors>
TREK_TILE void multiply(float* d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (kFactors == Factors::tf32)
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else if constexpr (kFactors == Factors::bf16)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// What the lane whose number differs by these bits has. Kept in its place among other PTX, so that no more
// than one such exchange takes registers at a time.
template <int kApart>
TREK_TILE uint32_t shuffled(uint32_t value) {
  uint32_t got;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;"
               : "=r"(got)
               : "r"(value), "n"(kApart));
  return got;
}

// A number that all lanes of a warp have. ptxas then knows that they do: no branch on it parts them.
TREK_TILE uint32_t of_warp(uint32_t number) {
  return static_cast<uint32_t>(
      __nvvm_shfl_sync_idx_i32(0xFFFFFFFF, static_cast<int>(number), 0, 31));
}

// What the lane before has.
TREK_TILE uint32_t shuffled_up(uint32_t value) {
  uint32_t got;
  asm volatile("shfl.sync.up.b32 %0, %1, 1, 0, 0xffffffff;" : "=r"(got) : "r"(value));
  return got;
}

// ---- sm_90a --------------------------------------------------------------------------------------

#ifdef TREK_SM90A

// A CUtensorMap in global memory, which the host has written.
struct alignas(64) TensorMap {
  unsigned char opaque[128];
};

TREK_TILE void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
TREK_TILE void barrier_end(uint32_t barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
// True on one lane of a warp, by all of whose lanes it is called. Of `lane == 0` ptxas does not know that it is one lane,
// and makes a loop over the lanes around each copy, which takes some 200 cycles.
TREK_TILE bool elected() {
  uint32_t is = 0;
  asm volatile("{\n.reg .pred one;\nelect.sync _|one, 0xffffffff;\nselp.u32 %0, 1, 0, one;\n}"
               : "=r"(is)
               :
               : "memory");
  return is != 0;
}
// One lane arrives, and makes the phase wait for so many bytes of copies; by elected().
TREK_TILE void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
TREK_TILE void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
TREK_TILE void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred p;\nAGAIN_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra.uni AGAIN_%=;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
// Orders memory that others wrote by ordinary stores, which this thread may see, before what the engine reads and writes
// next, in shared memory and, where `global` says so, in the device's. The fence of all memories at once would wait for
// everything that this thread has stored to be seen by the whole device.
TREK_TILE void before_engine(bool global) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  if (global) asm volatile("fence.proxy.async.global;" ::: "memory");
}
// Makes barriers that this thread has initialised known to the engine.
TREK_TILE void barriers_made() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Makes what this thread has written to shared memory known to products of a warpgroup.
TREK_TILE void before_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// A box of a tensor of three axes, (x, y, z) from the innermost on, into shared memory; what is outside of
// the tensor is 0, and counts as bytes too. By elected().
TREK_TILE void copy_box(uint32_t to, const TensorMap* map, uint32_t barrier, uint32_t x, uint32_t y,
                        uint32_t z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}

// So many bytes, a multiple of 16, as all addresses are. By elected(), or by lanes each for itself.
TREK_TILE void copy_bytes(uint32_t to, const std::byte* from, uint32_t bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// Where an operand of a warpgroup's product lies: rows of k (kByLine), eight of which are an atom of 1024 bytes; or,
// of 16 bits, rows of 64 lines, of which eight k are an atom, with `columns_apart` bytes to the next 64 lines. This is the
// lower half of a descriptor; the upper one, 1024 bytes from atom to atom and how they are swizzled, is kOperandUpper.
template <bool kByLine>
TREK_TILE uint32_t operand_at(uint32_t address, uint32_t columns_apart) {
  const uint32_t leading = kByLine ? 1 : columns_apart >> 4;
  return (address & 0x3FFFF) >> 4 | leading << 16;
}
inline constexpr uint32_t kOperandUpper = 1u << 30 | 1024 >> 4;
// From what one product takes of an operand's k to the next, in the units of its descriptor.
template <bool kByLine>
inline constexpr uint32_t kNextDepth = (kByLine ? kProductBytes : 16 * kRowBytes) >> 4;

TREK_TILE void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TREK_TILE void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kBehind>
TREK_TILE void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kBehind) : "memory");
}

// Accumulators by name, as inline PTX wants them, in eights.
#define TREK_NAMED_4(i) "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define TREK_NAMED_8(i) TREK_NAMED_4(i), TREK_NAMED_4((i) + 4)
#define TREK_ALL_8 TREK_NAMED_8(0)
#define TREK_ALL_16 TREK_ALL_8, TREK_NAMED_8(8)
#define TREK_ALL_24 TREK_ALL_16, TREK_NAMED_8(16)
#define TREK_ALL_32 TREK_ALL_24, TREK_NAMED_8(24)
#define TREK_ALL_40 TREK_ALL_32, TREK_NAMED_8(32)
#define TREK_ALL_48 TREK_ALL_40, TREK_NAMED_8(40)
#define TREK_ALL_56 TREK_ALL_48, TREK_NAMED_8(48)
#define TREK_ALL_64 TREK_ALL_56, TREK_NAMED_8(56)
#define TREK_ALL_72 TREK_ALL_64, TREK_NAMED_8(64)
#define TREK_ALL_80 TREK_ALL_72, TREK_NAMED_8(72)
#define TREK_ALL_88 TREK_ALL_80, TREK_NAMED_8(80)
#define TREK_ALL_96 TREK_ALL_88, TREK_NAMED_8(88)
#define TREK_ALL_104 TREK_ALL_96, TREK_NAMED_8(96)
#define TREK_ALL_112 TREK_ALL_104, TREK_NAMED_8(104)
#define TREK_ALL_120 TREK_ALL_112, TREK_NAMED_8(112)
#define TREK_ALL_128 TREK_ALL_120, TREK_NAMED_8(120)
#define TREK_LIST_8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define TREK_LIST_16 TREK_LIST_8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define TREK_LIST_24 TREK_LIST_16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define TREK_LIST_32 TREK_LIST_24 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define TREK_LIST_40 TREK_LIST_32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define TREK_LIST_48 TREK_LIST_40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define TREK_LIST_56 TREK_LIST_48 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define TREK_LIST_64 TREK_LIST_56 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define TREK_LIST_72 TREK_LIST_64 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define TREK_LIST_80 TREK_LIST_72 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define TREK_LIST_88 TREK_LIST_80 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define TREK_LIST_96 TREK_LIST_88 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define TREK_LIST_104 TREK_LIST_96 ",%96,%97,%98,%99,%100,%101,%102,%103"
#define TREK_LIST_112 TREK_LIST_104 ",%104,%105,%106,%107,%108,%109,%110,%111"
#define TREK_LIST_120 TREK_LIST_112 ",%112,%113,%114,%115,%116,%117,%118,%119"
#define TREK_LIST_128 TREK_LIST_120 ",%120,%121,%122,%123,%124,%125,%126,%127"
#define TREK_PRODUCT(COUNT, COLUMNS, TYPE)                                                        \
  asm volatile(                                                                                   \
      "{ .reg .pred p; .reg .b64 x, y; setp.ne.b32 p, %[sum], 0; "                                \
      "mov.b64 x, {%[a], %[upper]}; mov.b64 y, {%[b], %[upper]}; "                                \
      "wgmma.mma_async.sync.aligned.m64n" COLUMNS "k16.f32." TYPE "." TYPE " {" TREK_LIST_##COUNT \
      "}, x, y, p, 1, 1, %[ta], %[tb]; }"                                                         \
      : TREK_ALL_##COUNT                                                                          \
      : [a] "r"(a), [b] "r"(b), [sum] "r"(sum), [upper] "n"(kOperandUpper),                       \
        [ta] "n"(kAByLine ? 0 : 1), [tb] "n"(kBByLine ? 0 : 1))
#define TREK_PRODUCT_TF32(COUNT, COLUMNS)                                                \
  asm volatile(                                                                          \
      "{ .reg .pred p; .reg .b64 x, y; setp.ne.b32 p, %[sum], 0; "                       \
      "mov.b64 x, {%[a], %[upper]}; mov.b64 y, {%[b], %[upper]}; "                       \
      "wgmma.mma_async.sync.aligned.m64n" COLUMNS "k8.f32.tf32.tf32 {" TREK_LIST_##COUNT \
      "}, x, y, p, 1, 1; }"                                                              \
      : TREK_ALL_##COUNT                                                                 \
      : [a] "r"(a), [b] "r"(b), [sum] "r"(sum), [upper] "n"(kOperandUpper))
// The left operand in registers.
#define TREK_PRODUCT_REGISTERS(COUNT, COLUMNS)                                                    \
  asm volatile(                                                                                   \
      "{ .reg .pred p; .reg .b64 y; setp.ne.b32 p, %[sum], 0; mov.b64 y, {%[b], %[upper]}; "      \
      "wgmma.mma_async.sync.aligned.m64n" COLUMNS "k8.f32.tf32.tf32 {" TREK_LIST_##COUNT          \
      "}, {%[a0], %[a1], %[a2], %[a3]}, y, p, 1, 1; }"                                            \
      : TREK_ALL_##COUNT                                                                          \
      : [a0] "r"(a[0]), [a1] "r"(a[1]), [a2] "r"(a[2]), [a3] "r"(a[3]), [b] "r"(b), [sum] "r"(1), \
        [upper] "n"(kOperandUpper))
#define TREK_PRODUCT_OF(COUNT, COLUMNS)           \
  do {                                            \
    if constexpr (kFactors == Factors::tf32)      \
      TREK_PRODUCT_TF32(COUNT, COLUMNS);          \
    else if constexpr (kFactors == Factors::bf16) \
      TREK_PRODUCT(COUNT, COLUMNS, "bf16");       \
    else                                          \
      TREK_PRODUCT(COUNT, COLUMNS, "f16");        \
  } while (false)

// d = a × b, or d += a × b where `sum` is not 0, for the 64 rows of a warpgroup, 2 × kCount columns and 32 bytes
// of k. Warp w has the rows from 16 w on; of every eight columns its lanes have what multiply() says. Of tf32 both
// operands lie by line.
#define TREK_PRODUCT_IF(COUNT, COLUMNS) \
  if constexpr (kCount == (COUNT)) TREK_PRODUCT_OF(COUNT, COLUMNS)
template <Factors kFactors, bool kAByLine, bool kBByLine, uint32_t kCount>
TREK_TILE void multiply_group(float (&d)[kCount], uint32_t a, uint32_t b, uint32_t sum) {
  static_assert(kFactors != Factors::tf32 || (kAByLine && kBByLine));
  static_assert(kCount % 8 == 0 && kCount >= 16 && kCount <= 128);
  TREK_PRODUCT_IF(16, "32");
  TREK_PRODUCT_IF(24, "48");
  TREK_PRODUCT_IF(32, "64");
  TREK_PRODUCT_IF(40, "80");
  TREK_PRODUCT_IF(48, "96");
  TREK_PRODUCT_IF(56, "112");
  TREK_PRODUCT_IF(64, "128");
  TREK_PRODUCT_IF(72, "144");
  TREK_PRODUCT_IF(80, "160");
  TREK_PRODUCT_IF(88, "176");
  TREK_PRODUCT_IF(96, "192");
  TREK_PRODUCT_IF(104, "208");
  TREK_PRODUCT_IF(112, "224");
  TREK_PRODUCT_IF(120, "240");
  TREK_PRODUCT_IF(128, "256");
}

// d += a × b of tf32, where a warp's 16 rows of a are in its registers: a lane has k of l mod 4, of rows l / 4 and the one
// eight below, then the same of k four further on. They keep their values until the product is done.
template <uint32_t kCount>
TREK_TILE void multiply_registers(float (&d)[kCount], const uint32_t (&a)[4], uint32_t b) {
  static_assert(kCount % 32 == 0 && kCount <= 128);
  if constexpr (kCount == 32) TREK_PRODUCT_REGISTERS(32, "64");
  if constexpr (kCount == 64) TREK_PRODUCT_REGISTERS(64, "128");
  if constexpr (kCount == 96) TREK_PRODUCT_REGISTERS(96, "192");
  if constexpr (kCount == 128) TREK_PRODUCT_REGISTERS(128, "256");
}

#undef TREK_PRODUCT_IF
#undef TREK_PRODUCT_OF
#undef TREK_PRODUCT_REGISTERS
#undef TREK_PRODUCT_TF32
#undef TREK_PRODUCT
#undef TREK_LIST_8
#undef TREK_LIST_16
#undef TREK_LIST_24
#undef TREK_LIST_32
#undef TREK_LIST_40
#undef TREK_LIST_48
#undef TREK_LIST_56
#undef TREK_LIST_64
#undef TREK_LIST_72
#undef TREK_LIST_80
#undef TREK_LIST_88
#undef TREK_LIST_96
#undef TREK_LIST_104
#undef TREK_LIST_112
#undef TREK_LIST_120
#undef TREK_LIST_128
#undef TREK_ALL_8
#undef TREK_ALL_16
#undef TREK_ALL_24
#undef TREK_ALL_32
#undef TREK_ALL_40
#undef TREK_ALL_48
#undef TREK_ALL_56
#undef TREK_ALL_64
#undef TREK_ALL_72
#undef TREK_ALL_80
#undef TREK_ALL_88
#undef TREK_ALL_96
#undef TREK_ALL_104
#undef TREK_ALL_112
#undef TREK_ALL_120
#undef TREK_ALL_128

// Waits, and names the accumulators, so that no use of them moves before the wait.
template <uint32_t kCount>
TREK_TILE void take_products(float (&d)[kCount]) {
  static_assert(kCount % 8 == 0);
  wait_for_products<0>();
#pragma unroll
  for (uint32_t i = 0; i < kCount; i += 8) asm volatile("" : TREK_NAMED_8(i)::"memory");
}
#undef TREK_NAMED_4
#undef TREK_NAMED_8

#endif  // TREK_SM90A

}  // namespace trek::device::tensor

#endif  // __CUDA__
