// The persistent kernel: one block a multiprocessor, each executing its processor's queue.
#include "emulator/measure/kernels/grid.h"
#include "emulator/resident/called.h"
#include "emulator/resident/controller.h"
#include "emulator/resident/helpers.h"
#include "emulator/resident/together.h"

#ifdef TREK_SPECIALISED
// The code of a plan's nodes (emulator/jit), by the number of a function, which records of tasks have as their weight:
// as device::execute() for a node. In the place of its descriptor there are its addresses.
// The code calls trek_await_inputs() before it reads or writes anything else, and need not sync at its end; of a task of
// Kind::quick it executes `times`. `near` is where the addresses lie that fit into a slot.
extern "C" __attribute__((device)) void trek_execute_node(
    uint32_t function, std::byte* arena, const uint32_t* addresses, const uint32_t* near,
    uint64_t seed, const int64_t* counters, int64_t first, int64_t count,
    trek::device::Fault* fault, uint32_t times);
#endif

namespace trek::resident {
namespace {

using device::Block;

// Behind a task that may trap: says so, and whether it did.
TREK_RESIDENT bool has_trapped() {
  Shared& shared = pipeline();
  const Slot& slot = shared.slot[Place().number() % kSlots];
  const bool trapped = device::is_fault(slot.fault);
  if (trapped) {
#ifndef TREK_SPECIALISED
    if (is_of_unit(slot.record.kind)) device::describe(block_of_units(shared));
#endif
    if (thread_number() == 0) {
      report_trap(shared.launch, slot.due.moment, slot.record.node, slot.fault);
      store_volatile(&shared.left, 1);
    }
  }
  warp_sync();
  return trapped;
}

// A task of any kind that has none of its own. Everything is worked out anew, before the task and behind it, so
// that nothing is kept meanwhile; and it is in line, as units are called from here, because around a call whose
// callee may return one thread after the other ptxas keeps a barrier of the warp, in local memory where all
// registers are taken. In a compiled program, where nothing is quick here, it is called: else what control() is given would
// take registers from all nodes.
#ifdef TREK_SPECIALISED
TREK_RESIDENT_CALL bool perform_any() {
#else
TREK_RESIDENT bool perform_any() {
#endif
  Shared& shared = pipeline();
  Slot& slot = shared.slot[Place().number() % kSlots];
#ifndef TREK_SPECIALISED
  if (is_of_unit(slot.record.kind))
    device::execute_unit(block_of_units(shared), *slot.node, slot.record.first, slot.record.count,
                         environment_of(shared, slot), &slot.fault);
  else
#endif
    control(block_of_units(shared), shared.launch, slot.record, *slot.node,
            environment_of(shared, slot), &shared.decisions, &slot.fault);
  return has_trapped();
}

#ifdef TREK_SPECIALISED
// A task of a node, whose code waits for the inputs itself. What is wanted behind it is read anew: a register that is kept
// across the calls of all nodes is one that none of them may take, and where ptxas found none left the loops of f32 products
// took 1.47 cycles a multiplication instead of 1.23 (../device/README.md).
TREK_RESIDENT void perform_node(const Shared& shared, Slot& slot) {
  trek_execute_node(slot.record.weight, environment_of(shared, slot).arena,
                    reinterpret_cast<const uint32_t*>(slot.node),
                    reinterpret_cast<const uint32_t*>(slot.descriptor), shared.launch.seed,
                    slot.due.counters, slot.record.first, slot.record.count, &slot.fault,
                    slot.times);
}
#endif

#ifndef TREK_SPECIALISED
// A task of a product that waits itself: a thin one, or one in order. Of the latter's own, a function would have the kernel spill
// more, and with that of long thin ones perform_stays() would spill.
TREK_RESIDENT_CALL void perform_product() {
  Shared& shared = pipeline();
  Slot& slot = shared.slot[same_for_all(Place().number()) % kSlots];
  const auto ready = [] { return is_ready(); };
#ifndef TREK_FOR_CHAINS
  if (slot.record.kind == Kind::in_order)
    return device::execute_in_order(block_of_units(shared), *slot.node, slot.record.first,
                                    environment_of(shared, slot), ready);
#endif
  // Not slot.node: the compiler is to see that it is in shared memory.
  device::execute_thin(block_of_units(shared),
                       *reinterpret_cast<const device::Node*>(slot.descriptor), slot.record.first,
                       environment_of(shared, slot), ready);
}
#ifndef TREK_FOR_CHAINS
// A task of a node that waits itself and may trap: whether it did.
TREK_RESIDENT_CALL bool perform_early() {
  Shared& shared = pipeline();
  Slot& slot = shared.slot[same_for_all(Place().number()) % kSlots];
  device::execute_early(block_of_units(shared), *slot.node, slot.record.first, slot.record.count,
                        environment_of(shared, slot), &slot.fault);
  return has_trapped();
}
#endif
TREK_RESIDENT_CALL void perform_long_thin() {
  Shared& shared = pipeline();
  Slot& slot = shared.slot[same_for_all(Place().number()) % kSlots];
  device::execute_thin(block_of_units(shared), *slot.node, slot.record.first,
                       environment_of(shared, slot), [] { return is_ready(); });
}
#ifndef TREK_FOR_CHAINS
// A task whose columns stay in shared memory, and those behind it that have the same ones: device::execute_stays() keeps
// them in registers meanwhile.
class Staying {
 public:
  TREK_RESIDENT Staying() : slot_(slot_of(Place())) {}
  // Not slot.node: as above.
  TREK_RESIDENT const device::Node& node() const {
    return *reinterpret_cast<const device::Node*>(slot_->descriptor);
  }
  TREK_RESIDENT int64_t tile() const { return slot_->record.first; }
  TREK_RESIDENT device::ThinPlace place() const { return {slot_->record.count}; }
  TREK_RESIDENT bool ready() const {
    Shared& shared = pipeline();
    return device::thin_is_ready(block_of_units(shared), node(), environment_of(shared, *slot_),
                                 [] { return is_ready(); });
  }
  TREK_RESIDENT bool next() {
    const device::ThinPlace before = place();
    if (!before.is_followed()) return false;
    has_gone_on_ = true;
    Place().go_on(false);
    block_of_units(pipeline()).sync();
    const Place here;
    slot_ = slot_of(here);
    const uint32_t n = here.number();
    barrier_wait(&pipeline().filled[n % kSlots], phase(n));
    const bool is_same = slot_->record.kind == Kind::stays && place().is_same(before);
    if (same_for_all(is_same ? 1 : 0) == 0) return false;
    has_gone_on_ = false;
    return true;
  }
  // Whether no task is at hand: the last one's end has been said.
  TREK_RESIDENT bool has_gone_on() const { return has_gone_on_; }

 private:
  TREK_RESIDENT static Slot* slot_of(const Place& place) {
    return pipeline().slot + same_for_all(place.number()) % kSlots;
  }
  Slot* slot_;
  bool has_gone_on_ = false;
};
// Whether it has gone on itself.
TREK_RESIDENT_CALL bool perform_stays() {
  Shared& shared = pipeline();
  Staying tasks;
  device::execute_stays(block_of_units(shared), tasks,
                        arena_of(shared));
  return tasks.has_gone_on();
}
#endif

// A task of a node that is quick in this way. Not slot.node: as above.
template <device::Quick kQuick, class Turns>
TREK_RESIDENT void perform_quick(const Shared& shared, const Slot& slot, Turns turns) {
  device::execute_quick<kQuick>(block_of_units(shared),
                                *reinterpret_cast<const device::Node*>(slot.descriptor),
                                slot.record.first, slot.record.count, environment_of(shared, slot),
                                turns);
}
// The same of a caller that has kept nothing; of tasks that are ready, or that wait themselves.
template <device::Quick kQuick, class Ready>
TREK_RESIDENT void perform_once(Ready ready) {
  const Shared& shared = pipeline();
  perform_quick<kQuick>(shared, shared.slot[same_for_all(Place().number()) % kSlots],
                        [&](uint32_t turn) { return turn == 0 && ready(); });
}
TREK_RESIDENT_CALL void perform_calls() {
  perform_once<device::Quick::calls>([] { return true; });
}
TREK_RESIDENT_CALL void perform_rows() {
  perform_once<device::Quick::rows>([] { return true; });
}
TREK_RESIDENT_CALL void perform_move() {
  perform_once<device::Quick::move>([] { return is_ready(); });
}
#endif

TREK_RESIDENT void compute() {
#if defined(TREK_SM90A) && !defined(TREK_SPECIALISED) && !defined(TREK_FOR_CHAINS)
  // Never so: units have memory. ptxas lays out registers of the f32 products' loops by banks only where each of these
  // functions has a second call (emulator/device/README.md).
  if (pipeline().launch.scratch_bytes == 0) device::call_f32_products(block_of_units(pipeline()));
#endif
  for (;;) {
    Shared& shared = pipeline();
    const Place place;
    const uint32_t n = same_for_all(place.number());
    Slot& slot = shared.slot[n % kSlots];
    barrier_wait(&shared.filled[n % kSlots], phase(n));
    const auto kind = static_cast<Kind>(same_for_all(static_cast<uint32_t>(slot.record.kind)));
#ifdef TREK_SPECIALISED
    if (is_of_unit(kind)) {
      if (may_trap(kind)) place.say_may_trap();
      perform_node(shared, slot);
      const Place here;
      here.go_on(here.may_trap() && has_trapped());
    } else {
      const bool ready = is_ready(shared, slot, place);
      if (kind == Kind::halt) return Place().go_on(false);
      const bool trapped = ready && perform_any();
      Place().go_on(trapped);  // read behind it
    }
#else
    bool trapped = false;
    if (kind == Kind::thin || kind == Kind::in_order) {
      perform_product();
#ifdef TREK_FOR_CHAINS
    } else if (kind == Kind::gemv) {
      if (same_for_all(is_bf16(slot) ? 1 : 0) != 0)
        perform_gemv<true>();
      else
        perform_gemv<false>();
      continue;
#else
    } else if (kind == Kind::early) {
      trapped = perform_early();
    } else if (kind == Kind::stays) {
      if (same_for_all(perform_stays() ? 1 : 0) != 0) continue;
#endif
    } else if (kind == Kind::long_thin) {
      perform_long_thin();
    } else if (kind == Kind::quick) {
      const uint32_t times = same_for_all(slot.times);
      perform_quick<device::Quick::simple>(shared, slot, [&](uint32_t turn) {
        if (turn == 0) return is_ready(shared, slot, place);
        if (turn == times) return false;
        block_of_units(shared).sync();
        return true;
      });
    } else if (kind == Kind::move) {
      perform_move();
#ifndef TREK_FOR_CHAINS
    } else if (device::kHasWords && kind == Kind::words) {
      perform_words();
#endif
#if defined(TREK_SM90A) && !defined(TREK_FOR_CHAINS)
    } else if (kind == Kind::recurrent) {
      perform_recurrent();
      continue;
#endif
    } else if (is_ready(shared, slot, place)) {
      if (kind == Kind::halt) return Place().go_on(false);
      if (kind == Kind::calls) {
        perform_calls();
      } else if (kind == Kind::rows) {
        perform_rows();
#if defined(TREK_SM90A) && !defined(TREK_FOR_CHAINS)
      } else if (kind == Kind::copied) {
        device::execute_copied(block_of_units(shared), *slot.node, slot.record.first,
                               environment_of(shared, slot));
#endif
      } else {
        trapped = perform_any();
      }
    } else if (kind == Kind::halt) {
      return Place().go_on(false);
    }
    Place().go_on(trapped);
#endif
    // The signaller need not wait until the warps have met.
    block_of_units(pipeline()).sync();
  }
}

// Compute warps and the kernel's other four begin with as many registers each; what these can do without, those get.
// A multiplication of f32 takes a cycle more where two of its registers are in one bank, and ptxas finds places for 64
// sums where that is rare only if there are more of them than 168. Warps that execute rows of a wide kernel
// (emulator/jit) have none to take; and those that ask for copies for tensor cores have work for more.
struct Registers {
  uint32_t of_compute;
  uint32_t of_others;
};
inline constexpr uint32_t kRegisters = 65536 / (device::kBlockThreads + kOtherThreads) / 8 * 8;
constexpr bool are_all(Registers r) {
  return device::kBlockThreads * r.of_compute + kOtherThreads * r.of_others ==
         (device::kBlockThreads + kOtherThreads) * kRegisters;
}
inline constexpr Registers kShared = {208, 88};
inline constexpr Registers kInOrder = {216, 72};  // compiled, and all products are by the dot order
static_assert(are_all(kShared) && are_all(kInOrder));
#ifdef TREK_SM90A
TREK_RESIDENT bool has_registers_to_share() {
  return device::block_threads() == device::kBlockThreads;
}
TREK_RESIDENT bool multiplies_in_order() {
  return device::tensor::may(device::tensor::kInOrder) &&
         !device::tensor::may(device::tensor::kByTensorCores);
}
#endif
TREK_RESIDENT void take_registers() {
#ifdef TREK_SM90A
  if (!has_registers_to_share()) return;
  if (multiplies_in_order())
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kInOrder.of_compute));
  else
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kShared.of_compute));
#endif
}
TREK_RESIDENT void give_registers() {
#ifdef TREK_SM90A
  if (!has_registers_to_share()) return;
  if (multiplies_in_order())
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kInOrder.of_others));
  else
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kShared.of_others));
#endif
}

}  // namespace
}  // namespace trek::resident

