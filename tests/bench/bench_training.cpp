// How fast the sample that `make demo` shows learns: images per second of one epoch, with shuffling,
// loading and the evaluation on the test images in the time.
#include <fmt/format.h>

#include "emulator/measure/cpu_clock.h"
#include "hostlib/session.h"
#include "tests/bench/bench.h"

namespace trek::bench {
namespace {

const char* const kSample = "samples/03_fashion_mnist.trek";
constexpr int kBatch = 125;  // of the sample

Result<std::unique_ptr<Session>> open_session(Engine& engine, const ModuleFile& file, int steps,
                                              int threads) {
  Bindings bindings(file.module);
  isa::Problems problems = bindings.set("epochs", "1");
  if (problems.empty()) problems = bindings.set("steps", std::to_string(steps));
  if (!problems.empty()) return to_error("setting the sample's parameters", problems);
  LoadOptions load;
  load.threads = threads;
  isa::Result<Session> session = Session::open(file, engine, bindings, load);
  if (!session) return to_error(fmt::format("loading {}", kSample), session.problems());
  return std::make_unique<Session>(session.take());
}

measure::Contender epoch(const std::string& name, Session& session) {
  return {name, [&session]() -> Result<double> {
            RunResult result;
            const double seconds = measure::cpu_seconds([&] { result = session.run({}); });
            if (result.outcome != Outcome::done) return Error{"training", "", result.detail};
            return seconds;
          }};
}

}  // namespace

Status bench_training(const Options& options, Recorder& recorder) {
  const Result<std::unique_ptr<Engine>> engine = engine_named("ref");
  if (!engine) return engine.error();
  SourceManager sources;
  const isa::Result<ModuleFile> file = load_module_file(kSample, {}, sources);
  if (!file) return to_error(fmt::format("reading {}", kSample), file.problems());
  const int steps = options.quick ? 20 : 480;
  const Result<std::unique_ptr<Session>> one = open_session(**engine, *file, steps, 1);
  if (!one) return one.error();
  const Result<std::unique_ptr<Session>> two = open_session(**engine, *file, steps, 2);
  if (!two) return two.error();
  const Result<measure::Comparison> result =
      measure::compare(epoch("2 threads", **two), epoch("1 thread", **one), options.rounds);
  if (!result) return result.error();
  const double images = static_cast<double>(steps) * kBatch;
  recorder.add(
      measure::Figure{"MLP training, 1 thread", "images/s", result->rival.as_rate(images)});
  recorder.add(
      measure::Figure{"MLP training, 2 threads", "images/s", result->ours.as_rate(images)});
  recorder.add({"MLP training, 2 threads against 1", "2 threads", "1 thread", *result, 0});
  return Done{};
}

}  // namespace trek::bench
