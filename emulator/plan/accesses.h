// What nodes do to memory, node by node: hulls to tell most of them apart at once, pieces by ascending
// place to find which tasks of one node touch what a task of another does.
#pragma once

#include <map>
#include <unordered_map>
#include <utility>

#include "emulator/plan/plan.h"

namespace trek::plan {

// The boxes of a node's tasks in one buffer, reads and writes apart.
struct Access {
  uint32_t node = 0;
  uint32_t buffer = 0;
  bool write = false;
  bool partial = false;  // some of the writes are
  // Whether the boxes together have every byte of the hull.
  bool solid = false;
  int64_t begin = 0;  // the hull
  int64_t end = 0;
  int64_t longest = 0;  // of a box, from its first byte to its last
  uint32_t first = 0;   // pieces [first, first + count), by ascending begin of their boxes
  uint32_t count = 0;
};

struct Piece {
  uint32_t task = 0;
  uint32_t box = 0;
};

// Tasks of one node that are waited for together: a range of tasks, or members of the pool.
struct ProducerSet {
  uint32_t node = 0;
  uint32_t first = 0;  // a task, or a place in the pool
  uint32_t count = 0;
  bool range = true;
};

class Accesses {
 public:
  explicit Accesses(const Plan& plan);

  // Of a node, in the order in which its tasks name buffers.
  std::span<const Access> of(uint32_t node) const {
    return {accesses_.data() + first_[node], first_[node + 1] - first_[node]};
  }
  uint32_t index(const Access& access) const {
    return static_cast<uint32_t>(&access - accesses_.data());
  }
  const Access& operator[](uint32_t index) const { return accesses_[index]; }
  // Whether what conflicts with `inner` conflicts with the writes of `outer` too, byte for byte.
  bool covers(const Access& outer, const Access& inner) const;

  struct Candidate {
    uint32_t task = 0;
    uint32_t set = 0;
  };
  // Appends for each task of `later`'s node that shares bytes with tasks of `earlier` the set of these; of
  // all its tasks where `whole` says so, or where they would be in too many sets.
  void relate(const Access& later, const Access& earlier, bool whole, std::vector<Candidate>& out);

  // A set's number is kSingle and a task, which is then its only one, or that of a list of sets.
  static constexpr uint32_t kSingle = uint32_t{1} << 31;
  ProducerSet set(uint32_t index) const {
    if (index < kSingle) return sets_[index];
    return {plan_.tasks[index - kSingle].node, index - kSingle, 1, true};
  }
  // Different for different sets, less than size().
  size_t slot(uint32_t index) const {
    return index < kSingle ? index : sets_.size() + (index - kSingle);
  }
  size_t size() const { return sets_.size() + plan_.tasks.size(); }
  uint32_t whole_node(uint32_t node);
  // The set of both, which are of one node.
  uint32_t united(uint32_t a, uint32_t b);
  template <typename F>
  void each_member(uint32_t index, F&& f) const {
    const ProducerSet set = this->set(index);
    for (uint32_t i = 0; i < set.count; ++i) f(set.range ? set.first + i : pool_[set.first + i]);
  }

 private:
  void add_node(uint32_t node);
  void finish(Access& access);
  template <typename F>
  void each_touched(const Box& box, const Access& earlier, F&& f) const;
  bool is_same(uint32_t index, const std::vector<uint32_t>& tasks) const;
  uint32_t intern(uint32_t node, const std::vector<uint32_t>& tasks);

  const Plan& plan_;
  std::vector<uint32_t> first_;  // per node
  std::vector<Access> accesses_;
  std::vector<Piece> pieces_;
  std::vector<ProducerSet> sets_;
  std::vector<uint32_t> pool_;
  std::vector<uint32_t> used_;  // per set: the last relation that made it
  uint32_t relation_ = 0;
  std::unordered_multimap<uint64_t, uint32_t> interned_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> unions_;
};

}  // namespace trek::plan
