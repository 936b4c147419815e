#include "emulator/resident/encode.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "emulator/device/brought.h"
#include "emulator/device/describe.h"
#include "emulator/loading.h"
#include "emulator/resident/gemv_nodes.h"
#include "emulator/resident/pipeline.h"
#include "emulator/resident/places.h"
#include "emulator/resident/recurrent.h"
#include "emulator/resident/tags.h"

namespace trek::resident {
namespace {

using isa::Opcode;
using plan::kNone;
using plan::Plan;
using plan::Region;
using plan::RegionKind;

Kind kind_of(device::Quick quick) {
  switch (quick) {
    case device::Quick::simple:
      return Kind::quick;
    case device::Quick::calls:
      return Kind::calls;
    case device::Quick::rows:
      return Kind::rows;
    case device::Quick::move:
      return Kind::move;
    case device::Quick::no:
      break;
  }
  return Kind::task;
}

class Encoder {
 public:
  Encoder(const Plan& plan, bool for_code) : plan_(plan), for_code_(for_code), tagged_(plan) {}
  isa::Result<Image> run();

 private:
  void check_limits();
  void describe_nodes();
  void place_weights();
  void find_gemv();
  void place_areas();
  void forget_standing();
  std::vector<uint64_t> pack(const std::vector<const device::Node*>& nodes, uint64_t used);
  void append_descriptors();
  void sort_tasks();
  void encode_region(uint32_t index);
  void encode_tasks_before(uint32_t node);
  void encode_inner(uint32_t index);
  void encode_task(uint32_t index);
  void name_memory(Record& record, const plan::Node& node);
  uint16_t innermost_loop(uint32_t region) const;
  uint32_t find_giver() const;
  int16_t level_of(uint32_t region) const;
  uint32_t stream_number(uint32_t tensor, uint64_t bytes);
  uint32_t here() const {
    return static_cast<uint32_t>(image_.records.size()) - image_.queues.back();
  }
  void refuse(const std::string& message);

  struct Descriptor {
    uint32_t at = 0;  // in units of 16 bytes, as the size is
    uint16_t size = 0;
    Kind kind = Kind::task;
    bool needs_full = false;      // the full build of the units
    std::vector<uint16_t> reads;  // the regions whose counters it reads
    std::vector<std::byte> bytes;
    device::Node& node() { return *reinterpret_cast<device::Node*>(bytes.data()); }
  };

  int64_t append_brought(const Descriptor& descriptor, int64_t tile);

