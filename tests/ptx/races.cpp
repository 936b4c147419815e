#include "tests/ptx/races.h"

#include <algorithm>
#include <bit>

namespace trek::ptx {

void Clock::join(const Clock& other) {
  for (size_t i = 0; i < epochs_.size(); ++i) epochs_[i] = std::max(epochs_[i], other.epochs_[i]);
}

Races::Races(uint32_t lanes, size_t shared_bytes)
    : lanes_(lanes),
      known_(lanes, std::make_shared<Clock>(size_t{lanes} * 2 + kEngines)),
      epochs_(lanes, 1),
      copies_(lanes, 0),
      groups_(lanes),
      words_((shared_bytes + 3) / 4) {}

std::string Races::name_of(uint32_t thread) const {
  if (thread >= 2 * lanes_) return "the copy engine";
  const uint32_t lane = thread % lanes_;
  return (thread >= lanes_ ? "a copy of warp " : "warp ") + std::to_string(lane / 32) + ", lane " +
         std::to_string(lane % 32);
}

namespace {

// Calls f(word, bytes of it) for the words that an access touches, up to the first of which it gives a race.
template <typename F>
MaybeRace each_word(const Touched& touched, F f) {
  const uint32_t end = touched.address + touched.bytes;
  for (uint32_t w = touched.address / 4; w * 4 < end; ++w) {
    uint32_t bytes = 15;
    if (w * 4 < touched.address) bytes &= 15U << (touched.address - w * 4);
    if (w * 4 + 4 > end) bytes &= 15U >> (w * 4 + 4 - end);
    if (MaybeRace race = f(w, static_cast<uint8_t>(bytes))) return race;
  }
  return {};
}

std::string at_word(uint32_t number) {
  return ", and nothing between them (at " + std::to_string(number * 4) + " of shared memory)";
}

}  // namespace

bool Races::knows_reads(const Word& word, uint32_t lane, uint8_t bytes) const {
  const Clock& known = *known_[lane];
  for (const Reads& reads : word.read) {
    if ((reads.bytes & bytes) == 0) continue;
    const uint32_t* known_of_warp = known.from(reads.warp * 32);
    uint32_t unknown = 0;
    for (uint32_t bit = 0; bit < 32; ++bit)
      unknown |= uint32_t{known_of_warp[bit] < reads.epochs[bit]} << bit;
    if (reads.warp == lane / 32) unknown &= ~(1U << lane % 32);
    if ((unknown & reads.lanes) != 0) return false;
  }
  return true;
}
Race Races::race_with_write(uint32_t number, const char* access) const {
  const Access& written = words_[number].written;
  return {std::string("a race: ") + access + " of what " + name_of(written.thread) + " wrote" +
              at_word(number),
          written.at};
}
Race Races::race_with_read(uint32_t number, uint32_t lane, uint8_t bytes) const {
  for (const Reads& reads : words_[number].read)
    for (uint32_t bit = 0; bit < 32; ++bit)
      if ((reads.bytes & bytes) != 0 && (reads.lanes >> bit & 1) != 0 &&
          !knows(lane, reads.warp * 32 + bit, reads.epochs[bit]))
        return {
            "a race: a write of what " + name_of(reads.warp * 32 + bit) + " read" + at_word(number),
            reads.at};
  return {};
}

MaybeRace Races::read(uint32_t lane, const Touched& touched) {
  return each_word(touched, [&](uint32_t w, uint8_t bytes) -> MaybeRace {
    Word& word = words_[w];
    if (!knows_write(word, lane, bytes)) return race_with_write(w, "a read");
    auto found = std::find_if(word.read.begin(), word.read.end(),
                              [&](const Reads& each) { return each.warp == lane / 32; });
    if (found == word.read.end()) found = word.read.emplace(found, lane / 32);
    found->lanes |= 1U << lane % 32;
    found->epochs[lane % 32] = epochs_[lane];
    found->bytes |= bytes;
    found->at = touched.at;
    return {};
  });
}

MaybeRace Races::write_words(const Access& access, uint32_t lane, const Touched& touched) {
  return each_word(touched, [&](uint32_t w, uint8_t bytes) -> MaybeRace {
    Word& word = words_[w];
    if (word.written.thread != access.thread && !knows_write(word, lane, bytes))
      return race_with_write(w, "a write");
    if (!knows_reads(word, lane, bytes)) return race_with_read(w, lane, bytes);
    word.read.clear();
    word.written = access;
    word.written.at = touched.at;
    word.written.bytes = bytes;
    return {};
  });
}

MaybeRace Races::write(uint32_t lane, const Touched& touched) {
  return write_words({lane, epochs_[lane]}, lane, touched);
}
MaybeRace Races::begin_copy(uint32_t lane, const Touched& touched) {
  return write_words({copies_of(lane), ++copies_[lane]}, lane, touched);
}
MaybeRace Races::begin_box(uint32_t lane, const Touched& touched, uint32_t barrier) {
  Mbarrier& of = mbarrier(barrier);
  return write_words({of.engine, ++of.boxes}, lane, touched);
}

void Races::know_copies(uint32_t lane, uint32_t copies) {
  if ((*known_[lane])[copies_of(lane)] >= copies) return;
  auto known = std::make_shared<Clock>(*known_[lane]);
  known->set(copies_of(lane), copies);
  known_[lane] = std::move(known);
}
void Races::commit_copies(uint32_t lane) { groups_[lane].push_back(copies_[lane]); }
void Races::wait_for_copies(uint32_t lane, uint32_t but_groups) {
  std::vector<uint32_t>& groups = groups_[lane];
  if (groups.size() <= but_groups) return;
  const auto done = static_cast<std::ptrdiff_t>(groups.size() - but_groups);
  know_copies(lane, groups[static_cast<size_t>(done - 1)]);
  groups.erase(groups.begin(), groups.begin() + done);
}
void Races::wait_for_all_copies(uint32_t lane) {
  groups_[lane].clear();
  know_copies(lane, copies_[lane]);
}

void Races::release(uint32_t lane, Clock& to, bool with_copies) {
  to.join(*known_[lane]);
  to.set(lane, std::max(to[lane], epochs_[lane]));
  if (with_copies) to.set(copies_of(lane), std::max(to[copies_of(lane)], copies_[lane]));
  ++epochs_[lane];
}

void Races::join(uint32_t lane, const SharedClock& other) {
  if (known_[lane] == other || other == nullptr) return;
  if (joined_from_ != known_[lane] || joined_with_ != other) {
    auto joined = std::make_shared<Clock>(*known_[lane]);
    joined->join(*other);
    joined_from_ = known_[lane];
    joined_with_ = other;
    joined_ = std::move(joined);
  }
  known_[lane] = joined_;
}

void Races::meet(uint32_t first_lane, uint32_t lanes) {
  auto all = std::make_shared<Clock>(size_t{lanes_} * 2 + kEngines);
  SharedClock before;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const uint32_t lane = first_lane + static_cast<uint32_t>(std::countr_zero(rest));
    if (known_[lane] != before) all->join(*known_[lane]);
    before = known_[lane];
    all->set(lane, epochs_[lane]++);
  }
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1)
    known_[first_lane + static_cast<uint32_t>(std::countr_zero(rest))] = all;
}

