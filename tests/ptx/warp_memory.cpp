// The memory that lanes read and write: where it is, and whether they may.
#include <algorithm>

#include "tests/ptx/machine.h"

namespace trek::ptx {
namespace {

// Host memory by its address.
std::byte* pointer(uint64_t address) {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

std::byte* Warp::find_memory(Space space, uint64_t address, uint32_t bytes, uint32_t lane) {
  if ((address & (bytes - 1)) != 0)
    fail(KernelError::address,
         "address " + std::to_string(address) + " is no multiple of the " + std::to_string(bytes) +
             " bytes at it",
         static_cast<int>(lane));
  if (space == Space::generic) {
    const uint64_t window = address >> 32;
    if (window == kSharedWindow)
      space = Space::shared;
    else if (window == kLocalWindow)
      space = Space::local;
    if (space != Space::generic) address &= 0xFFFFFFFF;
  }
  if (space == Space::shared) {
    auto& shared = block_.shared();
    if (!is_in_shared(address, bytes))
      fail(KernelError::address,
           std::to_string(bytes) + " bytes at " + std::to_string(address) + " of " +
               std::to_string(shared.size()) + " of shared memory",
           static_cast<int>(lane));
    return shared.data() + address;
  }
  if (space == Space::local) {
    if (address >= kLocalBytes || bytes > kLocalBytes - address)
      fail(KernelError::address, "local memory behind its end", static_cast<int>(lane));
    return local_part(address) + own_place(address % kLocalPart, lane);
  }
  if (is_known(address, bytes)) return pointer(address);
  const Range found = block_.grid().device_memory().find(address);
  if (!found.holds(address, bytes))
    fail(KernelError::address,
         std::to_string(bytes) + " bytes at " + std::to_string(address) +
             (found.end == 0 ? ", which is nobody's"
                             : ", behind the end of an allocation of " +
                                   std::to_string(found.end - found.first)),
         static_cast<int>(lane));
  std::shift_right(known_.begin(), known_.end(), 1);
  known_[0] = found;
  return pointer(address);
}

// Whether memory was touched lately; then it is the first of what was.
bool Warp::is_known(uint64_t address, uint64_t bytes) {
  for (auto known = known_.begin(); known != known_.end(); ++known) {
    if (!known->holds(address, bytes)) continue;
    std::rotate(known_.begin(), known, known + 1);
    return true;
  }
  return false;
}

// The part of local memory that an address is in, of all lanes.
std::byte* Warp::local_part(uint64_t address) {
  std::unique_ptr<std::byte[]>& part = local_[address / kLocalPart];
  if (part == nullptr) {
    constexpr size_t kBytes = size_t{kLocalPart} * kLanes;
    part = std::make_unique_for_overwrite<std::byte[]>(kBytes);
    std::memset(part.get(), 0xFF, kBytes);
  }
  return part.get();
}

std::byte* Warp::find_piece(Space space, uint64_t first, uint64_t last, uint32_t bytes) {
  if (space == Space::generic && first >> 32 == kSharedWindow && last >> 32 == kSharedWindow) {
    space = Space::shared;
    first &= 0xFFFFFFFF;
    last &= 0xFFFFFFFF;
  }
  if (space == Space::shared)
    return is_in_shared(first, 1) && is_in_shared(last, bytes) ? shared_ + first : nullptr;
  return is_known(first, last - first + bytes) ? pointer(first) : nullptr;
}

bool Warp::memory_of_lanes(Space space, const Addresses& addresses, uint32_t bytes, uint32_t lanes,
                           std::byte* (&at)[kLanes]) {
  const auto some = static_cast<uint32_t>(std::countr_zero(lanes));
  const uint64_t any = addresses[some];
  const auto plus = static_cast<uint64_t>(addresses.plus);
  uint64_t own[kLanes];
  if (addresses.words != nullptr)
    for (uint32_t lane = 0; lane < kLanes; ++lane) own[lane] = addresses.words[lane] + plus;
  else
    for (uint32_t lane = 0; lane < kLanes; ++lane) own[lane] = addresses.longs[lane] + plus;
  if (lanes != kAllLanes)  // others have the address of one that takes part
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      own[lane] = (lanes >> lane & 1) != 0 ? own[lane] : any;
  uint64_t differs = 0;
  for (const uint64_t address : own) differs |= address ^ any;
  const bool is_aligned = ((any | differs) & (bytes - 1)) == 0;
  const bool is_local =
      space == Space::local || (space == Space::generic && any >> 32 == kLocalWindow);
  if (is_aligned && space == Space::parameter) {
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      at[lane] = parameters_now_ + own_place(own[lane], lane);
    return false;
  }
  if (is_aligned && is_local && differs == 0) {
    std::byte* const first = find_memory(space, any, bytes, some) - some * kOwnPiece;
    for (uint32_t lane = 0; lane < kLanes; ++lane) at[lane] = first + lane * kOwnPiece;
    return false;
  }
  if (is_aligned && !is_local) {
    uint64_t first = any;
    uint64_t last = any;
    if (differs != 0)
      for (const uint64_t address : own) {
        first = std::min(first, address);
        last = std::max(last, address);
      }
    if (std::byte* const piece = find_piece(space, first, last, bytes)) {
      for (uint32_t lane = 0; lane < kLanes; ++lane) at[lane] = piece + (own[lane] - first);
      return differs == 0;
    }
  }
  for_lanes(lanes, [&](uint32_t lane) { at[lane] = memory(space, own[lane], bytes, lane); });
  return false;
}

}  // namespace trek::ptx
