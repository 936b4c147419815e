// Everything about a run as one JSON file, for scripts: command, versions, engine, what was emitted,
// digests, counters, profile, and how it ended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/engine.h"
#include "hostlib/run/options.h"
#include "hostlib/session.h"
#include "hostlib/tuning.h"

namespace trek::run {

// The values that a program handed out, kept for the report up to a bounded number.
class EmittedHistory {
 public:
  static constexpr size_t kMaxValues = 1'000'000;

  struct Entry {
    std::string name;
    isa::Type type;
    std::vector<std::byte> bytes;  // of a small value
    std::optional<Digest> digest;  // of a larger one, in place of its bytes
  };
  void add(const Emitted& value);
  const std::vector<Entry>& entries() const { return entries_; }
  uint64_t left_out() const { return left_out_; }

 private:
  std::vector<Entry> entries_;
  uint64_t left_out_ = 0;
};

// `tuning` is what --tune measured, if it did.
isa::Problems write_json_report(const std::filesystem::path& path, const Options& options,
                                const Engine& engine, Session& session, const RunResult& result,
                                const EmittedHistory& emitted, const std::optional<Tuning>& tuning);

}  // namespace trek::run
