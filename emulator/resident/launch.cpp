#include "emulator/resident/launch.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "emulator/resident/pipeline.h"
#include "isa/ops.h"

namespace trek::resident {
namespace {

using driver::Status;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(5);
constexpr auto kLook = std::chrono::milliseconds(250);

uint64_t padded(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

template <class T>
uint64_t append(std::vector<std::byte>& pool, const std::vector<T>& items) {
  const uint64_t at = padded(pool.size());
  pool.resize(at + items.size() * sizeof(T));
  if (!items.empty()) std::memcpy(pool.data() + at, items.data(), items.size() * sizeof(T));
  return at;
}

std::string_view name(Doing doing) {
  switch (doing) {
    case Doing::starting:
      return "starting";
    case Doing::waiting:
      return "waiting";
    case Doing::executing:
      return "executing";
    case Doing::finished:
      return "finished";
  }
  return "?";
}

// Elements of a pointwise tile: four for every thread of a block, so that a small tensor is on many.
constexpr int64_t kPointwiseTile = 1024;

}  // namespace

std::chrono::seconds watchdog_time() {
  static const std::chrono::seconds kTime = [] {
    const char* text = std::getenv("TREK_WATCHDOG");
    return std::chrono::seconds(text == nullptr ? 2 : std::clamp(std::atoi(text), 2, 86400));
  }();
  return kTime;
}

void Machine::rest(std::chrono::nanoseconds idle) const {
  if (idle > std::chrono::milliseconds(1))
    std::this_thread::sleep_for(std::chrono::microseconds(20));
}

plan::Device plan_device(const Machine& machine, uint64_t memory) {
  plan::Device device;
  device.name = machine.name();
  device.code = machine.code();
  device.processors = machine.processors();
  device.shared_bytes = machine.scratch_bytes();
  device.chunk = kPointwiseTile;
  device.copies_tensors = machine.copies_tensors();
  device.has_pairs = machine.has_pairs();
  device.packs_panels = machine.packs_panels();
  device.interprets = machine.interprets();
  device.has_tags = device.makes_code() || machine.has_words();
  device.has_tagged_moves = machine.has_words();
  device.has_chains = machine.has_chains();
  device.memory_bytes = static_cast<int64_t>(std::min<uint64_t>(memory, INT64_MAX));
  return device;
}

driver::Result<std::unique_ptr<Executable>> Executable::create(
    std::shared_ptr<const Machine> machine, const plan::Plan& plan, Image image,
    std::shared_ptr<const MachineCode> code) {
  std::unique_ptr<Executable> executable(
      new Executable(std::move(machine), plan, std::move(image), std::move(code)));
  if (Status status = executable->upload(); !status) return status.error();
  return executable;
}

driver::Result<std::unique_ptr<Executable>> Executable::create_moving(
    std::shared_ptr<const Machine> machine, const plan::Plan& plan, Image image,
    std::shared_ptr<Compilation> compilation, std::optional<uint64_t> at) {
  std::unique_ptr<Executable> executable(
      new Executable(std::move(machine), plan, std::move(image), nullptr));
  executable->next_ = std::move(compilation);
  executable->move_at_ = at;
  if (Status status = executable->upload(); !status) return status.error();
  return executable;
}

Status Executable::upload() {
  if (!is_compiled_) {
    auto code = machine_->at_once(plan_, image_);
    if (!code) return code.error();
    code_ = code.take();
  }
  auto mailbox = machine_->allocate_shared(MailHost::bytes(image_));
  if (!mailbox) return mailbox.error();
  mailbox_ = mailbox.take();
  mail_ = std::make_unique<MailHost>(plan_, image_, mailbox_.host, mailbox_.address);
  if (Status status = upload_constants(); !status) return status;

  const uint64_t processors = image_.processors;
  places_.log_read = padded(sizeof(Control));
  places_.states = padded(places_.log_read + processors * 128);
  places_.walks = padded(places_.states + processors * sizeof(ProcessorState));
  places_.log = padded(places_.walks + processors * sizeof(Walk));
  places_.counters = padded(places_.log + kLogEntries * sizeof(Decision));
  places_.profile = padded(places_.counters + uint64_t{image_.counters} * kCounterStride * 4);
  places_.bytes = padded(places_.profile + plan_.nodes.size() * 16);
  auto state = machine_->allocate(places_.bytes);
  if (!state) return state.error();
  state_ = state.take();
  auto taken = machine_->allocate(8 * image_.streams.size() + 8);
  if (!taken) return taken.error();
  streams_taken_ = taken.take();
  if (Status status = machine_->zero(streams_taken_.address, streams_taken_.bytes); !status)
    return status.error();
  if (image_.regions > kSharedRegions || next_ != nullptr) {
    auto regions = machine_->allocate(processors * image_.regions * sizeof(RegionState));
    if (!regions) return regions.error();
    regions_ = regions.take();
  }

  const uint64_t zeroed = state_.address;
  launch_.control = reinterpret_cast<Control*>(zeroed);
  launch_.log_read = reinterpret_cast<uint64_t*>(zeroed + places_.log_read);
  launch_.states = reinterpret_cast<ProcessorState*>(zeroed + places_.states);
  launch_.walks = next_ == nullptr ? nullptr : reinterpret_cast<Walk*>(zeroed + places_.walks);
  launch_.log = reinterpret_cast<Decision*>(zeroed + places_.log);
  launch_.counters = reinterpret_cast<uint32_t*>(zeroed + places_.counters);
  launch_.stream_taken = reinterpret_cast<uint64_t*>(streams_taken_.address);
  launch_.regions = reinterpret_cast<RegionState*>(regions_.address);
  launch_.processors = image_.processors;
  launch_.giver = image_.giver;
  launch_.region_count = image_.regions;
  launch_.scratch_bytes = machine_->scratch_bytes();
  mail_->describe(launch_);
  return driver::Done{};
}

// Records, queues, waits, descriptors, and the places of streams, in the place of those that were there.
Status Executable::upload_constants() {
  std::vector<std::byte> pool;
  const uint64_t records = append(pool, image_.records);
  const uint64_t queues = append(pool, image_.queues);
  const uint64_t waits = append(pool, image_.waits);
  const uint64_t descriptors = append(pool, image_.descriptors);
  const uint64_t stream_at = append(pool, mail_->stream_places());
  auto constants = machine_->allocate(padded(pool.size()));
  if (!constants) return constants.error();
  constants_ = constants.take();
  if (Status status = machine_->upload(constants_.address, pool); !status) return status.error();
  const uint64_t base = constants_.address;
  launch_.records = reinterpret_cast<const Record*>(base + records);
  launch_.queues = reinterpret_cast<const uint32_t*>(base + queues);
  launch_.waits = reinterpret_cast<const Wait*>(base + waits);
  launch_.descriptors = reinterpret_cast<const unsigned char*>(base + descriptors);
  launch_.stream_at = reinterpret_cast<const uint64_t*>(base + stream_at);
  return driver::Done{};
}

// Between launches: what comes next is executed by what was compiled. Where nothing could be, all stays as it is. Memory,
// counters and the mailbox are the plan's, which is the same.
Status Executable::take_over() {
  const std::shared_ptr<Compilation> next = std::exchange(next_, nullptr);
  if (!next->code()) return driver::Done{};
  Phases phases;  // nobody asks
  auto code = machine_->load(*next->code(), phases);
  if (!code) return code.error();
  code_ = code.take();
  is_compiled_ = true;
  image_ = next->image();
  return upload_constants();
}

// Tensor maps hold addresses, so they are made when the arena is known, and again if it is another.
Status Executable::place_maps(const Memory& arena) {
  if (mapped_arena_ == arena.address) return driver::Done{};
  for (const PlacedMap& placed : image_.maps) {
    auto map =
        machine_->tensor_map(arena.address + static_cast<uint64_t>(placed.map.offset), placed.map);
    if (!map) return map.error();
    if (Status status = machine_->upload(arena.address + placed.at, *map); !status)
      return status.error();
  }
  mapped_arena_ = arena.address;
  return driver::Done{};
}

driver::Result<std::vector<ProcessorState>> Executable::states() const {
  std::vector<ProcessorState> states(image_.processors);
  const std::span bytes(reinterpret_cast<std::byte*>(states.data()),
                        states.size() * sizeof(ProcessorState));
  if (Status status = machine_->peek(state_.address + places_.states, bytes); !status)
    return status.error();
  return states;
}

// What every processor did when nothing moved any more: one line each.
std::string Executable::dump_of(const std::vector<ProcessorState>& states) const {
  std::string text;
  for (size_t p = 0; p < states.size(); ++p) {
    const ProcessorState& state = states[p];
    text += fmt::format("  processor {}: {} tasks, {}", p, state.retired, name(state.doing));
    if (state.node < plan_.nodes.size())
      text += fmt::format(", node {} ({})", state.node,
                          isa::info(plan_.nodes[state.node].opcode).mnemonic);
    if (state.doing == Doing::waiting)
      text += fmt::format(": counter {} is {}, wanted {}", state.counter, state.seen, state.target);
    text += '\n';
  }
  return text;
}

// Serves the mailbox until the launch is over; ends it where nothing moves, has it stop where there is something to
// move to. `stopped`: the host wants it to stop.
Status Executable::serve(const RunOptions& options, std::string& dump, bool& stopped) {
  auto last_look = Clock::now();
  auto last_move = last_look;
  auto idle_since = last_look;
  uint64_t retired = UINT64_MAX;
  bool asked = false;
  for (;;) {
    const bool any = mail_->poll(options);
    stopped = stopped || (options.stop != nullptr && options.stop->load());
    const bool moves = next_ != nullptr && !move_at_ && next_->is_done();
    if (!asked && (stopped || moves)) {
      mail_->ask_to_stop();
      asked = true;
    }
    auto done = machine_->is_done();
    if (!done) return done.error();
    if (*done) break;
    const auto now = Clock::now();
    if (any) idle_since = last_move = now;
    machine_->rest(now - idle_since);
    if (now - last_look < kLook) continue;
    last_look = now;
    auto seen = states();
    if (!seen) return seen.error();
    uint64_t sum = 0;
    for (const ProcessorState& state : *seen) sum += state.retired;
    if (sum != retired || mail_->device_waits_for_host()) {
      retired = sum;
      last_move = now;
    } else if (now - last_move > watchdog_time() + kPatience) {
      // Not even asked to does it end. Memory that it may still write cannot be given back.
      fmt::print(stderr, "trek: a launch does not end; what it waits for:\n{}", dump);
      std::abort();
    } else if (now - last_move > watchdog_time() && dump.empty()) {
      dump = dump_of(*seen);
      mail_->ask_to_leave();
      // The processors look at their own memory, not across the bus.
      if (Status status = machine_->poke(state_.address + offsetof(Control, aborted), 1); !status)
        return status.error();
    }
  }
  mail_->poll(options);
  return driver::Done{};
}

// Whether a task trapped.
Status Executable::read_trap(Ended& ended) const {
  Control control;
  const std::span bytes(reinterpret_cast<std::byte*>(&control), sizeof control);
  if (Status status = machine_->download(state_.address, bytes); !status) return status;
  ended.trap = control.trap;
  if (control.trap.urgency != 0) ended.ending = Ending::trapped;
  return driver::Done{};
}

// One launch: from the beginning, or from where the last one stopped.
driver::Result<Ended> Executable::launch(const RunOptions& options, bool& stopped) {
  const auto began = Clock::now();
  if (Status status = machine_->start(launch_, code_); !status) return status.error();
  Ended ended;
  if (Status status = serve(options, ended.dump, stopped); !status) return status.error();

  const Mailbox& box = mail_->said();
  ended.ending = box.ending;
  ended.node = box.end_node;
  ended.instructions = box.instructions;
  if (Status status = read_trap(ended); !status) return status.error();
  if (!ended.dump.empty()) ended.ending = Ending::aborted;
  Stage& sum = stages_[is_compiled_ ? 1 : 0];
  sum.nanoseconds += static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began).count());
  // What ends at a back-edge does not take it.
  const bool at_edge = box.ending == Ending::stopped || box.ending == Ending::limit;
  const uint64_t taken = box.back_edges - (at_edge ? 1 : 0);
  sum.trips += taken - std::exchange(taken_, taken);
  return ended;
}

