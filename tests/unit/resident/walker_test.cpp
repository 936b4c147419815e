// A walk that goes by trips which are alike comes by the same tasks, with the same numbers, as one that is told each.
#include "emulator/resident/walker.h"

#include <random>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "emulator/resident/due.h"

namespace trek::resident::test {
namespace {

constexpr uint32_t kKept = 8;

// A queue of loops within loops, whose trips are known, with tasks that wait for counters of the regions around them.
struct Queue {
  std::vector<Record> records;
  std::vector<Wait> waits;
  uint32_t regions = 1;
};

class Writer {
 public:
  explicit Writer(uint32_t seed) : random_(seed) {}

  Queue write() {
    around_ = {0};
    body(0, kNoRegion);
    Record halt;
    halt.weight = number(5);
    queue_.records.push_back(halt);
    return std::move(queue_);
  }

 private:
  uint32_t number(uint32_t end) { return static_cast<uint32_t>(random_() % end); }

  void task(uint16_t loop) {
    Record record;
    record.kind = Kind::task;
    record.node = node_++;
    record.loop = loop;
    record.waits = static_cast<uint16_t>(number(20) == 0 ? kSlotWaits + 3 : number(7));
    record.more_waits = static_cast<uint32_t>(queue_.waits.size());
    for (uint32_t i = 0; i < record.waits; ++i) {
      Wait wait;
      wait.counter = number(100);
      wait.count = 1 + number(9);
      wait.region = around_[number(static_cast<uint32_t>(around_.size()))];
      wait.delta = static_cast<uint8_t>(number(2));
      wait.first_trip = static_cast<uint8_t>(number(4) == 0);
      if (i < kInlineWaits)
        record.wait[i] = wait;
      else
        queue_.waits.push_back(wait);
    }
    for (uint32_t i = 1; i < around_.size() && record.reads < kMaxReads; ++i)
      if (number(2) == 0) record.read[record.reads++] = around_[i];
    queue_.records.push_back(record);
  }

  void loop(uint32_t depth) {
    const auto region = static_cast<uint16_t>(queue_.regions++);
    Record enter;
    enter.kind = Kind::enter;
    enter.node = node_;
    enter.region = region;
    enter.first = number(50);
    enter.count = 1 + number(3);
    enter.weight = 1 + number(10);
    const uint64_t trips = depth == 1 ? number(200) : number(6);
    const size_t at = queue_.records.size();
    queue_.records.push_back(enter);
    around_.push_back(region);
    body(depth, region);
    around_.pop_back();
    Record leave;
    leave.kind = Kind::leave;
    leave.node = enter.node;
    leave.region = region;
    leave.weight = enter.weight;
    leave.jump.to = static_cast<uint32_t>(at) + 1;
    queue_.records.push_back(leave);
    queue_.records[at].jump = {static_cast<uint32_t>(queue_.records.size()), 1, trips};
  }

  // Often nothing but as many tasks as slots can be divided by.
  void body(uint32_t depth, uint16_t loop_around) {
    if (depth > 0 && number(2) == 0) {
      for (uint32_t i = number(10); i > 0; --i) task(loop_around);
      return;
    }
    for (uint32_t i = number(5); i > 0; --i) {
      if (depth < 3 && number(3) != 0)
        loop(depth + 1);
      else
        task(loop_around);
    }
  }