  const Plan& plan_;
  bool for_code_;
  Image image_;
  isa::Problems problems_;
  std::vector<Descriptor> descriptors_;            // per node
  std::vector<std::optional<device::Gemv>> gemv_;  // the same, of Kind::gemv: in front of the node
  std::vector<std::optional<GemvLine>> lines_;
  Places places_;
  TaggedNodes tagged_;
  std::vector<uint32_t> packed_;  // per task, from 0 on: of its processor's that are packed
  std::vector<std::vector<uint32_t>> children_;  // per region, in program order
  std::vector<std::vector<uint32_t>> tasks_;     // per processor, in program order
  uint32_t processor_ = 0;
  size_t task_ = 0;  // the next of tasks_[processor_]
};

void Encoder::refuse(const std::string& message) {
  if (!problems_.empty()) return;
  problems_.push_back(problem(isa::ErrorCode::ShapeLimit,
                              "the resident emulator cannot hold this program: " + message));
}

void Encoder::check_limits() {
  if (plan_.regions.size() >= kMaxRegions)
    refuse(fmt::format("{} loops and branches, at most {}", plan_.regions.size(), kMaxRegions));
  if (plan_.nodes.size() >= kMaxNodes)
    refuse(fmt::format("{} instructions after fusion, at most {}", plan_.nodes.size(), kMaxNodes));
  for (const plan::Task& task : plan_.tasks) {
    if (task.waits > kMaxWaits)
      refuse(fmt::format("a task waits for {} counters, at most {}", task.waits, kMaxWaits));
    if (task.signals > kMaxSignals)
      refuse(fmt::format("a task raises {} counters, at most {}", task.signals, kMaxSignals));
  }
}

// Descriptors never change, so those of equal nodes could be one; they are small beside tensors.
void Encoder::describe_nodes() {
  image_.arena_bytes = static_cast<uint64_t>(plan_.arena_bytes);
  for (uint32_t i = 0; i < plan_.nodes.size(); ++i) {
    device::Described described = device::describe(plan_, i);
    if (described.counter_regions.size() > kMaxReads)
      refuse(fmt::format("an instruction reads {} loop counters, at most {}",
                         described.counter_regions.size(), kMaxReads));
    const size_t lines = (described.bytes.size() + 15) / 16;
    if (lines > UINT16_MAX)
      refuse(fmt::format("an instruction's descriptor has {} bytes, at most {}",
                         described.bytes.size(), 16 * UINT16_MAX));
    if (!described.refusal.empty()) refuse(described.refusal);
    if (!problems_.empty()) return;
    if (described.scratch_bytes > 0) {
      const uint64_t begin = (image_.arena_bytes + 255) / 256 * 256;
      described.set_scratch(static_cast<int64_t>(begin));
      image_.arena_bytes = begin + static_cast<uint64_t>(described.scratch_bytes);
      for (size_t m = 0; m < described.maps.size(); ++m)
        image_.maps.push_back({begin + m * device::kTensorMapBytes, described.maps[m]});
      if (device::is_copied(described.node()) && described.node().matrix.meets != 0)
        image_.meetings.push_back(begin + described.maps.size() * device::kTensorMapBytes);
    }
    Descriptor& descriptor = descriptors_.emplace_back();
    descriptor.bytes = std::move(described.bytes);
    descriptor.needs_full = described.needs_full;
    const device::Node& node = descriptor.node();
    const bool fits = node.bytes <= device::kNodeBytes;
    const auto quick = static_cast<device::Quick>(node.quick);
    if (device::is_thin(node))
      descriptor.kind = fits ? Kind::thin : Kind::long_thin;
    else if (device::is_copied(node))
      descriptor.kind = Kind::copied;
    else if (device::is_in_order(node))
      descriptor.kind = Kind::in_order;
    else if (device::is_early(node))
      descriptor.kind = Kind::early;
    else if (fits)
      descriptor.kind = kind_of(quick);
    descriptor.reads.assign(described.counter_regions.begin(), described.counter_regions.end());
  }
}

void Encoder::place_weights() {
  std::vector<device::Node*> nodes;
  for (Descriptor& descriptor : descriptors_)
    nodes.push_back(descriptor.kind == Kind::thin ? &descriptor.node() : nullptr);
  places_ = places_of(plan_, {nodes.data(), nodes.size()});
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (!places_.stays[n]) continue;
    nodes[n]->matrix.thin.cut.stays = 1;
    descriptors_[n].kind = Kind::stays;
  }
}

void Encoder::find_gemv() {
  std::vector<GemvCandidate> candidates;
  for (Descriptor& descriptor : descriptors_)
    candidates.push_back({&descriptor.node(), descriptor.kind, descriptor.needs_full});
  gemv_ = gemv_nodes(plan_, candidates);
  leave_rows_here(plan_, tasks_, gemv_);
  lines_ = gemv_lines(plan_, candidates, gemv_);
  for (size_t n = 0; n < gemv_.size(); ++n) {
    if (!gemv_[n]) continue;
    descriptors_[n].kind = Kind::gemv;
    image_.for_chains = true;
  }
}

// What nodes have besides their tensors is behind all else in the arena, words last, and where it is they find behind their
// descriptors.
void Encoder::place_areas() {
  packed_.resize(plan_.tasks.size());
  std::vector<const device::Node*> nodes;
  for (Descriptor& descriptor : descriptors_) nodes.push_back(&descriptor.node());
  const RecurrentNodes recurrent = recurrent_nodes(plan_, nodes, places_);
  std::vector<GemvReads> gemv(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n)
    if (gemv_[n])
      gemv[n] = {
          .is = true,
          .in_parts = true,
          .takes_words = static_cast<device::RowForm>(gemv_[n]->form) != device::RowForm::softmax,
          .row_is_here = gemv_[n]->row == device::Gemv::here,
          .line = lines_[n] ? lines_[n]->maker : kNone};
  tagged_ = tagged_nodes_of(plan_, nodes, recurrent.may, gemv);
  for (size_t n = 0; n < nodes.size(); ++n)
    if (tagged_.nodes[n].line != kNone) gemv_[n] = lines_[n]->as;
  const auto padded = [](uint64_t bytes) { return (bytes + 255) / 256 * 256; };
  uint64_t end = padded(image_.arena_bytes);
  const auto place = [&](uint64_t bytes) {
    if (bytes == 0) return device::Areas::kNone;
    const uint64_t begin = end;
    end = padded(begin + bytes);
    return static_cast<int64_t>(begin);
  };
  std::vector<int64_t> packed;
  for (const uint64_t bytes : pack(nodes, end)) packed.push_back(place(bytes));
  image_.tags_at = end;
  std::vector<int64_t> words;
  for (const TaggedNode& node : tagged_.nodes)
    words.push_back(place(static_cast<uint64_t>(node.bytes)));
  image_.tags_bytes = end - image_.tags_at;
  if (for_code_) {
    for (GemvReads& of : gemv) of.in_parts = false;
    tagged_ = tagged_nodes_of(plan_, nodes, recurrent.may, gemv);
  }
  forget_standing();
  if (end > padded(image_.arena_bytes)) image_.arena_bytes = end;
  const auto words_of = [&](uint32_t node) {
    return node == kNone ? device::Areas::kNone : words[node];
  };
  for (size_t n = 0; n < nodes.size(); ++n) {
    const TaggedNode& of = tagged_.nodes[n];
    device::Areas areas = {};
    areas.result = of.bytes == 0 ? device::Areas::kNone : words[n];
    areas.left = words_of(of.left);
    areas.left_begin = of.left_begin;
    areas.left_words = of.left_words;
    areas.left_line = of.left == kNone ? 0 : tagged_.nodes[of.left].result_line;
    areas.result_line = of.result_line;
    areas.beside = words_of(of.beside);
    areas.packed = gemv_[n] ? device::Areas::kNone : packed[n];
    areas.beside_operand = of.beside_operand;
    areas.result_index = of.result_index;
    areas.trips_before = of.is_carried ? 1 : 0;
    if (gemv_[n]) {
      tell_words(*gemv_[n], of, areas, words_of(of.line));
      gemv_[n]->packed = packed[n];
    }
    if (of.bytes == 0 && of.left == kNone && areas.packed == device::Areas::kNone) continue;
    std::vector<std::byte>& bytes = descriptors_[n].bytes;
    const size_t at = (bytes.size() + 15) / 16 * 16;
    bytes.resize(at + sizeof areas);
    std::memcpy(bytes.data() + at, &areas, sizeof areas);
    device::Node& node = descriptors_[n].node();
    node.areas_at = static_cast<uint32_t>(at);
    node.bytes = static_cast<uint32_t>(bytes.size());
    if (device::is_in_words(node)) descriptors_[n].kind = Kind::words;
    if (!recurrent.may[n] || of.left == kNone) continue;
    descriptors_[n].kind = Kind::recurrent;
    auto* loads = reinterpret_cast<device::Load*>(bytes.data() + node.loads_at) +
                  node.matrix.thin.group.first_load;
    for (size_t l = 0; l < recurrent.carried[n].size(); ++l)
      loads[l].carried = recurrent.carried[n][l];
  }
}

// What a plan takes for granted before a task waits, a task that waits for something besides may not have.
void Encoder::forget_standing() {
  for (uint32_t t = 0; t < plan_.tasks.size(); ++t) {
    if (tagged_.more[t].empty()) continue;
    device::Node& node = descriptors_[plan_.tasks[t].node].node();
    if (device::steps_boxes(node))
      node.matrix.left_stands = node.matrix.right_stands = node.matrix.own_stands = 0;
  }
}

// The bytes that nodes have for packed columns, and which of its processor's each task is (packed_): of those in loops that
// bring a few sectors of each row, in program order, as long as half of the memory that is left has room.
std::vector<uint64_t> Encoder::pack(const std::vector<const device::Node*>& nodes, uint64_t used) {
  constexpr int64_t kLine = 128;  // bytes, of which a request has one
  std::vector<uint64_t> bytes(nodes.size());
  if (!plan_.device.has_tags) return bytes;
  std::vector<uint32_t> of_processor(static_cast<size_t>(plan_.device.processors));
  const auto memory = static_cast<uint64_t>(plan_.device.memory_bytes);
  uint64_t room = memory > used ? (memory - used) / 2 : 0;
  for (size_t n = 0; n < nodes.size(); ++n) {
    const plan::Node& of = plan_.nodes[n];
    const device::Node& node = *nodes[n];
    if (!device::is_thin(node) || innermost_loop(of.region) == kNoRegion) continue;
    uint64_t wanted = 0;
    if (plan_.device.interprets) {
      const std::optional<device::Gemv>& gemv = gemv_[n];
      if (!gemv || gemv->streams == 0 || gemv->by_line != 0) continue;
      wanted = static_cast<uint64_t>(of.main_type.shape.elements()) * 2 * gemv->k;
    } else {
      const device::Thin& cut = node.matrix.thin.cut;
      const int64_t line = node.matrix.tile_columns * isa::byte_size(of.operand_types[1].dtype);
      wanted = uint64_t{of.tasks} * cut.bytes;
      if (cut.alone == 0 || cut.immutable == 0 || cut.stays != 0 || cut.by_line != 0 ||
          node.matrix.thin.group.products != 0 || line >= kLine)
        continue;
    }
    if (wanted > room) continue;
    std::vector<uint32_t> taken = of_processor;
    bool fits = true;
    for (uint32_t t = of.first_task; t < of.first_task + of.tasks; ++t)
      fits = ++taken[plan_.tasks[t].processor] <= kMostPacked && fits;
    if (!fits) continue;
    for (uint32_t t = of.first_task; t < of.first_task + of.tasks; ++t)
      packed_[t] = of_processor[plan_.tasks[t].processor]++;
    bytes[n] = wanted;
    room -= wanted;
  }
  return bytes;
}

void Encoder::append_descriptors() {
  for (size_t n = 0; n < descriptors_.size(); ++n) {
    Descriptor& descriptor = descriptors_[n];
    descriptor.at = static_cast<uint32_t>(image_.descriptors.size() / 16);
    descriptor.size = static_cast<uint16_t>((descriptor.bytes.size() + 15) / 16);
    if (gemv_[n]) {
      const auto gemv = std::as_bytes(std::span(&*gemv_[n], 1));
      image_.descriptors.insert(image_.descriptors.end(), gemv.begin(), gemv.end());
      descriptor.size = sizeof(device::Gemv) / 16;
    }
    image_.descriptors.insert(image_.descriptors.end(), descriptor.bytes.begin(),
                              descriptor.bytes.end());
    image_.descriptors.resize((image_.descriptors.size() + 15) / 16 * 16);
    descriptor.bytes = {};
  }
}

void Encoder::sort_tasks() {
  children_.resize(plan_.regions.size());
  for (uint32_t r = 1; r < plan_.regions.size(); ++r)
    children_[plan_.regions[r].parent].push_back(r);
  tasks_.resize(static_cast<size_t>(plan_.device.processors));
  for (uint32_t t = 0; t < plan_.tasks.size(); ++t) tasks_[plan_.tasks[t].processor].push_back(t);
}

// What is brought for a tile, behind the descriptors: where, in units of 16 bytes.
int64_t Encoder::append_brought(const Descriptor& descriptor, int64_t tile) {
  const std::byte* at = image_.descriptors.data() + size_t{16} * descriptor.at;
  const device::tensor::Brought brought =
      device::tensor::brought_of(*reinterpret_cast<const device::Node*>(at), tile);
  const size_t begin = image_.descriptors.size();
  image_.descriptors.resize(begin + sizeof brought);
  std::memcpy(image_.descriptors.data() + begin, &brought, sizeof brought);
  return static_cast<int64_t>(begin / 16);
}

uint16_t Encoder::innermost_loop(uint32_t region) const {
  while (region != kNone && !plan_.regions[region].is_loop()) region = plan_.regions[region].parent;
  return region == kNone ? kNoRegion : static_cast<uint16_t>(region);
}

uint32_t Encoder::find_giver() const {
  uint32_t giver = 0;
  std::pair<size_t, size_t> most;
  for (uint32_t p = 0; p < tasks_.size(); ++p) {
    std::set<uint16_t> loops;
    for (uint32_t t : tasks_[p]) loops.insert(innermost_loop(plan_.tasks[t].region));
    loops.erase(kNoRegion);
    const std::pair<size_t, size_t> has = {loops.size(), tasks_[p].size()};
    if (has <= most) continue;
    most = has;
    giver = p;
  }
  return giver;
}

// 0 or 1 of the loops whose progress a host shows, else -1.
int16_t Encoder::level_of(uint32_t region) const {
  int16_t level = -1;
  for (uint32_t r = region; r != kNone; r = plan_.regions[r].parent)
    if (plan_.regions[r].is_loop()) ++level;
  return level <= 1 ? level : int16_t{-1};
}

uint32_t Encoder::stream_number(uint32_t tensor, uint64_t bytes) {
  for (uint32_t i = 0; i < image_.streams.size(); ++i)
    if (image_.streams[i].tensor == tensor) return i;
  image_.streams.push_back({tensor, bytes});
  return static_cast<uint32_t>(image_.streams.size()) - 1;
}

// What emit and next need: see tasks.h.
void Encoder::name_memory(Record& record, const plan::Node& node) {
  const auto place = [&](uint32_t view) { return plan_.buffers[plan_.views[view].buffer].offset; };
  if (node.opcode == Opcode::Emit) {
    record.kind = Kind::emit;
    const plan::Operand value = node.operands[0];
    record.count = node.operand_types[0].bytes();
    record.first = value.kind == plan::Operand::Kind::view ? place(value.index) : kNotInMemory;
  } else {
    record.kind = Kind::next;
    const isa::Type& type = plan_.views[node.results[0]].type;
    record.first = place(node.results[0]);
    record.count = type.bytes();
    record.reads = 0;
    record.flag = place(node.results[1]);
    const uint32_t tensor = plan_.buffers[plan_.views[node.operands[0].index].buffer].source;
    record.weight = stream_number(tensor, static_cast<uint64_t>(type.bytes()));
  }
}

void Encoder::encode_task(uint32_t index) {
  const plan::Task& task = plan_.tasks[index];
  const plan::Node& node = plan_.nodes[task.node];
  Record record;
  record.node = task.node;
  const Descriptor& descriptor = descriptors_[task.node];
  record.kind = node.decides != kNone ? Kind::decide : descriptor.kind;
  // Of many elements a step is decoded for four at a time, which the unit of pointwise nodes does.
  if (record.kind == Kind::calls && task.count > kMostCalls) record.kind = Kind::task;
  record.descriptor = descriptor.at;
  record.descriptor_size = descriptor.size;
  record.reads = static_cast<uint8_t>(descriptor.reads.size());
  std::copy(descriptor.reads.begin(), descriptor.reads.end(), record.read);
  record.first = task.first;
  record.count = places_.count[index] != 0     ? places_.count[index]
                 : record.kind == Kind::gemv   ? gemv_count(*gemv_[task.node], packed_[index])
                 : record.kind == Kind::copied ? append_brought(descriptor, task.first)
                                               : task.count + packed_[index];
  record.loop = innermost_loop(task.region);
  record.late = 0;
  if (node.opcode == Opcode::Emit || node.opcode == Opcode::Next) name_memory(record, node);
  std::vector<plan::Wait> waits;
  for (uint32_t w = task.first_wait; w < task.first_wait + task.waits; ++w) {
    if (tagged_.left_out[w]) continue;
    plan::Wait& wait = waits.emplace_back(plan_.waits[w]);
    wait.late |= tagged_.late[w];
    wait.first_trip |= tagged_.first_trip[w];
  }
  const std::vector<plan::Wait>& more = tagged_.more[index];
  waits.insert(waits.end(), more.begin(), more.end());
  if (waits.size() > kMaxWaits)
    refuse(fmt::format("a task waits for {} counters, at most {}", waits.size(), kMaxWaits));
  record.waits = static_cast<uint16_t>(waits.size());
  record.more_waits = static_cast<uint32_t>(image_.waits.size());
  for (size_t i = 0; i < waits.size(); ++i) {
    const plan::Wait& from = waits[i];
    const Wait wait = {from.counter, from.count,
                       static_cast<uint16_t>(plan_.counters[from.counter].region), from.delta,
                       static_cast<uint8_t>(from.first_trip)};
    if (i < kInlineWaits)
      record.wait[i] = wait;
    else
      image_.waits.push_back(wait);
    if (i < kMaxLate && from.late) record.late |= uint16_t{1} << i;
  }
  const auto signals = plan_.signals_of(task);
  record.signals = static_cast<uint8_t>(signals.size());
  std::copy(signals.begin(), signals.end(), record.signal);
  image_.records.push_back(record);
}

void Encoder::encode_tasks_before(uint32_t node) {
  const std::vector<uint32_t>& tasks = tasks_[processor_];
  while (task_ < tasks.size() && plan_.tasks[tasks[task_]].node < node) encode_task(tasks[task_++]);
}

// A region within another: the decision where it has one, then the way in, the body, the way back.
void Encoder::encode_inner(uint32_t index) {
  const Region& region = plan_.regions[index];
  const std::vector<uint32_t>& siblings = children_[region.parent];
  if (region.decision != kNone) {
    // Both branches of an `if` go by one decision, which is read before the first of them.
    uint16_t first = kNoRegion;
    uint16_t other = kNoRegion;
    for (uint32_t r : siblings) {
      if (plan_.regions[r].decision != region.decision) continue;
      (first == kNoRegion ? first : other) = static_cast<uint16_t>(r);
    }
    if (first == index) {
      Record record;
      record.kind = Kind::decision;
      record.node = region.decision;
      record.region = first;
      record.other = other;
      image_.records.push_back(record);
    }
  }
  Record enter;
  enter.kind = Kind::enter;
  enter.region = static_cast<uint16_t>(index);
  enter.node = region.first_node;
  enter.weight = static_cast<uint32_t>(std::min<uint64_t>(region.instructions, UINT32_MAX));
  enter.entering = region.kind == RegionKind::otherwise ? Entering::otherwise
                   : region.kind == RegionKind::repeat  ? Entering::always
                                                        : Entering::counted;
  if (region.static_trips) {
    enter.jump.is_static = 1;
    enter.first = region.from;
    enter.count = region.step;
    enter.jump.trips = region.trips;
  }
  const size_t at = image_.records.size();
  image_.records.push_back(enter);
  const uint32_t body = here();
  encode_region(index);
  if (region.is_loop()) {
    Record leave = enter;
    leave.kind = Kind::leave;
    leave.jump.to = body;
    leave.level = level_of(index);
    image_.records.push_back(leave);
  }
  image_.records[at].jump.to = here();
  // A test that fails leaves the `while`: the rest is the last of the repeat, whose way back it skips.
  if (region.kind == RegionKind::rest) ++image_.records[at].jump.to;
}

void Encoder::encode_region(uint32_t index) {
  for (uint32_t child : children_[index]) {
    encode_tasks_before(plan_.regions[child].first_node);
    encode_inner(child);
  }
  encode_tasks_before(plan_.regions[index].end_node);
}

isa::Result<Image> Encoder::run() {
  check_limits();
  if (!problems_.empty()) return std::move(problems_);
  describe_nodes();
  if (!problems_.empty()) return std::move(problems_);
  place_weights();
  sort_tasks();
  find_gemv();
  place_areas();
  append_descriptors();
  image_.giver = find_giver();
  image_.processors = static_cast<uint32_t>(plan_.device.processors);
  image_.counters = static_cast<uint32_t>(plan_.counters.size());
  image_.regions = static_cast<uint32_t>(plan_.regions.size());
  for (processor_ = 0; processor_ < image_.processors; ++processor_) {
    task_ = 0;
    image_.queues.push_back(static_cast<uint32_t>(image_.records.size()));
    encode_region(0);
    Record halt;
    halt.kind = Kind::halt;
    halt.weight =
        static_cast<uint32_t>(std::min<uint64_t>(plan_.regions[0].instructions, UINT32_MAX));
    image_.records.push_back(halt);
  }
  image_.records.resize(image_.records.size() + kRecordsBehind);
  return std::move(image_);
}

}  // namespace

const device::Node& node_of(const Image& image, const Record& record) {
  const size_t in_front = record.kind == Kind::gemv ? sizeof(device::Gemv) : 0;
  return *reinterpret_cast<const device::Node*>(image.descriptors.data() +
                                                size_t{16} * record.descriptor + in_front);
}

isa::Result<Image> encode(const Plan& plan, bool for_code) { return Encoder(plan, for_code).run(); }

}  // namespace trek::resident
