#include "tests/bench/bench.h"

#include <cstdio>

#include <fmt/format.h>

#include "hostlib/engines.h"

namespace trek::bench {

void Recorder::add(measure::Figure figure) {
  fmt::print("{}\n", text(figure));
  std::fflush(stdout);
  report_.figures.push_back(std::move(figure));
}

void Recorder::add(measure::NamedComparison comparison) {
  fmt::print("{}\n", text(comparison));
  std::fflush(stdout);
  report_.comparisons.push_back(std::move(comparison));
}

void Recorder::add_version(const std::string& what, const std::string& version) {
  report_.setting.versions.emplace_back(what, version);
}

void Recorder::add_hardware(const std::string& what, const std::string& description) {
  report_.setting.hardware.emplace_back(what, description);
}

void Recorder::add_note(std::string note) {
  fmt::print("{}\n", note);
  std::fflush(stdout);
  report_.notes.push_back(std::move(note));
}

Status Recorder::save() const {
  if (file_.empty()) return Done{};
  return measure::write_file(file_, to_json(report_));
}

Error to_error(const std::string& doing, const isa::Problems& problems) {
  return {doing, "", problems.empty() ? "" : problems.front().message};
}

Result<Engines> engines_named(const std::vector<std::string>& names, Recorder& recorder) {
  Engines engines;
  for (const std::string& name : names) {
    std::string why;
    std::unique_ptr<Engine> engine = make_engine(name, why);
    if (engine == nullptr) {
      recorder.add_note(fmt::format("the {} engine is left out: {}", name, why));
      continue;
    }
    recorder.add_version(name, engine->description());
    engines.push_back(std::move(engine));
  }
  if (engines.empty()) return Error{"starting an engine", "", "none of those named runs here"};
  return engines;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "trek-bench-XXXXXX").string();
  if (mkdtemp(name.data()) != nullptr) path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace trek::bench
