// Sorting as other families use it.
#pragma once

#include <cstdint>

namespace trek::ref {

// Sorts n items of a 32-bit key (high) and an index (low) by key; items of one key keep their order.
// `spare` is room for n more.
void sort_items(uint64_t* items, uint64_t* spare, int64_t n);

}  // namespace trek::ref
