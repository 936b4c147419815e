// Text to stdout and stderr that cannot throw or kill the run: a full disk or a closed pipe is
// remembered, the run goes on to save what it was asked to save, and the exit code tells.
#pragma once

#include <string_view>

namespace trek::run {

void print_out(std::string_view text);
void print_error(std::string_view text);
// Whether anything that was printed to stdout did not arrive.
bool out_failed();
// The exit code of what has only printed: done, or no output, and then it says so.
int printed();

}  // namespace trek::run
