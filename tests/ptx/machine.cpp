#include "tests/ptx/machine.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace trek::ptx {
namespace {

constexpr uint32_t kLongestTurn = 400;  // instructions
// So many instructions may one part of a warp have while another could go on: it may wait for the other.
constexpr uint32_t kLongestAlone = 4096;

// Passes a parameter or a result on, in the memory of each lane's own.
void pass(std::byte* to, uint32_t to_at, const std::byte* from, uint32_t from_at, uint32_t bytes,
          uint32_t lanes) {
  while (bytes > 0) {
    const uint32_t piece =
        std::min({bytes, kOwnPiece - to_at % kOwnPiece, kOwnPiece - from_at % kOwnPiece});
    std::byte* const to_first = to + own_place(to_at, 0);
    const std::byte* const from_first = from + own_place(from_at, 0);
    const auto move = [&](auto count) {
      for_lanes(lanes, [&](uint32_t lane) {
        std::memcpy(to_first + lane * kOwnPiece, from_first + lane * kOwnPiece, count);
      });
    };
    if (piece == 16)
      move(std::integral_constant<size_t, 16>());
    else if (piece == 8)
      move(std::integral_constant<size_t, 8>());
    else if (piece == 4)
      move(std::integral_constant<size_t, 4>());
    else
      move(size_t{piece});
    to_at += piece;
    from_at += piece;
    bytes -= piece;
  }
}

}  // namespace

// ---- warps ---------------------------------------------------------------------------------------

Warp::Warp(Block& block, uint32_t number, uint32_t threads)
    : block_(block),
      module_(block.grid().module()),
      number_(number),
      live_(threads >= kLanes ? kAllLanes : (1U << threads) - 1),
      // Constants are read through the same pointers as registers, and never written.
      constant_words_(const_cast<uint32_t*>(module_.constant_words.data())),
      constant_longs_(const_cast<uint64_t*>(module_.constant_longs.data())),
      shared_(block.shared().data()),
      shared_bytes_(block.shared().size()),
      races_(block.races()) {
  at_.fill(block.grid().kernel().first);
  enter_frame(0);
  const auto& parameters = block.grid().parameters();
  for (size_t at = 0; at < parameters.size(); ++at)
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      parameters_now_[own_place(at, lane)] = parameters[at];
}

// Makes registers and parameters those of a depth of calls.
void Warp::enter_frame(uint32_t depth) {
  while (depth >= frames_.size()) {
    Frame frame;
    frame.predicates.resize(module_.most_predicates);
    frame.words.resize(size_t{module_.most_words} * kLanes);
    frame.longs.resize(size_t{module_.most_longs} * kLanes);
    frame.parameters.resize(own_place(module_.most_parameter_bytes + kOwnPiece, 0));
    frames_.push_back(std::move(frame));
  }
  Frame& frame = frames_[depth];
  depth_now_ = depth;
  predicates_now_ = frame.predicates.data();
  words_now_ = frame.words.data();
  longs_now_ = frame.longs.data();
  parameters_now_ = frame.parameters.data();
}

bool Warp::run(uint32_t budget) {
  budget_ = budget;
  was_idle_ = false;
  while (budget_ > 0 && pick()) run_group();
  return !was_idle_;
}