#ifdef TREK_SPECIALISED
// What there is in the place of code of a node in words.
extern "C" __attribute__((device, noinline)) void trek_move_in_words() {
  trek::resident::perform_words();
}
#endif

extern "C" __attribute__((global)) __attribute__((launch_bounds(trek::resident::kThreads, 1))) void
resident(const trek::resident::Launch parameters) {
  using namespace trek::resident;
  Shared& shared = pipeline();
  const Launch& launch = shared.launch;
  const uint32_t thread = __nvvm_read_ptx_sreg_tid_x();
  const uint32_t processor = __nvvm_read_ptx_sreg_ctaid_x();
  const uint32_t computing = trek::device::block_threads();
  if (thread == 0) {
#if defined(TREK_SM90A) && defined(TREK_SPECIALISED)
    check_shared_memory();
#endif
    shared.launch = parameters;
    for (uint32_t s = 0; s < kSlots; ++s) {
      barrier_init(&shared.named[s], kWarpArrivals);
      barrier_init(&shared.filled[s], 32 + kWarpArrivals);  // of each lane what it fetched
      barrier_init(&shared.ready[s], kWarpArrivals);
      barrier_init(&shared.executed[s], computing / 32 * kWarpArrivals);
      barrier_init(&shared.freed[s], kWarpArrivals);
    }
    for (uint32_t& chunk : shared.window.chunk) chunk = ~0u;
    for (Slot& slot : shared.slot) slot.source = nullptr;
    for (uint32_t& place : shared.place) place = 0;
    for (KeptWords& kept : shared.kept_words)
      for (uint32_t& next : kept.next) next = ~0u;
#if defined(TREK_SPECIALISED) || defined(TREK_FOR_CHAINS)
    for (uint32_t& bits : shared.packed) bits = 0;
#endif
    trek::device::begin_tasks(block_of_units(shared));
    shared.left = 0;
    shared.ring = {};
#ifdef TREK_SM90A
    for (uint64_t& barrier : shared.ring.begun_tile) barrier_init(&barrier, 1);
    shared.boxes = {};
    for (uint64_t& barrier : shared.boxes.part) barrier_init(&barrier, 1);
    barrier_init(&shared.boxes.own, 1);
#ifdef TREK_FOR_CHAINS
    shared.gemv = {};
    for (uint64_t& barrier : shared.gemv.full) barrier_init(&barrier, 1);
    for (uint64_t& barrier : shared.gemv.empty)
      barrier_init(&barrier, computing / 32 * kWarpArrivals);
#endif
    trek::device::tensor::barriers_made();
#endif
    make_pair(shared);
    shared.decisions = decisions_before(parameters);
    follow_launch_before();
  }
  __syncthreads();
  meet_pair();
  ProcessorState& state = launch.states[processor];
  const uint32_t lane = thread % 32;
  if (thread < computing) {
    take_registers();
    compute();
  } else {
    give_registers();
    if (thread < computing + 32) {
      Controller(launch, shared, processor, lane).run();
    } else if (thread < computing + 64) {
      fill_all(shared, lane);
    } else if (thread < computing + 96) {
      wait_for_all(launch, shared, state, lane);
    } else {
      signal_all(launch, shared, state, lane);
    }
  }
  if constexpr (trek::device::kHasPairs)
    part_from_pair(pipeline());  // in one place: synccheck takes two for threads that have parted
}