  std::mt19937 random_;
  Queue queue_;
  std::vector<uint16_t> around_;
  uint32_t node_ = 0;
};

// A task as it is come by: its place, when, what it asks of counters, and the counters of loops.
using Task = std::tuple<uint32_t, uint64_t, std::vector<std::pair<uint32_t, uint32_t>>,
                        std::vector<int64_t>>;

struct Walked {
  std::vector<Task> tasks;
  uint64_t told = 0;  // one by one
  uint64_t instructions = 0;
  uint64_t back_edges = 0;
  Ending ending = Ending::running;
};

// Walks the queue, in launches that stop before back-edge `stop` where that is not 0.
Walked walk(const Queue& queue, uint32_t kept, uint64_t limit, uint64_t stop) {
  Control control;
  Mailbox mailbox = {};
  std::vector<Walk> walks(1);
  std::vector<RegionState> regions(queue.regions);
  Launch launch = {};
  launch.waits = queue.waits.data();
  launch.control = &control;
  launch.mailbox = &mailbox;
  launch.limit = limit;
  launch.walks = walks.data();
  launch.regions = regions.data();
  launch.processors = 1;
  launch.region_count = queue.regions;

  struct Records {
    const Record* first;
    const Record& at(uint32_t i) const { return first[i]; }
  };
  struct Slot {
    uint32_t place;
    Due due;
    std::vector<std::pair<uint32_t, uint32_t>> more;
  };
  Walked walked;
  for (;;) {
    mailbox.stop = stop == 0 ? 0 : stop + 1;
    Walker<Records> walker(launch, 0, regions.data(), Records{queue.records.data()}, kept);
    std::vector<Slot> slots(kKept);
    uint64_t n = 0;
    const auto come_by = [&](const Slot& slot) {
      Task task = {slot.place, slot.due.moment, slot.more, {}};
      for (uint32_t i = 0; i < slot.due.waits; ++i)
        if (slot.due.counter[i] != kNoCounter)
          std::get<2>(task).emplace_back(slot.due.counter[i], slot.due.target[i]);
      for (uint32_t i = 0; i < slot.due.reads; ++i)
        std::get<3>(task).push_back(slot.due.counters[i]);
      walked.tasks.push_back(task);
      ++n;
    };
    walker.begin();
    for (;;) {
      const Record* record = walker.next();
      const Repeats repeats = walker.repeats();
      for (uint32_t left = repeats.tasks * repeats.trips; left > 0; --left) {
        Slot& slot = slots[n % kKept];
        move_on(slot.due, static_cast<uint32_t>(__builtin_ctz(kKept / repeats.tasks)), 0, 1);
        come_by(slot);
      }
      if (record == nullptr) break;
      // What is executed only now must not have been waited for: the same task comes once more.
      if (repeats.tasks * repeats.trips != 0) REQUIRE(walker.place() == slots[n % kKept].place);
      Slot& slot = slots[n % kKept];
      slot = {};
      slot.place = walker.place();
      slot.due.moment = walker.moment(*record);
      name_due(slot.due, walker, *record, 0, 1,
               [&](uint32_t counter, uint32_t target) { slot.more.emplace_back(counter, target); });
      ++walked.told;
      come_by(slot);
    }
    walker.say_end();
    walked.instructions = mailbox.instructions;
    walked.back_edges = mailbox.back_edges;
    walked.ending = mailbox.ending;
    if (mailbox.ending != Ending::stopped) return walked;
    stop += 1 + stop / 2;
    control.credit = 0;
  }
}

TEST_CASE("a walk that goes by trips comes by the same tasks") {
  uint64_t by = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const Queue queue = Writer(seed).write();
    const Walked each = walk(queue, 0, 0, 0);
    REQUIRE(each.told == each.tasks.size());
    for (const uint64_t stop : {uint64_t{0}, uint64_t{7}}) {
      for (const uint64_t limit : {uint64_t{0}, each.instructions / 2, each.instructions}) {
        CAPTURE(stop, limit);
        const Walked one = walk(queue, 0, limit, stop);
        const Walked some = walk(queue, kKept, limit, stop);
        REQUIRE(some.tasks == one.tasks);
        CHECK(some.instructions == one.instructions);
        CHECK(some.back_edges == one.back_edges);
        CHECK(some.ending == one.ending);
        by += some.tasks.size() - some.told;
      }
    }
  }
  CHECK(by > 1000);  // else nothing was shown
}

TEST_CASE("a long loop of a few tasks is mostly gone by") {
  for (const uint32_t tasks : {1U, 2U, 4U, 8U}) {
    Queue queue;
    queue.regions = 2;
    Record enter;
    enter.kind = Kind::enter;
    enter.region = 1;
    enter.count = 1;
    enter.weight = 1;
    enter.jump = {tasks + 2, 1, 1000};
    queue.records.push_back(enter);
    for (uint32_t i = 0; i < tasks; ++i) {
      Record record;
      record.kind = Kind::task;
      record.node = i;
      record.loop = 1;
      queue.records.push_back(record);
    }
    Record leave;
    leave.kind = Kind::leave;
    leave.region = 1;
    leave.weight = 1;
    leave.jump.to = 1;
    queue.records.push_back(leave);
    queue.records.emplace_back();
    const Walked walked = walk(queue, kKept, 0, 0);
    CHECK(walked.tasks.size() == 1000 * tasks);
    CHECK(walked.told < 200 * tasks);
  }
}

}  // namespace
}  // namespace trek::resident::test
