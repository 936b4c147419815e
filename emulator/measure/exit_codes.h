// Exit codes of programs that measure, as those of trek-run.
#pragma once

namespace trek::measure {

inline constexpr int kDone = 0;
inline constexpr int kWrongUsage = 1;
inline constexpr int kFailed = 3;
inline constexpr int kNotAvailable = 4;
inline constexpr int kNotWritten = 5;

}  // namespace trek::measure
