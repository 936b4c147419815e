// Warps, blocks and grids: a kernel's threads, executed in turns on one thread of the computer.
//
// Lanes of a warp that stand at one instruction execute it together; of lanes that have parted those in the innermost
// call go first, and of them those that stand first, so that they meet where their ways join. Warps take turns of
// random length, and asynchronous copies arrive at a random moment of the time that they have: what does not wait
// for them, or for another warp, is found sooner or later, and with the same seed again.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/ptx/code.h"
#include "tests/ptx/memory.h"
#include "tests/ptx/races.h"

namespace trek::ptx {

inline constexpr uint32_t kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xFFFFFFFF;

// The upper halves of generic addresses of shared and local memory. No address of this process has them.
inline constexpr uint64_t kSharedWindow = 0xFFFF0001;
inline constexpr uint64_t kLocalWindow = 0xFFFF0002;
inline constexpr uint32_t kLocalBytes = 32768;  // of a lane

// Memory of each lane's own, parameters and local memory: sixteen bytes of a lane lie beside those of the next, so that lanes
// at one address touch few lines of the computer's cache. What is aligned to its length, of sixteen bytes at most, is in one
// piece.
inline constexpr uint32_t kOwnPiece = 16;
inline constexpr size_t own_place(uint64_t address, uint32_t lane) {
  return (address / kOwnPiece * 32 + lane) * kOwnPiece + address % kOwnPiece;
}

enum class Space : uint8_t { generic, global, shared, local, parameter };

// Why a kernel was ended: what it did, and where.
class KernelError : public std::runtime_error {
 public:
  enum Kind : uint8_t { address, other };
  KernelError(Kind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

struct Extent3 {
  uint32_t x = 1, y = 1, z = 1;
  uint32_t all() const { return x * y * z; }
};

class Block;
class Grid;

// The addresses that lanes have in a register or a constant, and what is added to them.
struct Addresses {
  const uint32_t* words = nullptr;
  const uint64_t* longs = nullptr;
  int64_t plus = 0;
  uint64_t operator[](uint32_t lane) const {
    return (words != nullptr ? words[lane] : longs[lane]) + static_cast<uint64_t>(plus);
  }
};

template <typename F>
void for_lanes(uint32_t lanes, F f) {
  if (lanes == kAllLanes) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) f(lane);
  } else {
    for (; lanes != 0; lanes &= lanes - 1) f(static_cast<uint32_t>(std::countr_zero(lanes)));
  }
}

// Barriers of a block: those with a number, behind them one for each four warps that make products together, and that of
// the block's cluster.
inline constexpr uint32_t kNamedBarriers = 16;
inline constexpr uint32_t kClusterBarrier = kNamedBarriers + 8;
inline constexpr uint32_t kBarriers = kClusterBarrier + 1;

class Warp {
 public:
  Warp(Block& block, uint32_t number, uint32_t threads);

  // Executes up to `budget` instructions, fewer where the warp waits. Whether it did more than look whether it may
  // go on.
  bool run(uint32_t budget);
  bool is_over() const { return live_ == 0; }
  bool waits() const { return (live_ & ~waiting_) == 0; }
  std::string place() const;  // where it stands, for people

  // ---- for handlers -----------------------------------------------------------------------------
  uint32_t* words(Operand of) {
    return of >= 0 ? words_now_ + of * kLanes : constant_words_ + static_cast<size_t>(~of) * kLanes;
  }
  uint64_t* longs(Operand of) {
    return of >= 0 ? longs_now_ + of * kLanes : constant_longs_ + static_cast<size_t>(~of) * kLanes;
  }
  uint32_t predicate(Operand of) const {
    return of >= 0 ? predicates_now_[of] : of == kTrue ? kAllLanes : 0;
  }
  void set_predicate(Operand of, uint32_t lanes, uint32_t bits) {
    if (of == kNoOperand) return;
    uint32_t& at = predicates_now_[of];
    at = (at & ~lanes) | (bits & lanes);
  }
  // The carry of add.cc and its like.
  uint32_t carry = 0;