void Races::arrive_at_block_barrier(uint32_t number, uint32_t first_lane, uint32_t lanes) {
  meet(first_lane, lanes);
  const auto lane = first_lane + static_cast<uint32_t>(std::countr_zero(lanes));
  block_barriers_.try_emplace(number, Clock(size_t{lanes_} * 2 + kEngines))
      .first->second.join(*known_[lane]);
}
void Races::end_block_barrier(uint32_t number) {
  const auto found = block_barriers_.find(number);
  if (found == block_barriers_.end()) return;
  open_barriers_[number] = std::make_shared<Clock>(std::move(found->second));
  block_barriers_.erase(found);
}
void Races::leave_block_barrier(uint32_t number, uint32_t first_lane, uint32_t lanes) {
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1)
    join(first_lane + static_cast<uint32_t>(std::countr_zero(rest)), open_barriers_[number]);
}

Races::Mbarrier& Races::mbarrier(uint32_t address) {
  const auto [found, is_new] = mbarriers_.try_emplace(address);
  if (is_new)
    found->second.engine = 2 * lanes_ + static_cast<uint32_t>((mbarriers_.size() - 1) % kEngines);
  if (found->second.arriving == nullptr)
    found->second.arriving = std::make_shared<Clock>(size_t{lanes_} * 2 + kEngines);
  return found->second;
}
void Races::arrive(uint32_t barrier, uint32_t lane, bool with_copies) {
  release(lane, *mbarrier(barrier).arriving, with_copies);
}
void Races::finish_box(uint32_t barrier) {
  Mbarrier& of = mbarrier(barrier);
  of.arriving->set(of.engine, of.boxes);
}
void Races::end_phase(uint32_t barrier) {
  Mbarrier& of = mbarrier(barrier);
  of.passed = std::move(of.arriving);
  of.arriving = nullptr;
}
void Races::pass(uint32_t barrier, uint32_t lane) { join(lane, mbarrier(barrier).passed); }

}  // namespace trek::ptx
