// The host's side of the mailbox: emitted values, blocks of streams, progress, stop. It is polled while a
// launch runs, by the thread that called run(), so a program's callbacks are called there.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "emulator/engine.h"
#include "emulator/plan/plan.h"
#include "emulator/resident/encode.h"
#include "emulator/resident/mailbox.h"

namespace trek::resident {

class MailHost {
 public:
  // The bytes that the mailbox of a plan takes; mapped memory, 128-byte aligned.
  static uint64_t bytes(const Image& image);

  // `memory` must outlive it; `device` is where the device sees it.
  MailHost(const plan::Plan& plan, const Image& image, std::span<std::byte> memory,
           uint64_t device);

  // Fills in what of a launch is the mailbox's.
  void describe(Launch& launch) const;
  const std::vector<uint64_t>& stream_places() const { return places_; }

  // Before a launch: no message, no progress. Blocks of streams that were not taken stay.
  void begin();
  // Serves what there is; true where there was something.
  bool poll(const RunOptions& options);
  void set_source(uint32_t tensor, StreamSource source);
  // At the next back-edge that may be, and not before `taken` were.
  void ask_to_stop(uint64_t taken = 0) { store(&box().stop, taken + 1); }
  // Before a launch that goes on where the last one stopped.
  void go_on() { store(&box().stop, 0); }
  void ask_to_leave() { store(&box().abort, 1); }
  bool device_waits_for_host() const { return load(&said().waits_for_host) != 0; }
  const Mailbox& said() const { return *reinterpret_cast<const Mailbox*>(memory_.data()); }

 private:
  struct Stream {
    StreamInfo info;
    StreamSource source;
    uint64_t filled = 0;
    bool ended = false;
  };
  static uint64_t load(const uint64_t* p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
  static void store(uint64_t* p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
  Mailbox& box() { return *reinterpret_cast<Mailbox*>(memory_.data()); }
  std::byte* at(uint64_t place) { return memory_.data() + place; }
  StreamBox& stream_box(size_t i) { return reinterpret_cast<StreamBox*>(at(stream_boxes_))[i]; }
  bool receive(const RunOptions& options);
  bool fill(size_t i);
  void find_listed();
  void show_progress(const RunOptions& options);
  void show(const RunOptions& options, int level, LoopProgress now);

  const plan::Plan& plan_;
  std::span<std::byte> memory_;
  uint64_t device_;
  uint64_t ring_ = 0;  // places in memory_
  uint64_t stream_boxes_ = 0;
  uint64_t blocks_ = 0;
  std::vector<uint64_t> places_;  // per stream, from blocks_
  std::vector<Stream> streams_;
  // The message that is being received.
  uint64_t tail_ = 0;
  bool in_message_ = false;
  EmitHeader header_;
  std::vector<std::byte> message_;
  LoopProgress shown_[2] = {};
  // Values arrive together and after a trip was said to be over, or before. Where a program has one outermost loop, each
  // emit in it that every trip executes is counted, and says to which trip its value belongs.
  struct Listed {
    uint32_t node = 0;
    uint64_t received = 0;
  };
  std::vector<Listed> listed_;
  uint64_t static_trips_ = 0;  // of that loop, if they are known
};

}  // namespace trek::resident
