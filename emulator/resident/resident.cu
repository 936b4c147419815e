// The persistent kernel: one block a multiprocessor, each executing its processor's queue.
#include "emulator/measure/kernels/grid.h"
#include "emulator/resident/pipeline.h"

namespace trek::resident {
namespace {

using device::Block;
using device::shared_address;

TREK_RESIDENT void barrier_init(uint64_t* barrier) {
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
}
TREK_RESIDENT void barrier_arrive(uint64_t* barrier) {
  asm volatile(
      "{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(barrier))
      : "memory");
}
TREK_RESIDENT bool barrier_passed(uint64_t* barrier, uint32_t parity) {
  uint32_t passed;
  asm volatile(
      "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(passed)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return passed != 0;
}
TREK_RESIDENT void barrier_wait(uint64_t* barrier, uint32_t parity) {
  while (!barrier_passed(barrier, parity)) {
  }
}
TREK_RESIDENT void warp_sync() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

TREK_RESIDENT uint32_t load_volatile(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v) : "r"(shared_address(p)) : "memory");
  return v;
}
TREK_RESIDENT void store_volatile(uint32_t* p, uint32_t v) {
  asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(shared_address(p)), "r"(v) : "memory");
}

// Sixteen bytes that never change: may stay in the first-level cache.
TREK_RESIDENT void copy_constant(unsigned char* to, const unsigned char* from) {
  uint32_t a;
  uint32_t b;
  uint32_t c;
  uint32_t d;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "l"(from));
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(to)), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}

// The phase of a slot's barriers on the n-th visit.
TREK_RESIDENT uint32_t phase(uint64_t n) { return static_cast<uint32_t>(n / kSlots) & 1; }

class Controller {
 public:
  TREK_RESIDENT Controller(const Launch& launch, Shared& shared, uint32_t processor, uint32_t lane)
      : launch_(launch),
        shared_(shared),
        lane_(lane),
        regions_(launch.region_count <= kSharedRegions
                     ? shared.regions
                     : launch.regions + size_t{processor} * launch.region_count),
        walker_(launch, processor, regions_),
        processor_(processor) {}

  TREK_RESIDENT void run() {
    for (uint64_t n = 0;; ++n) {
      uint64_t record = 0;
      if (lane_ == 0) {
        const Record* next = load_volatile(&shared_.left) != 0 ? nullptr : walker_.next();
        record = reinterpret_cast<uint64_t>(next);
      }
      record = from_lane_0(record);
      Slot& slot = shared_.slot[n % kSlots];
      if (n >= kSlots) barrier_wait(&shared_.freed[n % kSlots], phase(n - kSlots));
      if (record == 0) {
        if (lane_ == 0) {
          slot.record.kind = Kind::halt;
          slot.waits = 0;
          barrier_arrive(&shared_.filled[n % kSlots]);
          if (processor_ == 0) walker_.say_end();
        }
        return;
      }
      fill(slot, *reinterpret_cast<const Record*>(record));
      warp_sync();
      if (lane_ == 0) barrier_arrive(&shared_.filled[n % kSlots]);
    }
  }

 private:
  TREK_RESIDENT static uint64_t from_lane_0(uint64_t value) {
    const auto low = __nvvm_shfl_sync_idx_i32(0xFFFFFFFF, static_cast<int>(value), 0, 31);
    const auto high = __nvvm_shfl_sync_idx_i32(0xFFFFFFFF, static_cast<int>(value >> 32), 0, 31);
    return static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32 | static_cast<uint32_t>(low);
  }

  TREK_RESIDENT void fill(Slot& slot, const Record& record) {
    if (lane_ < sizeof(Record) / 16)
      copy_constant(reinterpret_cast<unsigned char*>(&slot.record) + size_t{16} * lane_,
                    reinterpret_cast<const unsigned char*>(&record) + size_t{16} * lane_);
    warp_sync();
    const unsigned char* from = launch_.descriptors + size_t{16} * slot.record.descriptor;
    const bool fits = slot.record.descriptor_bytes <= sizeof slot.descriptor;
    if (fits)
      for (uint32_t i = 16 * lane_; i < slot.record.descriptor_bytes; i += 16 * 32)
        copy_constant(slot.descriptor + i, from + i);
    const unsigned char* descriptor = fits ? slot.descriptor : from;
    // Lanes work out one wait each; walker_ lives in lane 0, the regions' states in memory.
    const uint32_t waits = slot.record.waits;
    for (uint32_t i = lane_; i < waits; i += 32) {
      const Wait wait = walker_.wait_of(slot.record, i);
      uint32_t target = 0;
      const bool asks = walker_.target(slot.record, wait, target);
      slot.counter[i] = wait.counter;
      slot.target[i] = target;
      if (!asks) slot.counter[i] = kNoCounter;
    }
    warp_sync();
    if (lane_ == 0) {
      slot.waits = waits;
      slot.moment = walker_.moment(slot.record);
      slot.node = reinterpret_cast<const device::Node*>(descriptor + sizeof(CountersRead));
      const auto& read = *reinterpret_cast<const CountersRead*>(descriptor);
      for (uint32_t i = 0; i < read.count; ++i) slot.counters[i] = walker_.counter(read.region[i]);
    }
  }

