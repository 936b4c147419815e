#include "emulator/resident/sequence.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace trek::resident {
namespace {

using driver::Result;
using driver::Status;

constexpr uint64_t kLaunches = 512;             // of a recording that is repeated, at least
constexpr uint64_t kTrips = uint64_t{1} << 16;  // whose counters lie on the device at a time
constexpr int kAhead = 64;                      // replays that are started before one is waited for

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

Result<std::unique_ptr<Sequence>> Sequence::create(std::shared_ptr<const Machine> machine,
                                                   const plan::Plan& plan, Steps steps,
                                                   std::shared_ptr<const MachineCode> code) {
  std::unique_ptr<Sequence> sequence(new Sequence);
  sequence->machine_ = std::move(machine);
  sequence->code_ = code;
  sequence->steps_ = std::move(steps);
  auto executable = Executable::create(sequence->machine_, plan, std::move(sequence->steps_.image),
                                       std::move(code));
  if (!executable) return executable.error();
  sequence->executable_ = executable.take();
  if (Status status = sequence->allocate(); !status) return status.error();
  return sequence;
}

Status Sequence::allocate() {
  for (auto& [memory, bytes] : {std::pair{&mailbox_, MailHost::bytes(executable_->image())},
                                std::pair{&decisions_, kLaunches * sizeof(Decision)},
                                std::pair{&trips_, kTrips * sizeof(Decision)}}) {
    auto allocated = machine_->allocate(bytes);
    if (!allocated) return allocated.error();
    *memory = allocated.take();
  }
  return machine_->zero(mailbox_.address, mailbox_.bytes);
}

Status Sequence::wait() const {
  for (std::chrono::nanoseconds idle{0};; idle += std::chrono::microseconds(20)) {
    const auto done = machine_->is_done();
    if (!done) return done.error();
    if (*done) return driver::Done{};
    machine_->rest(idle);
  }
}

// `copies` times the steps, one trip after the other; the trips' counters are in as many entries of decisions_.
Result<std::shared_ptr<const Recording>> Sequence::record(Range steps, uint64_t copies) {
  auto& recording = recordings_[{steps, copies}];
  if (recording != nullptr) return recording;
  std::vector<Launch> launches;
  launches.reserve(copies * (steps.second - steps.first));
  for (uint64_t copy = 0; copy < copies; ++copy)
    for (uint32_t s = steps.first; s < steps.second; ++s) {
      Launch& launch = launches.emplace_back(launch_);
      launch.queues += steps_.steps[s].queue;
      launch.processors = steps_.steps[s].processors;
      launch.log = reinterpret_cast<::trek::resident::Decision*>(decisions_.address) + copy;
    }
  auto recorded = machine_->record(launches, code_);
  if (!recorded) return recorded.error();
  recording = recorded.take();
  return recording;
}

// What a step decides, which is a launch of its own.
Result<Decision> Sequence::decide(uint32_t step) {
  Decision decision;
  auto recording = record({step, step + 1}, 1);
  if (!recording) return recording.error();
  if (Status status = machine_->zero(decisions_.address, sizeof decision); !status)
    return status.error();
  if (Status status = machine_->replay(*recording); !status) return status.error();
  if (Status status = wait(); !status) return status.error();
  if (Status status = machine_->download(decisions_.address, bytes_of(decision)); !status)
    return status.error();
  return decision;
}

// The trips of a passage; false where the host had it stop.
Result<bool> Sequence::repeat(const Passage& passage, const Decision& decision,
                              const RunOptions& options) {
  const uint64_t steps = passage.end - passage.first;
  const uint64_t most = std::clamp<uint64_t>(kLaunches / std::max<uint64_t>(1, steps), 1,
                                             std::max<uint64_t>(1, decision.trips));
  std::vector<Decision> trips;
  int ahead = 0;
  for (uint64_t trip = 0; trip < decision.trips;) {
    if (options.stop != nullptr && options.stop->load()) return false;
    if (passage.reads_counter && trip % kTrips == 0) {
      trips.resize(std::min(kTrips, decision.trips - trip));
      for (uint64_t i = 0; i < trips.size(); ++i)
        trips[i] = {static_cast<int64_t>(static_cast<uint64_t>(decision.from) +
                                         (trip + i) * static_cast<uint64_t>(decision.step)),
                    decision.step, 1, 1};
      if (Status status = machine_->upload(trips_.address, std::as_bytes(std::span(trips)));
          !status)
        return status.error();
    }
    // Neither beyond the last trip nor beyond the counters that are there.
    const uint64_t left = std::min(decision.trips - trip, kTrips - trip % kTrips);
    const uint64_t copies = left >= most ? most : 1;
    auto recording = record({passage.first, passage.end}, copies);
    if (!recording) return recording.error();
    if (passage.reads_counter) {
      const uint64_t from = trips_.address + trip % kTrips * sizeof(Decision);
      if (Status status = machine_->copy(decisions_.address, from, copies * sizeof(Decision));
          !status)
        return status.error();
    }
    if (Status status = machine_->replay(*recording); !status) return status.error();
    trip += copies;
    ended_.instructions += copies * passage.instructions;
    if (++ahead % kAhead != 0) continue;
    if (Status status = wait(); !status) return status.error();
  }
  if (Status status = wait(); !status) return status.error();
  return true;
}

Result<Ended> Sequence::run(const Memory& arena, uint64_t seed, const RunOptions& options) {
  if (options.instruction_limit != 0)
    return driver::Error{"running a graph of kernels", "",
                         "instructions can be limited only where one launch runs through"};
  auto prepared = executable_->prepare(arena, seed, options);
  if (!prepared) return prepared.error();
  prepared->mailbox = reinterpret_cast<Mailbox*>(mailbox_.address);
  if (std::memcmp(&launch_, &*prepared, sizeof launch_) != 0) recordings_.clear();
  launch_ = *prepared;
  ended_ = {};
  ended_.ending = Ending::done;
  for (const Passage& passage : steps_.passages) {
    Decision decision = {0, 0, 1, 1};
    if (passage.decides != plan::kNone) {
      auto decided = decide(passage.decides);
      if (!decided) return decided.error();
      decision = *decided;
    }
    if (passage.first == passage.end) {
      ended_.instructions += decision.trips * passage.instructions;
      continue;
    }
    const auto went_on = repeat(passage, decision, options);
    if (!went_on) return went_on.error();
    if (!*went_on) {
      ended_.ending = Ending::stopped;
      break;
    }
  }
  if (Status status = executable_->finish(options, ended_); !status) return status.error();
  return ended_;
}

}  // namespace trek::resident