// Chooses the lanes that go on; false where all wait.
bool Warp::pick() {
  const uint32_t able = live_ & ~waiting_;
  if (able == 0) return false;
  if (able == together_) {
    lanes_ = able;
    meets_at_ = UINT32_MAX;
    return true;
  }
  const auto is_able = [&](uint32_t lane) { return (able >> lane & 1) != 0; };
  uint32_t depth = 0;
  uint32_t next = UINT32_MAX;
  if (alone_for_ >= kLongestAlone) {  // somebody else's turn
    alone_for_ = 0;
    const uint32_t others = able & ~lanes_;
    const auto first = static_cast<uint32_t>(std::countr_zero(others != 0 ? others : able));
    depth = depth_[first];
    next = at_[first];
  } else {
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      depth = std::max(depth, is_able(lane) ? depth_[lane] : 0);
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      next = std::min(next, is_able(lane) && depth_[lane] == depth ? at_[lane] : UINT32_MAX);
  }
  uint32_t lanes = 0;
  uint32_t meets_at = UINT32_MAX;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t at = is_able(lane) && depth_[lane] == depth ? at_[lane] : UINT32_MAX;
    lanes |= uint32_t{at == next} << lane;
    meets_at = std::min(meets_at, at > next ? at : UINT32_MAX);
  }
  next_ = next;
  lanes_ = lanes;
  meets_at_ = meets_at;
  if (depth != depth_now_) enter_frame(depth);
  return true;
}

void Warp::run_group() {
  const Instruction* code = module_.instructions.data();
  const bool is_alone = lanes_ != (live_ & ~waiting_);
  uint32_t executed = 0;
  regroups_ = false;
  together_ = 0;
  while (budget_ > 0) {
    const Instruction& instruction = code[next_];
    uint32_t lanes = lanes_;
    if (instruction.guard != kTrue) {
      const uint32_t guard = predicate(instruction.guard);
      lanes &= instruction.guard_is_negated ? ~guard : guard;
    }
    ++next_;
    ++executed;
    --budget_;
    if (lanes != 0) instruction.execute(*this, instruction, lanes);
    if (regroups_ || next_ >= meets_at_) break;
    if (is_alone && ++alone_for_ >= kLongestAlone) break;
  }
  if (!is_alone) alone_for_ = 0;
  block_.grid().instructions += executed;
  for_lanes(lanes_, [&](uint32_t lane) { at_[lane] = next_; });
  if (!is_alone && !regroups_) together_ = lanes_;
}

void Warp::branch(uint32_t target, uint32_t lanes) {
  if (lanes == lanes_) {
    next_ = target;
    return;
  }
  for_lanes(lanes, [&](uint32_t lane) { at_[lane] = target; });
  lanes_ &= ~lanes;
  regroups_ = true;
}

void Warp::call(const Call& call, uint32_t target, uint32_t lanes) {
  const uint32_t depth = depth_now_;
  if (depth > 60) fail("calls within calls without end");
  enter_frame(depth + 1);
  const Frame& from = frames_[depth];
  Frame& to = frames_[depth + 1];
  for (const Call::Passed& passed : call.arguments)
    pass(to.parameters.data(), passed.to, from.parameters.data(), passed.from, passed.bytes, lanes);
  for_lanes(lanes, [&](uint32_t lane) {
    to.return_to[lane] = next_;
    to.local_base[lane] = (from.local_base[lane] + call.local_bytes + 15) & ~15U;
    depth_[lane] = depth + 1;
    at_[lane] = target;
  });
  go_on_at(target, lanes);
}

void Warp::leave(uint32_t lanes) {
  if (depth_now_ == 0) {
    exit(lanes);
    return;
  }
  const uint32_t depth = depth_now_ - 1;
  const Frame& from = frames_[depth + 1];
  Frame& to = frames_[depth];
  // Lanes that come from different calls go back to different places.
  for (uint32_t rest = lanes; rest != 0;) {
    const uint32_t back = from.return_to[static_cast<uint32_t>(std::countr_zero(rest))];
    uint32_t together = 0;
    for_lanes(rest,
              [&](uint32_t lane) { together |= uint32_t{from.return_to[lane] == back} << lane; });
    rest &= ~together;
    const Call& call = module_.calls[module_.instructions[back - 1].target];
    for (const Call::Passed& passed : call.results)
      pass(to.parameters.data(), passed.to, from.parameters.data(), passed.from, passed.bytes,
           together);
    for_lanes(together, [&](uint32_t lane) {
      depth_[lane] = depth;
      at_[lane] = back;
    });
    if (together == lanes) {
      enter_frame(depth);
      go_on_at(back, lanes);
    }
  }
  lanes_ &= ~lanes;
  regroups_ = true;
}

