// Blocks of a cluster: their numbers, their barrier, and each other's shared memory.
//
// An address of shared memory in another block has the block's rank in the cluster above kRankBit. What comes from
// another block is nothing that races are looked for in.
#include "tests/ptx/handlers.h"

namespace trek::ptx {
namespace {

constexpr uint32_t kRankBit = 24;

uint32_t rank_of(Warp& warp) { return warp.block().number() % warp.block().grid().shape().cluster; }

void cluster_rank(Warp& warp, const Instruction& i, uint32_t lanes) {
  uint32_t* d = warp.words(i.operands[0]);
  for_lanes(lanes, [&](uint32_t lane) { d[lane] = rank_of(warp); });
}

// mapa d, a, rank
void map_address(Warp& warp, const Instruction& i, uint32_t lanes) {
  uint32_t* d = warp.words(i.operands[0]);
  const uint32_t* a = warp.words(i.operands[1]);
  const uint32_t* rank = warp.words(i.operands[2]);
  for_lanes(lanes, [&](uint32_t lane) {
    if (a[lane] >> kRankBit != 0)
      warp.fail("an address that is mapped twice", static_cast<int>(lane));
    d[lane] = a[lane] | rank[lane] << kRankBit;
  });
}

// The block of a mapped address, by a warp of it.
Warp& owner_of(Warp& warp, uint64_t address, uint32_t lane) {
  return warp_of_cluster(warp, static_cast<uint32_t>(address >> kRankBit), lane);
}
uint32_t within(uint64_t address) {
  return static_cast<uint32_t>(address & ((uint64_t{1} << kRankBit) - 1));
}

// mbarrier.arrive _, [a]
void arrive(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Addresses at = addresses(warp, i, 1);
  for_lanes(lanes, [&](uint32_t lane) {
    arrive_from_outside(owner_of(warp, at[lane], lane), within(at[lane]));
  });
}

// st.async [a], x or {x, y, z, w}, [barrier]: comes at a random moment.
template <uint32_t kWords>
void send(Warp& warp, const Instruction& i, uint32_t lanes) {
  struct Piece {
    uint32_t words[kWords];
  };
  const Addresses to = addresses(warp, i, 0);
  const Addresses barrier = addresses(warp, i, 1 + kWords);
  for_lanes(lanes, [&](uint32_t lane) {
    Warp& there = owner_of(warp, to[lane], lane);
    if (&there != &owner_of(warp, barrier[lane], lane))
      warp.fail("bytes for one block that arrive at another", static_cast<int>(lane));
    Piece piece{};
    for (uint32_t e = 0; e < kWords; ++e) piece.words[e] = warp.words(i.operands[1 + e])[lane];
    const uint32_t at = within(to[lane]);
    const uint32_t arrives_at = within(barrier[lane]);
    there.block().add_engine_copy([&there, piece, at, arrives_at] {
      std::memcpy(there.memory(Space::shared, at, sizeof piece, 0), &piece, sizeof piece);
      complete_bytes_from_outside(there, arrives_at, sizeof piece);
    });
  });
}

// barrier.cluster.arrive has nothing to do here: who waits arrives.
void begin_meeting(Warp& /*warp*/, const Instruction& /*i*/, uint32_t /*lanes*/) {}
void meet(Warp& warp, const Instruction& /*i*/, uint32_t lanes) {
  if (!warp.gather(kAllLanes, lanes)) return;
  warp.wait_at_barrier(kClusterBarrier, lanes);
  warp.block().grid().arrive_at_cluster(warp.block().number(), kLanes);
}

}  // namespace

Warp& warp_of_cluster(Warp& warp, uint32_t rank, uint32_t lane) {
  if (rank >= warp.block().grid().shape().cluster)
    warp.fail("no block of the cluster has that rank", static_cast<int>(lane));
  Block* block = warp.block().grid().find_block(warp.block().number() - rank_of(warp) + rank);
  if (block == nullptr)
    warp.fail("shared memory of a block that has ended", static_cast<int>(lane));
  return *block->warps().front();
}

void add_clusters(Handlers& h) {
  h["%cluster_ctarank"] = cluster_rank;
  h["mapa.shared::cluster.u32"] = map_address;
  h["mbarrier.arrive.shared::cluster.b64"] = arrive;
  h["st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32"] = send<1>;
  h["st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32"] = send<4>;
  h["barrier.cluster.arrive"] = begin_meeting;
  h["barrier.cluster.wait"] = meet;
}

}  // namespace trek::ptx
