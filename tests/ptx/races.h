// Which accesses to a block's shared memory nothing orders, by vector clocks: every lane has one, and so has everything
// asynchronous. What orders are barriers: of a warp, of a block, mbarriers, and waiting for one's own copies.
//
// A clock says of each thread up to which of its epochs everything is known to have happened. Threads are the block's
// lanes; for each lane its copies (cp.async), which are there once the lane has waited for them or an mbarrier has
// been told; and for each mbarrier the copy engine's boxes that arrive at it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trek::ptx {

class Clock {
 public:
  explicit Clock(size_t threads) : epochs_(threads) {}
  uint32_t operator[](size_t thread) const { return epochs_[thread]; }
  const uint32_t* from(size_t thread) const { return epochs_.data() + thread; }
  void set(size_t thread, uint32_t epoch) { epochs_[thread] = epoch; }
  void join(const Clock& other);

 private:
  std::vector<uint32_t> epochs_;
};
// Lanes that have synchronised share one.
using SharedClock = std::shared_ptr<const Clock>;

// Two accesses with nothing between them.
struct Race {
  std::string what;
  uint32_t before = 0;  // the instruction of the earlier one
};
using MaybeRace = std::optional<Race>;

// Bytes of shared memory that an instruction accesses.
struct Touched {
  uint32_t address = 0;
  uint32_t bytes = 0;
  uint32_t at = 0;  // the instruction
};

class Races {
 public:
  Races(uint32_t lanes, size_t shared_bytes);

  MaybeRace read(uint32_t lane, const Touched& touched);
  MaybeRace write(uint32_t lane, const Touched& touched);
  // What a lane begins, and what then writes by itself: a copy, or a box that arrives at an mbarrier.
  MaybeRace begin_copy(uint32_t lane, const Touched& touched);
  MaybeRace begin_box(uint32_t lane, const Touched& touched, uint32_t barrier);

  // Groups of copies, and what a lane knows to be there: all but the last so many groups.
  void commit_copies(uint32_t lane);
  void wait_for_copies(uint32_t lane, uint32_t but_groups);
  void wait_for_all_copies(uint32_t lane);

  void meet(uint32_t first_lane, uint32_t lanes);  // of one warp
  void arrive_at_block_barrier(uint32_t number, uint32_t first_lane, uint32_t lanes);
  void leave_block_barrier(uint32_t number, uint32_t first_lane, uint32_t lanes);
  void end_block_barrier(uint32_t number);

  void arrive(uint32_t barrier, uint32_t lane, bool with_copies);
  void finish_box(uint32_t barrier);
  void end_phase(uint32_t barrier);
  void pass(uint32_t barrier, uint32_t lane);

 private:
  struct Access {
    uint32_t thread = 0;
    uint32_t epoch = 0;  // 0: none
    uint32_t at = 0;
    uint8_t bytes = 0;  // of the word, a bit each
  };
  struct Reads {
    explicit Reads(uint32_t of) : warp(of) { epochs.fill(0); }
    uint32_t warp;
    uint32_t lanes = 0;
    uint32_t at = 0;
    uint8_t bytes = 0;
    std::array<uint32_t, 32> epochs;
  };
  struct Word {
    Access written;
    std::vector<Reads> read;  // by warps, since it was written
  };
  struct Mbarrier {
    uint32_t engine = 0;  // the thread whose boxes arrive at it
    uint32_t boxes = 0;
    std::shared_ptr<Clock> arriving;
    SharedClock passed;
  };

  // Whether a lane knows that a thread has done everything up to an epoch.
  bool knows(uint32_t lane, uint32_t thread, uint32_t epoch) const {
    return thread == lane || (*known_[lane])[thread] >= epoch;
  }
  // Whether a lane knows of the write, or of all reads, of any of these bytes of a word.
  bool knows_write(const Word& word, uint32_t lane, uint8_t bytes) const {
    const Access& w = word.written;
    return w.epoch == 0 || (w.bytes & bytes) == 0 || knows(lane, w.thread, w.epoch);
  }
  bool knows_reads(const Word& word, uint32_t lane, uint8_t bytes) const;
  Race race_with_write(uint32_t number, const char* access) const;
  Race race_with_read(uint32_t number, uint32_t lane, uint8_t bytes) const;
  // A write by a thread that `lane` has begun.
  MaybeRace write_words(const Access& access, uint32_t lane, const Touched& touched);
  std::string name_of(uint32_t thread) const;
  void know_copies(uint32_t lane, uint32_t copies);
  Mbarrier& mbarrier(uint32_t address);
  void join(uint32_t lane, const SharedClock& other);
  // The lane's clock with its own present epoch, which then ends.
  void release(uint32_t lane, Clock& to, bool with_copies);
  uint32_t copies_of(uint32_t lane) const { return lanes_ + lane; }

  static constexpr uint32_t kEngines = 256;
  uint32_t lanes_;
  std::vector<SharedClock> known_;  // of each lane, without what it has done itself
  std::vector<uint32_t> epochs_;    // of each lane
  std::vector<uint32_t> copies_;    // that each lane has begun
  std::vector<std::vector<uint32_t>>
      groups_;  // of each lane, how many copies there were at the end of each
  std::vector<Word> words_;
  std::map<uint32_t, Mbarrier> mbarriers_;
  std::map<uint32_t, Clock> block_barriers_;
  std::map<uint32_t, SharedClock> open_barriers_;
  // The last joining of two clocks: most often all lanes of a warp do the same.
  SharedClock joined_from_, joined_with_, joined_;
};

}  // namespace trek::ptx