// Lanes that are at another place now, of the depth whose frame has been entered.
void Warp::go_on_at(uint32_t place, uint32_t lanes) {
  if (lanes == (live_ & ~waiting_)) {
    together_ = lanes;
    next_ = place;
  }
  lanes_ &= ~lanes;
  regroups_ = true;
}

void Warp::exit(uint32_t lanes) {
  finish_all_copies(lanes);
  live_ &= ~lanes;
  lanes_ &= ~lanes;
  regroups_ = true;
  // Who waits for all that live may be complete now.
  waiting_ &= ~gathering_;
  gathering_ = 0;
}

bool Warp::gather(uint32_t needed, uint32_t& lanes) {
  needed &= live_;
  const uint32_t here = next_ - 1;
  uint32_t together = lanes;
  for_lanes(gathering_, [&](uint32_t lane) {
    if (at_[lane] == here && depth_[lane] == depth_now_) together |= 1U << lane;
  });
  if ((needed & ~together) == 0) {
    waiting_ &= ~together;
    gathering_ &= ~together;
    lanes_ |= together;
    lanes = together;
    if (races_ != nullptr) races_->meet(thread(0), together);
    return true;
  }
  for_lanes(lanes, [&](uint32_t lane) { at_[lane] = here; });
  waiting_ |= lanes;
  gathering_ |= lanes;
  lanes_ &= ~lanes;
  regroups_ = true;
  return false;
}

void Warp::wait_at_barrier(uint32_t barrier, uint32_t lanes) {
  for_lanes(lanes, [&](uint32_t lane) { at_[lane] = next_; });
  if (races_ != nullptr) races_->arrive_at_block_barrier(barrier, thread(0), lanes);
  at_barrier_[barrier] |= lanes;
  waiting_ |= lanes;
  lanes_ &= ~lanes;
  regroups_ = true;
}

void Warp::release_from_barrier(uint32_t barrier) {
  if (races_ != nullptr) races_->leave_block_barrier(barrier, thread(0), at_barrier_[barrier]);
  waiting_ &= ~at_barrier_[barrier];
  at_barrier_[barrier] = 0;
}

void Warp::begin_copy(uint32_t lane, const Copy& copy) {
  if (races_ != nullptr)
    judge(races_->begin_copy(thread(lane), {copy.to, copy.all, next_ - 1}), lane);
  if ((block_.grid().random()() & 1) != 0)
    do_copy(lane, copy);
  else
    copies_[lane].open.push_back(copy);
}
void Warp::commit_copies(uint32_t lanes) {
  for_lanes(lanes, [&](uint32_t lane) {
    copies_[lane].groups.push_back(std::move(copies_[lane].open));
    copies_[lane].open.clear();
    if (races_ != nullptr) races_->commit_copies(thread(lane));
  });
}
void Warp::finish_copies(uint32_t lanes, uint32_t but_groups) {
  for_lanes(lanes, [&](uint32_t lane) {
    auto& groups = copies_[lane].groups;
    while (groups.size() > but_groups) {
      for (const Copy& copy : groups.front()) do_copy(lane, copy);
      groups.pop_front();
    }
    if (races_ != nullptr) races_->wait_for_copies(thread(lane), but_groups);
  });
}
void Warp::let_copies_arrive(uint32_t lane) {
  LaneCopies& of = copies_[lane];
  for (const auto& group : of.groups)
    for (const Copy& copy : group) do_copy(lane, copy);
  for (const Copy& copy : of.open) do_copy(lane, copy);
  // Groups are counted still: what was committed later is not to be taken for them.
  for (auto& group : of.groups) group.clear();
  of.open.clear();
}
void Warp::finish_all_copies(uint32_t lanes) {
  finish_copies(lanes, 0);
  for_lanes(lanes, [&](uint32_t lane) {
    for (const Copy& copy : copies_[lane].open) do_copy(lane, copy);
    copies_[lane].open.clear();
    if (races_ != nullptr) races_->wait_for_all_copies(thread(lane));
  });
}
void Warp::do_copy(uint32_t lane, const Copy& copy) {
  std::byte* to = memory(Space::shared, copy.to, copy.all, lane);
  if (copy.bytes > 0) {
    // The source is aligned to the copy's whole size, and read as far as it says.
    if (copy.from % copy.all != 0)
      fail(KernelError::address, "a copy from an address that is not aligned to it",
           static_cast<int>(lane));
    memory(Space::generic, copy.from + copy.bytes - 1, 1, lane);
    std::memcpy(to, memory(Space::generic, copy.from, 1, lane), copy.bytes);
  }
  std::memset(to + copy.bytes, 0, copy.all - copy.bytes);
}

