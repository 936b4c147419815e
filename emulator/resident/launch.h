// An image on a machine, ready to be launched again and again, and one launch of it.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "emulator/resident/compilation.h"
#include "emulator/resident/encode.h"
#include "emulator/resident/machine.h"
#include "emulator/resident/mail_host.h"

namespace trek::resident {

// A run in which no task retires for so long, waits for the host excluded, is ended: 2 s, or more by TREK_WATCHDOG
// (seconds) under tools that slow a device down, where one task may take minutes.
std::chrono::seconds watchdog_time();

// What the linker must know of a machine; `memory` is what a program may take, in bytes.
plan::Device plan_device(const Machine& machine, uint64_t memory);

// How a launch ended.
struct Ended {
  Ending ending = Ending::running;
  TrapRecord trap;    // where trapped
  uint32_t node = 0;  // the loop, where a limit or a stop took effect
  uint64_t instructions = 0;
  std::string dump;  // where aborted: what every processor waited for
};

class Executable {
 public:
  // `plan` must outlive it; `code` is what the machine compiled, null where the image is executed as it is.
  static driver::Result<std::unique_ptr<Executable>> create(
      std::shared_ptr<const Machine> machine, const plan::Plan& plan, Image image,
      std::shared_ptr<const MachineCode> code = nullptr);
  // Of a machine that interprets and compiles: begins as the image is, and moves to what the compilation makes of that,
  // between runs or at a back-edge, as soon as it is there. With `at`, for tests, in the first run that comes to it: when
  // so many back-edges have been taken, where it waits for the compilation.
  static driver::Result<std::unique_ptr<Executable>> create_moving(
      std::shared_ptr<const Machine> machine, const plan::Plan& plan, Image image,
      std::shared_ptr<Compilation> compilation, std::optional<uint64_t> at);

  const Image& image() const { return image_; }
  MailHost& mail() { return *mail_; }
  // Runs to the end; callbacks are called on this thread. The arena is the program's, of at least the
  // image's bytes.
  driver::Result<Ended> run(const Memory& arena, uint64_t seed, const RunOptions& options);
  // For who launches by himself (sequence.h): what a launch begins with, its memory zeroed; and when all launches are
  // over, whether there was a trap, and the profile.
  driver::Result<Launch> prepare(const Memory& arena, uint64_t seed, const RunOptions& options);
  driver::Status finish(const RunOptions& options, Ended& ended);
  // Per node, where profiled: nanoseconds of all processors, and tasks.
  const std::vector<uint64_t>& profile() const { return profile_; }
  const Stage& interpreted() const { return stages_[0]; }
  const Stage& compiled() const { return stages_[1]; }

 private:
  Executable(std::shared_ptr<const Machine> machine, const plan::Plan& plan, Image image,
             std::shared_ptr<const MachineCode> code)
      : machine_(std::move(machine)),
        plan_(plan),
        image_(std::move(image)),
        code_(std::move(code)),
        is_compiled_(code_ != nullptr) {}
  driver::Status upload();
  driver::Status upload_constants();
  driver::Status take_over();
  driver::Status go_on();
  driver::Result<Ended> launch(const RunOptions& options, bool& stopped);
  driver::Status place_maps(const Memory& arena);
  driver::Status read_trap(Ended& ended) const;
  driver::Status read_profile();
  driver::Status serve(const RunOptions& options, std::string& dump, bool& stopped);
  driver::Result<std::vector<ProcessorState>> states() const;
  std::string dump_of(const std::vector<ProcessorState>& states) const;

  // Offsets in `state_`, which every launch finds zeroed.
  struct Places {
    uint64_t log_read = 0;  // the control block is at 0
    uint64_t states = 0;
    uint64_t walks = 0;
    uint64_t log = 0;
    uint64_t counters = 0;
    uint64_t profile = 0;
    uint64_t bytes = 0;
  };

  std::shared_ptr<const Machine> machine_;
  const plan::Plan& plan_;
  Image image_;
  std::shared_ptr<const MachineCode> code_;
  std::shared_ptr<Compilation> next_;  // what it is to move to
  std::optional<uint64_t> move_at_;
  Places places_;
  Memory constants_;  // records, queues, waits, descriptors, places of streams
  Memory state_;
  Memory streams_taken_;
  Memory regions_;
  Memory mailbox_;
  std::unique_ptr<MailHost> mail_;
  Launch launch_ = {};
  uint64_t mapped_arena_ = 0;  // where the image's tensor maps say that the arena lies
  std::vector<uint64_t> profile_;
  bool is_compiled_;  // `code_`
  std::array<Stage, 2> stages_;
  uint64_t taken_ = 0;  // back-edges of this run
};

}  // namespace trek::resident
