// Code for a GPU that was made once: cubins, and PTX of which the driver makes one as it loads it. Files of this user,
// by their keys, in $TREK_CUBIN_CACHE, else in trek/cubins of $XDG_CACHE_HOME or ~/.cache; an empty $TREK_CUBIN_CACHE
// means nowhere. Builds keep device code there too (kept.sh).
#pragma once

#include <optional>
#include <string>

namespace trek::driver {

// Nothing where none is kept as it was made.
std::optional<std::string> find_cubin(const std::string& key);
// What cannot be written is not kept. Files of the last thirty days stay.
void keep_cubin(const std::string& key, const std::string& cubin);

}  // namespace trek::driver