  const Launch& launch_;
  Shared& shared_;
  uint32_t lane_;
  RegionState* regions_;
  Walker walker_;
  uint32_t processor_;
};

// Polls the waits of every slot; the lanes take one each.
TREK_RESIDENT void wait_for_all(const Launch& launch, Shared& shared, ProcessorState& state,
                                uint32_t lane) {
  for (uint64_t n = 0;; ++n) {
    Slot& slot = shared.slot[n % kSlots];
    barrier_wait(&shared.filled[n % kSlots], phase(n));
    for (uint32_t i = lane; i < slot.waits; i += 32) {
      const uint32_t counter = slot.counter[i];
      if (counter == kNoCounter) continue;
      const uint32_t* at = counter_at(launch, counter);
      const uint32_t target = slot.target[i];
      for (uint32_t spins = 0;; ++spins) {
        const uint32_t seen = load_acquire(at);
        if (static_cast<int32_t>(seen - target) >= 0) break;
        if (spins % 256 != 255) continue;
        state.node = slot.record.node;
        state.counter = counter;
        state.target = target;
        state.seen = seen;
        state.doing = Doing::waiting;
        if (Walker::must_leave(launch, slot.moment)) {
          store_volatile(&shared.left, 1);
          break;
        }
      }
    }
    warp_sync();
    const bool halt = slot.record.kind == Kind::halt;
    if (lane == 0) {
      slot.skip = load_volatile(&shared.left);
      state.node = slot.record.node;
      state.doing = halt ? Doing::finished : Doing::executing;
      barrier_arrive(&shared.ready[n % kSlots]);
    }
    if (halt) return;
  }
}

TREK_RESIDENT void compute(const Launch& launch, Shared& shared, const Block& block,
                           ProcessorState& state) {
  bool trapped = false;
  for (uint64_t n = 0;; ++n) {
    Slot& slot = shared.slot[n % kSlots];
    barrier_wait(&shared.ready[n % kSlots], phase(n));
    if (slot.record.kind == Kind::halt) return;
    // All threads must see the same, or they would wait for each other in a unit: not shared.left.
    const bool left = trapped || slot.skip != 0;
    const uint64_t began = launch.profile != nullptr ? nanoseconds() : 0;
    if (!left)
      perform(block, launch, slot.record, *slot.node, slot.counters, &shared.decisions,
              &shared.fault);
    block.sync();  // everything the task wrote is written before its counters rise
    if (!left) trapped = shared.fault.code != 0;
    if (block.thread < 32) {
      if (block.thread < slot.record.signals && !left && !trapped)
        add_release(counter_at(launch, slot.record.signal[block.thread]), 1);
      if (block.thread == 0) {
        if (trapped && !left) {
          report_trap(launch, slot.moment, slot.record.node, shared.fault);
          store_volatile(&shared.left, 1);
        }
        if (launch.profile != nullptr && !left) count_task(launch, slot.record.node, began);
        store_relaxed(&state.retired, n + 1);
      }
      warp_sync();
      if (block.thread == 0) barrier_arrive(&shared.freed[n % kSlots]);
    }
  }
}

}  // namespace
}  // namespace trek::resident

#ifdef TREK_SM90A
// That it is there says to the host that units copy tensors by maps.
extern "C" __attribute__((device, used)) uint32_t resident_copies_tensors = 1;
#endif

extern "C" __attribute__((global)) __attribute__((launch_bounds(trek::resident::kThreads, 1))) void
resident(const trek::resident::Launch parameters) {
  using namespace trek::resident;
  extern __attribute__((shared)) uint64_t raw[];
  auto* memory = reinterpret_cast<unsigned char*>(raw);
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const Launch& launch = shared.launch;
  const uint32_t thread = __nvvm_read_ptx_sreg_tid_x();
  const uint32_t processor = __nvvm_read_ptx_sreg_ctaid_x();
  if (thread == 0) {
    shared.launch = parameters;
    for (uint32_t s = 0; s < kSlots; ++s) {
      barrier_init(&shared.filled[s]);
      barrier_init(&shared.ready[s]);
      barrier_init(&shared.freed[s]);
    }
    shared.left = 0;
    shared.decisions = 0;
    shared.fault = trek::device::Fault{};
  }
  __syncthreads();
  ProcessorState& state = launch.states[processor];
  const uint32_t lane = thread % 32;
  if (thread < kComputeThreads) {
    constexpr uint32_t kBegin = (sizeof(Shared) + 127) / 128 * 128;
    const Block block = {thread, kComputeThreads, reinterpret_cast<std::byte*>(memory + kBegin),
                         launch.scratch_bytes};
    compute(launch, shared, block, state);
  } else if (thread < kComputeThreads + 32) {
    Controller(launch, shared, processor, lane).run();
  } else {
    wait_for_all(launch, shared, state, lane);
  }
}