bool Warp::may_read_ahead() const {
  const std::string& part = block_.grid().shape().reads_ahead;
  return !part.empty() && module_.function_of(next_ - 1).name.find(part) != std::string::npos;
}
void Warp::fail_race(const Race& race, uint32_t lane) const {
  const uint32_t line = module_.instructions[race.before].line;
  fail(race.what + "; the earlier one is line " + std::to_string(line) + ", " + module_.line(line),
       static_cast<int>(lane));
}

std::string Warp::place() const {
  const uint32_t at = live_ == 0 ? next_ : at_[static_cast<uint32_t>(std::countr_zero(live_))];
  return module_.function_of(at).name + ", line " + std::to_string(module_.instructions[at].line);
}

void Warp::fail(KernelError::Kind kind, const std::string& what, int lane) const {
  const uint32_t at = next_ == 0 ? 0 : next_ - 1;
  std::string where = module_.function_of(at).name + ", line " +
                      std::to_string(module_.instructions[at].line) + " of the PTX, block " +
                      std::to_string(block_.number()) + ", warp " + std::to_string(number_);
  if (lane >= 0) where += ", lane " + std::to_string(lane);
  throw KernelError(kind,
                    where + ": " + what + "\n    " + module_.line(module_.instructions[at].line));
}

// ---- blocks --------------------------------------------------------------------------------------

Block::Block(Grid& grid, uint32_t number)
    : grid_(grid),
      number_(number),
      shared_(
          size_t{kReservedShared} + grid.module().shared_bytes + grid.shape().dynamic_shared_bytes,
          std::byte{0xFF}) {
  const uint32_t threads = grid.shape().block.all();
  if (grid.shape().finds_races)
    races_ = std::make_unique<Races>((threads + kLanes - 1) / kLanes * kLanes, shared_.size());
  for (uint32_t first = 0; first < threads; first += kLanes)
    warps_.push_back(std::make_unique<Warp>(*this, first / kLanes, threads - first));
}

bool Block::run_round() {
  bool did_something = false;
  const auto count = static_cast<uint32_t>(warps_.size());
  const auto first = static_cast<uint32_t>(grid_.random()() % count);
  for (uint32_t i = 0; i < count; ++i) {
    Warp& warp = *warps_[(first + i) % count];
    if (warp.is_over() || warp.waits()) continue;
    did_something |= warp.run(1 + static_cast<uint32_t>(grid_.random()() % kLongestTurn));
  }
  if (!engine_copies_.empty() && (grid_.random()() & 1) != 0) did_something |= run_engine_copy();
  return did_something;
}

bool Block::run_engine_copy() {
  if (engine_copies_.empty()) return false;
  const size_t which = grid_.random()() % engine_copies_.size();
  const std::function<void()> copy = std::move(engine_copies_[which]);
  engine_copies_.erase(engine_copies_.begin() + static_cast<std::ptrdiff_t>(which));
  copy();
  return true;
}

bool Block::is_over() const {
  return std::all_of(warps_.begin(), warps_.end(), [](const auto& w) { return w->is_over(); });
}