  // Memory that a lane reads or writes, `bytes` of it, which are a power of two; checked.
  std::byte* memory(Space space, uint64_t address, uint32_t bytes, uint32_t lane) {
    if ((address & (bytes - 1)) == 0) {
      if (space == Space::parameter) return parameters_now_ + own_place(address, lane);
      if (space == Space::shared && is_in_shared(address, bytes)) return shared_ + address;
      if (space != Space::shared && space != Space::local && known_[0].holds(address, bytes))
        return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
    }
    return find_memory(space, address, bytes, lane);
  }
  // The same of all lanes of a mask, each at its address. Whether they all are at one place.
  bool memory_of_lanes(Space space, const Addresses& addresses, uint32_t bytes, uint32_t lanes,
                       std::byte* (&at)[kLanes]);
  // Memory from one address to behind so many bytes at another, where it is known that all of it may be touched; else
  // nullptr.
  std::byte* find_piece(Space space, uint64_t first, uint64_t last, uint32_t bytes);
  // What races are looked for in: memory that a lane has read or written, wherever it is.
  void note_read(const std::byte* at, uint32_t bytes, uint32_t lane) {
    if (races_ == nullptr || !is_shared(at)) return;
    const MaybeRace race = races_->read(thread(lane), touched(at, bytes));
    if (race && !may_read_ahead()) fail_race(*race, lane);
  }
  void note_write(const std::byte* at, uint32_t bytes, uint32_t lane) {
    if (races_ != nullptr && is_shared(at))
      judge(races_->write(thread(lane), touched(at, bytes)), lane);
  }
  Races* races() { return races_; }
  uint32_t thread(uint32_t lane) const { return number_ * kLanes + lane; }
  Touched touched(const std::byte* at, uint32_t bytes) const {
    return touched(static_cast<uint32_t>(at - shared_), bytes);
  }
  Touched touched(uint32_t address, uint32_t bytes) const { return {address, bytes, next_ - 1}; }
  void judge(const MaybeRace& race, uint32_t lane) const {
    if (race) fail_race(*race, lane);
  }

  uint32_t local_base(uint32_t lane) const { return frames_[depth_now_].local_base[lane]; }

  void branch(uint32_t target, uint32_t lanes);
  void call(const Call& call, uint32_t target, uint32_t lanes);
  void leave(uint32_t lanes);  // the function, or the kernel
  void exit(uint32_t lanes);
  // Whether all lanes of `needed` that live are here; then `lanes` has all of them. Else those that are here wait, and
  // the instruction is executed once the last has come.
  bool gather(uint32_t needed, uint32_t& lanes);
  void wait_at_barrier(uint32_t barrier, uint32_t lanes);
  void release_from_barrier(uint32_t barrier);
  // Another warp's turn; `is_idle`: until something happens elsewhere.
  void yield(bool is_idle) {
    budget_ = 0;
    was_idle_ = is_idle;
    alone_for_ += 256;  // what it waits for may be another part of this warp
  }
  // Makes turns shorter where memory that others write is looked at.
  void spend(uint32_t instructions) { budget_ -= budget_ < instructions ? budget_ : instructions; }

  // Copies that cp.async has begun: they arrive when somebody waits for them, or sooner.
  struct Copy {
    uint32_t to = 0;  // in shared memory
    uint64_t from = 0;
    uint32_t bytes = 0;  // of it; behind them zeros, to `all`
    uint32_t all = 0;
  };
  void begin_copy(uint32_t lane, const Copy& copy);
  void commit_copies(uint32_t lanes);
  void finish_copies(uint32_t lanes, uint32_t but_groups);
  void finish_all_copies(uint32_t lanes);
  // The same, of which the lane itself knows nothing.
  void let_copies_arrive(uint32_t lane);

  [[noreturn]] void fail(KernelError::Kind kind, const std::string& what, int lane = -1) const;
  [[noreturn]] void fail(const std::string& what, int lane = -1) const {
    fail(KernelError::other, what, lane);
  }
  Block& block() { return block_; }
  uint32_t number() const { return number_; }
  uint32_t live() const { return live_; }

 private:
  std::byte* find_memory(Space space, uint64_t address, uint32_t bytes, uint32_t lane);
  std::byte* local_part(uint64_t address);
  bool is_known(uint64_t address, uint64_t bytes);
  bool pick();
  void run_group();
  void go_on_at(uint32_t place, uint32_t lanes);
  void enter_frame(uint32_t depth);
  void do_copy(uint32_t lane, const Copy& copy);
  bool is_in_shared(uint64_t address, uint32_t bytes) const {
    return address >= kReservedShared && address < shared_bytes_ &&
           bytes <= shared_bytes_ - address;
  }
  bool is_shared(const std::byte* at) const {
    return at >= shared_ && at < shared_ + shared_bytes_;
  }
  // Whether the function is one that reads behind what it needs, and does not use what it reads there.
  bool may_read_ahead() const;
  [[noreturn]] void fail_race(const Race& race, uint32_t lane) const;

