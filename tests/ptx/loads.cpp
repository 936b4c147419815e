// Loads, stores, atomic operations, addresses of spaces, and copies to shared memory that nobody waits for.
#include "tests/ptx/handlers.h"

namespace trek::ptx {
namespace {

// Instructions that a look at memory of others takes of a turn.
constexpr uint32_t kLook = 40;

// Memory that the computer and other launches read and write at the same time is so by whole elements.
template <Space kSpace, typename T>
T load_element(const std::byte* at) {
  T value;
  if constexpr (kSpace == Space::generic || kSpace == Space::global)
    __atomic_load(reinterpret_cast<const T*>(at), &value, __ATOMIC_ACQUIRE);
  else
    std::memcpy(&value, at, sizeof value);
  return value;
}
template <Space kSpace, typename T>
void store_element(std::byte* at, T value) {
  if constexpr (kSpace == Space::generic || kSpace == Space::global)
    __atomic_store(reinterpret_cast<T*>(at), &value, __ATOMIC_RELEASE);
  else
    std::memcpy(at, &value, sizeof value);
}

// An element of type T in a register of type R, which may be longer.
template <typename R, typename T>
Slot<R> extended(T value) {
  if constexpr (std::is_signed_v<T>)
    return static_cast<Slot<R>>(static_cast<std::make_signed_t<Slot<R>>>(value));
  else
    return value;
}

// ld.T d, [a] and ld.vN.T {d...}, [a], into registers of R's length.
template <Space kSpace, typename T, typename R, bool kLooks>
void load(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint32_t count = i.count;
  const Addresses from = addresses(warp, i, count);
  if (kLooks) warp.spend(kLook);
  Slot<R>* to[4];
  for (uint32_t e = 0; e < count; ++e)
    to[e] = i.operands[e] == kNoOperand ? nullptr : slots<R>(warp, i.operands[e]);
  const uint32_t bytes = static_cast<uint32_t>(sizeof(T)) * count;
  std::byte* at[kLanes];
  const bool is_one_place = warp.memory_of_lanes(kSpace, from, bytes, lanes, at);
  if constexpr (!kLooks && (kSpace == Space::shared || kSpace == Space::generic))
    if (warp.races() != nullptr)
      for_lanes(lanes, [&](uint32_t lane) { warp.note_read(at[lane], bytes, lane); });
  for (uint32_t e = 0; e < count; ++e) {
    Slot<R>* const d = to[e];
    if (d == nullptr) continue;
    const size_t place = e * sizeof(T);
    if (is_one_place) {
      const Slot<R> value =
          extended<R>(load_element<kSpace, T>(at[std::countr_zero(lanes)] + place));
      assign(d, lanes, [=](uint32_t /*lane*/) { return value; });
    } else {
      for_lanes(lanes, [&](uint32_t lane) {
        d[lane] = extended<R>(load_element<kSpace, T>(at[lane] + place));
      });
    }
  }
}

template <Space kSpace, typename T, typename R, bool kLooks>
void store(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint32_t count = i.count;
  const Addresses to = addresses(warp, i, 0);
  const Slot<R>* from[4];
  for (uint32_t e = 0; e < count; ++e) from[e] = slots<R>(warp, i.operands[1 + e]);
  const uint32_t bytes = static_cast<uint32_t>(sizeof(T)) * count;
  std::byte* at[kLanes];
  warp.memory_of_lanes(kSpace, to, bytes, lanes, at);
  if constexpr (!kLooks && (kSpace == Space::shared || kSpace == Space::generic))
    if (warp.races() != nullptr)
      for_lanes(lanes, [&](uint32_t lane) { warp.note_write(at[lane], bytes, lane); });
  for (uint32_t e = 0; e < count; ++e) {
    const Slot<R>* const values = from[e];
    for_lanes(lanes, [&](uint32_t lane) {
      store_element<kSpace>(at[lane] + e * sizeof(T), static_cast<T>(values[lane]));
    });
  }
}

template <Space kSpace, typename T>
void reduce_add(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Addresses to = addresses(warp, i, 0);
  const Slot<T>* values = slots<T>(warp, i.operands[1]);
  for_lanes(lanes, [&](uint32_t lane) {
    auto* at = reinterpret_cast<T*>(warp.memory(kSpace, to[lane], sizeof(T), lane));
    __atomic_fetch_add(at, get<T>(values[lane]), __ATOMIC_ACQ_REL);
  });
}
template <Space kSpace, typename T, bool kSmaller>
void reduce_extreme(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Addresses to = addresses(warp, i, 0);
  const Slot<T>* values = slots<T>(warp, i.operands[1]);
  for_lanes(lanes, [&](uint32_t lane) {
    auto* at = reinterpret_cast<T*>(warp.memory(kSpace, to[lane], sizeof(T), lane));
    const T value = get<T>(values[lane]);
    T seen = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    while (
        (kSmaller ? value < seen : value > seen) &&
        !__atomic_compare_exchange_n(at, &seen, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
  });
}
template <Space kSpace, typename T>
void fetch_add(Warp& warp, const Instruction& i, uint32_t lanes) {
  Slot<T>* d = slots<T>(warp, i.operands[0]);
  const Addresses to = addresses(warp, i, 1);
  const Slot<T>* values = slots<T>(warp, i.operands[2]);
  for_lanes(lanes, [&](uint32_t lane) {
    auto* at = reinterpret_cast<T*>(warp.memory(kSpace, to[lane], sizeof(T), lane));
    d[lane] = put<T>(__atomic_fetch_add(at, get<T>(values[lane]), __ATOMIC_ACQ_REL));
  });
}
template <Space kSpace, typename T>
void compare_and_swap(Warp& warp, const Instruction& i, uint32_t lanes) {
  warp.spend(kLook);
  Slot<T>* d = slots<T>(warp, i.operands[0]);
  const Addresses to = addresses(warp, i, 1);
  const Slot<T>* expected = slots<T>(warp, i.operands[2]);
  const Slot<T>* wanted = slots<T>(warp, i.operands[3]);
  for_lanes(lanes, [&](uint32_t lane) {
    auto* at = reinterpret_cast<T*>(warp.memory(kSpace, to[lane], sizeof(T), lane));
    T seen = get<T>(expected[lane]);
    __atomic_compare_exchange_n(at, &seen, get<T>(wanted[lane]), false, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
    d[lane] = put<T>(seen);
  });
}

// From an address of a space to a generic one, and back.
template <uint64_t kWindow>
void to_generic(Warp& warp, const Instruction& i, uint32_t lanes) {
  map1<uint64_t, uint64_t>(warp, i, lanes, [](uint64_t at) { return at | kWindow << 32; });
}
template <uint64_t kWindow>
void from_generic(Warp& warp, const Instruction& i, uint32_t lanes) {
  uint64_t* d = warp.longs(i.operands[0]);
  const uint64_t* a = warp.longs(i.operands[1]);
  for_lanes(lanes, [&](uint32_t lane) {
    // Of null nothing is asked: it may stand for no place at all.
    if (a[lane] != 0 && a[lane] >> 32 != kWindow)
      warp.fail(KernelError::address, "a generic address that is of another space",
                static_cast<int>(lane));
    d[lane] = a[lane] & 0xFFFFFFFF;
  });
}
void same_address(Warp& warp, const Instruction& i, uint32_t lanes) {
  map1<uint64_t, uint64_t>(warp, i, lanes, [](uint64_t at) { return at; });
}

void nothing(Warp& /*warp*/, const Instruction& /*i*/, uint32_t /*lanes*/) {}

// cp.async to, from, bytes{, bytes that are read}
void begin_copy(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Addresses to = addresses(warp, i, 0);
  const Addresses from = addresses(warp, i, 1);
  const uint32_t* bytes = warp.words(i.operands[2]);
  const uint32_t* read = i.count > 3 ? warp.words(i.operands[3]) : bytes;
  for_lanes(lanes, [&](uint32_t lane) {
    if (read[lane] > bytes[lane]) warp.fail("a copy that reads more than it writes");
    warp.begin_copy(lane, {static_cast<uint32_t>(to[lane]), from[lane], read[lane], bytes[lane]});
  });
}
void commit_copies(Warp& warp, const Instruction& /*i*/, uint32_t lanes) {
  warp.commit_copies(lanes);
}
void wait_for_groups(Warp& warp, const Instruction& i, uint32_t lanes) {
  warp.finish_copies(lanes, warp.words(i.operands[0])[0]);
}
void wait_for_all(Warp& warp, const Instruction& /*i*/, uint32_t lanes) {
  warp.finish_all_copies(lanes);
}

template <Space kSpace>
void add_space(Handlers& h, const std::string& space) {
  const auto add = [&]<typename T>(T, std::initializer_list<const char*> types) {
    for (const std::string type : types) {
      for (const std::string vector : {"", ".v2", ".v4"}) {
        const std::string of = space + vector + "." + type;
        using Short = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
        h["ld" + of] = load<kSpace, T, Short, false>;
        h["ld" + of + kInLongs] = load<kSpace, T, uint64_t, false>;
        if (kSpace != Space::parameter && kSpace != Space::local) {
          h["ld.look" + of] = load<kSpace, T, Short, true>;
          h["ld.look" + of + kInLongs] = load<kSpace, T, uint64_t, true>;
        }
        h["st" + of] = store<kSpace, T, Short, false>;
        h["st" + of + kInLongs] = store<kSpace, T, uint64_t, false>;
        if (kSpace == Space::shared) h["st.look" + of] = store<kSpace, T, Short, true>;
      }
    }
  };
  add(uint8_t{}, {"u8", "b8"});
  add(int8_t{}, {"s8"});
  add(uint16_t{}, {"u16", "b16", "f16"});
  add(int16_t{}, {"s16"});
  add(uint32_t{}, {"u32", "b32", "f32"});
  add(int32_t{}, {"s32"});
  add(uint64_t{}, {"u64", "b64", "s64", "f64"});
}
template <Space kSpace>
void add_atomics(Handlers& h, const std::string& space) {
  h["red" + space + ".add.u32"] = reduce_add<kSpace, uint32_t>;
  h["red" + space + ".add.u64"] = reduce_add<kSpace, uint64_t>;
  h["red" + space + ".min.s64"] = reduce_extreme<kSpace, int64_t, true>;
  h["red" + space + ".max.s64"] = reduce_extreme<kSpace, int64_t, false>;
  h["atom" + space + ".add.u32"] = fetch_add<kSpace, uint32_t>;
  h["atom" + space + ".add.u64"] = fetch_add<kSpace, uint64_t>;
  h["atom" + space + ".cas.b32"] = compare_and_swap<kSpace, uint32_t>;
  h["atom" + space + ".cas.b64"] = compare_and_swap<kSpace, uint64_t>;
}

}  // namespace

void add_memory(Handlers& h) {
  add_space<Space::generic>(h, "");
  add_space<Space::global>(h, ".global");
  add_space<Space::global>(h, ".const");
  add_space<Space::shared>(h, ".shared");
  add_space<Space::local>(h, ".local");
  add_space<Space::parameter>(h, ".param");
  add_atomics<Space::generic>(h, "");
  add_atomics<Space::global>(h, ".global");
  add_atomics<Space::shared>(h, ".shared");
  h["cvta.shared.u64"] = to_generic<kSharedWindow>;
  h["cvta.local.u64"] = to_generic<kLocalWindow>;
  h["cvta.to.shared.u64"] = from_generic<kSharedWindow>;
  h["cvta.to.local.u64"] = from_generic<kLocalWindow>;
  for (const char* space : {"global", "const"}) {
    h[std::string("cvta.") + space + ".u64"] = same_address;
    h[std::string("cvta.to.") + space + ".u64"] = same_address;
  }
  h["prefetch.global.L2"] = nothing;
  h["prefetch.global.L1"] = nothing;
  h["cp.async.cg.shared.global"] = begin_copy;
  h["cp.async.ca.shared.global"] = begin_copy;
  h["cp.async.commit_group"] = commit_copies;
  h["cp.async.wait_group"] = wait_for_groups;
  h["cp.async.wait_all"] = wait_for_all;
}

}  // namespace trek::ptx
