// Quantities as a person reads them: three digits and a unit.
#pragma once

#include <cstdint>
#include <string>

namespace trek::run {

std::string time_text(uint64_t nanoseconds);  // "1.23 s", "45.6 ms", "789 ns"
std::string rate_text(uint64_t amount, uint64_t nanoseconds,
                      const char* unit);                  // "12.3 GFLOP/s", or "-"
std::string bytes_text(uint64_t bytes);                   // "1.5 GiB"
std::string count_text(uint64_t count);                   // "1 234 567"
std::string percent_text(uint64_t part, uint64_t whole);  // "12.3 %"

}  // namespace trek::run
