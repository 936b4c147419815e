#include "hostlib/run/output.h"

#include <cstdio>

#include "hostlib/run/options.h"

namespace trek::run {

void print_out(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_error(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

bool out_failed() { return std::fflush(stdout) != 0 || std::ferror(stdout) != 0; }

int printed() {
  if (!out_failed()) return kExitDone;
  print_error("trek-run: what was printed could not be written\n");
  return kExitNoOutput;
}

}  // namespace trek::run
