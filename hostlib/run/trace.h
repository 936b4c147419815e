// A Chrome trace of a run (the JSON that Perfetto and chrome://tracing open): one slice per executed
// instruction, and a counter track per emitted scalar.
//
// Events are streamed to a new file, which takes the target's place when the trace is closed, so memory
// stays bounded; after kMaxEvents the rest is counted and left out, and the trace says so.
// Format: "Trace Event Format", complete events (ph X) and counters (ph C), times in microseconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "assembler/data/new_file.h"
#include "emulator/engine.h"
#include "isa/module.h"
#include "isa/result.h"

namespace trek::run {

class TraceWriter {
 public:
  static constexpr uint64_t kMaxEvents = 2'000'000;  // about 300 MB, what Perfetto opens with ease

  explicit TraceWriter(const isa::Module& module) : module_(module) {}
  ~TraceWriter() = default;
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  isa::Problems open(const std::filesystem::path& path);
  // The run begins: what engines without times of instructions emit has its time from now on.
  void begin() { began_ = std::chrono::steady_clock::now(); }
  // As RunOptions::trace.
  void executed(Place place, uint64_t begin, uint64_t end);
  void emitted(const Emitted& value);
  bool has_instructions() const { return !heads_.empty() || left_out_ > 0; }
  uint64_t left_out() const { return left_out_; }
  // Ends the trace and puts the file in its place.
  isa::Problems close();

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  bool has_room();
  void write(const std::string& text);
  const std::string& head(Place place);

  const isa::Module& module_;
  std::filesystem::path target_;
  std::optional<NewFile> written_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::unordered_map<uint64_t, std::string> heads_;  // the constant part of a place's events
  uint64_t events_ = 0;
  uint64_t left_out_ = 0;
  uint64_t now_ = 0;  // end of the last instruction
  std::chrono::steady_clock::time_point began_;
  int error_ = 0;  // the first errno of a failed write
};

}  // namespace trek::run
