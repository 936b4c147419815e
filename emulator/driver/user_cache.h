// Where this user keeps what Trek made once: `trek` in $XDG_CACHE_HOME or ~/.cache.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace trek::driver {

// Empty where the environment names neither.
inline std::filesystem::path user_cache() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return std::filesystem::path(cache) / "trek";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::filesystem::path(home) / ".cache" / "trek";
  return {};
}

}  // namespace trek::driver
