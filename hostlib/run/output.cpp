#include "hostlib/run/output.h"

#include <cstdio>

namespace trek::run {

void print_out(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_error(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

bool out_failed() { return std::fflush(stdout) != 0 || std::ferror(stdout) != 0; }

}  // namespace trek::run
