// One run of a program for trek-run: bind what the command line gives, run, and deliver what it asked for.
#pragma once

#include <string_view>

#include "assembler/source.h"
#include "emulator/engine.h"
#include "hostlib/module_file.h"
#include "hostlib/run/options.h"

namespace trek::run {

// The exit code.
int run_program(const Options& options, const ModuleFile& file, Engine& engine,
                const SourceManager& sources);

// The tests in the file; the exit code is that of a trap where one fails.
int run_tests(const Options& options, const ModuleFile& file, Engine& engine);

// Prints problems of what the user gave, as the assembler does; `file` stands where one has no line.
void print_problems(const isa::Problems& problems, const SourceManager& sources,
                    std::string_view file = "trek-run");

LoadOptions load_options(const Options& options);

}  // namespace trek::run