  Block& block_;
  const Module& module_;
  const uint32_t number_;
  uint32_t live_;
  uint32_t waiting_ = 0;    // of the living: for others of this warp, or at a barrier
  uint32_t gathering_ = 0;  // of them: for others of this warp
  std::array<uint32_t, kBarriers> at_barrier_{};
  std::array<uint32_t, kLanes> at_{};  // the next instruction of each lane
  std::array<uint32_t, kLanes> depth_{};

  // What lanes have at a depth of calls.
  struct Frame {
    std::vector<uint32_t> predicates;
    std::vector<uint32_t> words;
    std::vector<uint64_t> longs;
    std::vector<std::byte> parameters;
    std::array<uint32_t, kLanes> return_to{};
    std::array<uint32_t, kLanes> local_base{};
  };
  std::vector<Frame> frames_;

  // The lanes that are being executed.
  uint32_t lanes_ = 0;
  uint32_t next_ = 0;
  uint32_t depth_now_ = 0;
  uint32_t meets_at_ = UINT32_MAX;
  uint32_t together_ = 0;   // lanes that are known to go on at `next_`, if no others can
  uint32_t alone_for_ = 0;  // instructions that one part of the warp has had in a row
  bool regroups_ = false;
  uint32_t budget_ = 0;
  bool was_idle_ = false;

  // Local memory, made where it is touched first.
  static constexpr uint32_t kLocalPart = 1024;  // bytes of a lane
  std::array<std::unique_ptr<std::byte[]>, kLocalBytes / kLocalPart> local_;
  uint32_t* predicates_now_ = nullptr;
  uint32_t* words_now_ = nullptr;
  uint64_t* longs_now_ = nullptr;
  std::byte* parameters_now_ = nullptr;
  uint32_t* constant_words_;
  uint64_t* constant_longs_;
  std::array<Range, 4> known_{};  // memory that was touched, the last first
  std::byte* shared_;
  size_t shared_bytes_;
  Races* races_;

  struct LaneCopies {
    std::deque<std::vector<Copy>> groups;
    std::vector<Copy> open;
  };
  std::array<LaneCopies, kLanes> copies_;
};

class Block {
 public:
  Block(Grid& grid, uint32_t number);

  bool run_round();  // a turn for every warp; whether any of them did something
  bool is_over() const;
  void arrive(uint32_t barrier, uint32_t threads, uint32_t arriving);
  // Copies of the tensor copy engine, which end at a random moment.
  void add_engine_copy(std::function<void()> copy) { engine_copies_.push_back(std::move(copy)); }
  bool run_engine_copy();

  Grid& grid() { return grid_; }
  uint32_t number() const { return number_; }
  std::vector<std::byte>& shared() { return shared_; }
  Races* races() { return races_.get(); }
  std::vector<std::unique_ptr<Warp>>& warps() { return warps_; }

 private:
  Grid& grid_;
  const uint32_t number_;
  std::vector<std::byte> shared_;
  std::unique_ptr<Races> races_;
  std::vector<std::unique_ptr<Warp>> warps_;
  std::array<uint32_t, kBarriers> arrived_{};
  std::vector<std::function<void()>> engine_copies_;
};

struct LaunchShape {
  Extent3 grid;
  Extent3 block;
  uint32_t cluster = 1;  // blocks
  uint32_t dynamic_shared_bytes = 0;
  uint32_t resident_blocks = 1;  // at a time
  uint64_t seed = 0;
  bool finds_races = false;  // in shared memory; several times as slow
  std::string reads_ahead;   // in the names of functions whose reads are not judged
};

class Grid {
 public:
  Grid(const Module& module, const Function& kernel, const LaunchShape& shape,
       std::vector<std::byte> parameters, const DeviceMemory& memory);

  void run();  // throws KernelError

  // A block that is executed; nullptr: it has ended, or has not begun.
  Block* find_block(uint32_t number);
  // Threads of a block come to the barrier of its cluster.
  void arrive_at_cluster(uint32_t block, uint32_t threads);

  const Module& module() const { return module_; }
  const Function& kernel() const { return kernel_; }
  const LaunchShape& shape() const { return shape_; }
  const std::vector<std::byte>& parameters() const { return parameters_; }
  const DeviceMemory& device_memory() const { return memory_; }
  std::mt19937_64& random() { return random_; }
  uint64_t instructions = 0;  // executed by all warps; also the device's clock, in nanoseconds

 private:
  const Module& module_;
  const Function& kernel_;
  const LaunchShape shape_;
  const std::vector<std::byte> parameters_;
  const DeviceMemory& memory_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Block>> blocks_;  // that are executed
  std::map<uint32_t, uint32_t> arrived_;        // threads of each cluster
};

}  // namespace trek::ptx