void Block::arrive(uint32_t barrier, uint32_t threads, uint32_t arriving) {
  arrived_[barrier] += arriving;
  if (arrived_[barrier] < threads) return;
  arrived_[barrier] = 0;
  if (races_ != nullptr) races_->end_block_barrier(barrier);
  for (const auto& warp : warps_) warp->release_from_barrier(barrier);
}

// ---- grids ---------------------------------------------------------------------------------------

Grid::Grid(const Module& module, const Function& kernel, const LaunchShape& shape,
           std::vector<std::byte> parameters, const DeviceMemory& memory)
    : module_(module),
      kernel_(kernel),
      shape_(shape),
      parameters_(std::move(parameters)),
      memory_(memory),
      random_(shape.seed) {}

namespace {

// All warps of all blocks wait, and nothing is on its way to them.
bool is_stuck(const std::vector<std::unique_ptr<Block>>& blocks) {
  for (const auto& block : blocks)
    for (const auto& warp : block->warps())
      if (!warp->is_over() && !warp->waits()) return false;
  return true;
}

[[noreturn]] void fail_stuck(const std::vector<std::unique_ptr<Block>>& blocks) {
  std::string text = "every warp waits for another:";
  for (const auto& block : blocks)
    for (const auto& warp : block->warps())
      if (!warp->is_over())
        text += "\n  block " + std::to_string(block->number()) + ", warp " +
                std::to_string(warp->number()) + ": " + warp->place();
  throw KernelError(KernelError::other, text);
}

}  // namespace

Block* Grid::find_block(uint32_t number) {
  for (const auto& block : blocks_)
    if (block->number() == number) return block.get();
  return nullptr;
}

void Grid::arrive_at_cluster(uint32_t block, uint32_t threads) {
  const uint32_t first = block / shape_.cluster * shape_.cluster;
  uint32_t& arrived = arrived_[first];
  arrived += threads;
  const uint32_t of_block = (shape_.block.all() + kLanes - 1) / kLanes * kLanes;
  if (arrived < of_block * shape_.cluster) return;
  arrived = 0;
  for (uint32_t i = 0; i < shape_.cluster; ++i)
    for (const auto& warp : find_block(first + i)->warps())
      warp->release_from_barrier(kClusterBarrier);
}

void Grid::run() {
  auto& blocks = blocks_;
  const uint32_t count = shape_.grid.all();
  uint32_t begun = 0;
  uint32_t idle_rounds = 0;
  while (true) {
    std::erase_if(blocks, [](const auto& block) { return block->is_over(); });
    while (begun < count && blocks.size() < shape_.resident_blocks)
      blocks.push_back(std::make_unique<Block>(*this, begun++));
    if (blocks.empty()) return;
    bool did_something = false;
    for (const auto& block : blocks) did_something |= block->run_round();
    if (did_something) {
      idle_rounds = 0;
      continue;
    }
    bool copied = false;
    for (const auto& block : blocks) copied |= block->run_engine_copy();
    if (copied) continue;
    if (is_stuck(blocks)) fail_stuck(blocks);
    // Everybody looks at memory that somebody else is to write: the computer, maybe.
    if (++idle_rounds > 4) {
      instructions += 20'000;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

// ---- modules -------------------------------------------------------------------------------------

const Function* Module::find(const std::string& name) const {
  for (const Function& function : functions)
    if (function.name == name) return &function;
  return nullptr;
}

std::string Module::line(uint32_t number) const {
  if (number == 0 || number > line_starts.size()) return "";
  const size_t first = text.find_first_not_of(" \t", line_starts[number - 1]);
  return text.substr(first, text.find('\n', first) - first);
}

const Function& Module::function_of(uint32_t instruction) const {
  const auto behind =
      std::upper_bound(functions.begin(), functions.end(), instruction,
                       [](uint32_t at, const Function& function) { return at < function.first; });
  return *(behind - 1);
}

}  // namespace trek::ptx