driver::Result<Launch> Executable::prepare(const Memory& arena, uint64_t seed,
                                           const RunOptions& options) {
  if (Status status = place_maps(arena); !status) return status.error();
  launch_.arena = reinterpret_cast<unsigned char*>(arena.address);
  launch_.seed = seed;
  launch_.limit = options.instruction_limit;
  launch_.profile =
      options.profile ? reinterpret_cast<uint64_t*>(state_.address + places_.profile) : nullptr;
  if (Status status = machine_->zero(state_.address, places_.bytes); !status) return status.error();
  if (image_.tags_bytes > 0)
    if (Status status = machine_->zero(arena.address + image_.tags_at, image_.tags_bytes); !status)
      return status.error();
  for (const uint64_t at : image_.meetings)
    if (Status status = machine_->zero(arena.address + at, sizeof(uint32_t)); !status)
      return status.error();
  return launch_;
}

Status Executable::read_profile() {
  profile_.resize(2 * plan_.nodes.size());
  const std::span rows(reinterpret_cast<std::byte*>(profile_.data()), profile_.size() * 8);
  return machine_->download(state_.address + places_.profile, rows);
}

Status Executable::finish(const RunOptions& options, Ended& ended) {
  if (Status status = read_trap(ended); !status) return status;
  return options.profile ? read_profile() : driver::Done{};
}

driver::Result<Ended> Executable::run(const Memory& arena, uint64_t seed,
                                      const RunOptions& options) {
  if (next_ != nullptr && !move_at_ && next_->is_done())
    if (Status status = take_over(); !status) return status.error();
  mail_->begin();
  taken_ = 0;
  if (next_ != nullptr && move_at_) mail_->ask_to_stop(*move_at_);
  if (const auto prepared = prepare(arena, seed, options); !prepared) return prepared.error();
  bool stopped = false;
  auto ended = launch(options, stopped);
  while (ended && ended->ending == Ending::stopped && !stopped && next_ != nullptr) {
    if (!next_->wait(options.stop)) break;
    if (Status status = take_over(); !status) return status.error();
    if (Status status = go_on(); !status) return status.error();
    ended = launch(options, stopped);
  }
  if (!ended) return ended;
  ++stages_[is_compiled_ ? 1 : 0].runs;
  if (options.profile)
    if (Status status = read_profile(); !status) return status.error();
  return ended;
}

// The next launch goes on where this one stopped: its credit and the question are forgotten, the rest stays.
Status Executable::go_on() {
  mail_->go_on();
  return machine_->zero(state_.address + offsetof(Control, credit), sizeof(Control::credit));
}

}  // namespace trek::resident
