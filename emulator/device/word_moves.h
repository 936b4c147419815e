// Quick moves whose operand or result is in words (words.h): a task of them as it is executed in many trips, from what is
// worked out once. Device only.
#pragma once

#ifdef __CUDA__

#include "emulator/device/quick_move.h"
#include "emulator/device/words.h"

namespace trek::device {

class WordMove {
 public:
  // Of the elements [first, first + count) of a node; a thread has at most quick_detail::kMovesAtOnce of them. On a loop's
  // first trip what is of the trip before is not in words yet. Places are as they were kept for the trip before, or worked
  // out and kept: of kPlacesKept tasks, in memory of the thread's own that other moves leave alone.
  struct Kept {
    uint32_t number;  // below kPlacesKept
    bool is_there;
  };
  TREK_TILE_MEMBER void begin(const Block& block, const Node& node, int64_t first, uint32_t count,
                              std::byte* arena, bool is_first_trip, Kept kept) {
    const Areas& areas = node.areas();
    const Operand& from = node.operand(node.move.quick_from);
    const Operand& to = node.operand(node.move.quick_to);
    before_ = areas.trips_before;
    from_trip_ = kWord * static_cast<uint32_t>(node.operand(0).elements);
    to_trip_ = kWord * static_cast<uint32_t>(node.result(0).elements);
    asks_ = areas.left != Areas::kNone && !(before_ != 0 && is_first_trip);
    gives_ = areas.result != Areas::kNone;
    from_ = arena + (asks_ ? areas.left : from.offset);
    const int64_t at = first + block.thread;
    to_ = arena + to.offset + 4 * at;
    to_words_ = arena + areas.result;
    auto* places = reinterpret_cast<Places*>(block.shared + shared_at::kSlots) +
                   kPlacesKept * block.thread + kept.number;
    if (kept.is_there) {
      places_ = *places;
    } else {
      find_places(node, areas, from.map, at, block.threads);
      *places = places_;
    }
    mine_ = block.thread < count ? (count - block.thread + block.threads - 1) / block.threads : 0;
  }

  // All of it in the trip of a number, by all lanes of a warp. They ask together, for what has not come: lanes that went on
  // alone would do so from trip to trip. `leaves()` says whether the block must leave; then elements may be anything.
  template <class Leaves>
  TREK_TILE_MEMBER void go(uint32_t trip, Leaves leaves) const {
    const uint32_t from_tag = trip - before_;
    const std::byte* from = from_ + (asks_ ? from_tag % kWordTrips * from_trip_ : 0);
    std::byte* words = to_words_ + trip % kWordTrips * to_trip_;
    uint64_t word[quick_detail::kMovesAtOnce];
    each([&](uint32_t i) TREK_TILE_LAMBDA {
      word[i] = asks_ ? word_of(from_tag - 1, 0)
                      : word_of(from_tag, read<uint32_t>(from, places_.from[i]));
    });
    TREK_ROLLED
    for (uint32_t spins = 1; asks_; ++spins) {
      bool waits = false;
      each([&](uint32_t i) TREK_TILE_LAMBDA {
        if (tag_of(word[i]) != from_tag) word[i] = ask_once(from + places_.from[i]);
      });
      each([&](uint32_t i) TREK_TILE_LAMBDA { waits = waits || tag_of(word[i]) != from_tag; });
      if (!__nvvm_vote_any_sync(0xFFFFFFFF, waits)) break;
      if (spins % kPatience == 0 && __nvvm_vote_any_sync(0xFFFFFFFF, leaves())) break;
    }
    each([&](uint32_t i) TREK_TILE_LAMBDA {
      const auto value = static_cast<uint32_t>(word[i]);
      if (gives_) give_word(words + places_.to[i], trip, value);
      write(to_, int64_t{i} * block_threads(), value);
    });
  }

 private:
  struct alignas(16) Places {
    uint32_t from[quick_detail::kMovesAtOnce];  // where elements are: bytes of words, or elements
    uint32_t to[quick_detail::kMovesAtOnce];    // where their words go, in bytes
  };
  static_assert(kPlacesKept * sizeof(Places) * kMostRowThreads <= kSlotBytes);
  TREK_TILE_MEMBER void find_places(const Node& node, const Areas& areas, Map map, int64_t at,
                                    uint32_t threads) {
    int64_t place[quick_detail::kMovesAtOnce];
    quick_detail::places_quick(node, map, at, threads, place);
    TREK_UNROLLED
    for (uint32_t i = 0; i < quick_detail::kMovesAtOnce; ++i) {
      const auto element = static_cast<uint32_t>(at) + i * threads;
      const auto from = static_cast<uint32_t>(place[i]);
      places_.from[i] =
          asks_ ? kWord * place_in_patches(from + areas.left_begin, areas.left_line) : from;
      places_.to[i] = kWord * place_in_patches(element, areas.result_line);
    }
  }

  template <class Act>
  TREK_TILE_MEMBER void each(Act act) const {
    TREK_UNROLLED
    for (uint32_t i = 0; i < quick_detail::kMovesAtOnce; ++i)
      if (i < mine_) act(i);
  }

  const std::byte* from_;  // words, or elements as they lie
  std::byte* to_;          // where a thread's first element goes
  std::byte* to_words_;
  Places places_;
  uint32_t mine_;       // how many elements a thread has
  uint32_t from_trip_;  // bytes, from a trip's words to the next one's
  uint32_t to_trip_;
  uint32_t before_;
  bool asks_;
  bool gives_;
};

}  // namespace trek::device

#endif  // __CUDA__
