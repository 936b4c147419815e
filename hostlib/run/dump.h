// --dump: what a program is linked to, for people to read.
#pragma once

#include "hostlib/module_file.h"
#include "hostlib/run/options.h"

namespace trek::run {

// Prints what options.dump names, for options.device; the exit code.
int dump(const Options& options, const ModuleFile& file, const SourceManager& sources);

}  // namespace trek::run
