// How fast the sample that `make demo` shows learns: images per second of one epoch, with shuffling,
// loading and the evaluation on the test images in the time.
#include <fmt/format.h>

#include "emulator/measure/cpu_clock.h"
#include "hostlib/session.h"
#include "tests/bench/bench.h"
#include "tests/bench/pytorch.h"

namespace trek::bench {
namespace {

const char* const kSample = "samples/03_fashion_mnist.trek";
constexpr int kBatch = 100;  // of the sample
constexpr int kSteps = 600;  // of its epoch

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

// The same network in PyTorch, with the weights of the session's first run.
Status prepare(PyTorch& pytorch, Session& session) {
  const TemporaryFolder folder;
  const std::string before = folder.file("before.safetensors");
  if (const isa::Problems problems = session.save_state(before); !problems.empty())
    return to_error("saving the sample's state", problems);
  const Result<nlohmann::json> answer = pytorch.ask({{"do", "prepare"},
                                                     {"network", "fashion_mnist"},
                                                     {"form", "eager"},
                                                     {"tf32", false},
                                                     {"before", before},
                                                     {"seconds", 300}},
                                                    360);
  if (!answer) return answer.error();
  return Done{};
}

}  // namespace

Status bench_training(const Options& options, Recorder& recorder) {
  const Result<Engines> engines = engines_named(kCpuEngines, recorder);
  if (!engines) return engines.error();
  SourceManager sources;
  const isa::Result<ModuleFile> file = load_module_file(kSample, {}, sources);
  if (!file) return to_error(fmt::format("reading {}", kSample), file.problems());
  const int steps = options.quick ? 20 : kSteps;
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<measure::Contender> contenders;
  for (const std::unique_ptr<Engine>& engine : *engines)
    for (const int threads : {2, 1}) {
      Result<std::unique_ptr<Session>> session = open_session(*engine, *file, steps, threads);
      if (!session) return session.error();
      sessions.push_back(session.take());
      contenders.push_back(
          epoch(fmt::format("{}, {} thread{}", engine->name(), threads, threads == 1 ? "" : "s"),
                *sessions.back()));
    }
  const size_t ours = contenders.size();
  PyTorch pytorch(options.python, options.script);
  if (const Status ready =
          options.quick ? Error{"", "", "--quick"} : prepare(pytorch, *sessions[0]);
      ready)
    contenders.push_back(
        pytorch.contender("PyTorch eager, 2 threads", "fashion_mnist", "eager", false));
  else
    recorder.add_note("PyTorch is left out: " + ready.error().text());
  // Each twice: the second series is a rival's own band.
  const size_t count = contenders.size();
  for (size_t i = 0; i < count; ++i) contenders.push_back(contenders[i]);
  const auto all = measure::measure_interleaved(contenders, options.rounds);
  if (!all) return all.error();
  const double images = static_cast<double>(steps) * kBatch;
  for (size_t i = 0; i < count; ++i)
    recorder.add(measure::Figure{"MLP training, " + (*all)[i].name, "images/s",
                                 measure::estimate((*all)[i].seconds).as_rate(images)});
  for (size_t i = 0; i < ours; ++i)
    for (size_t rival = i + 1; rival < count; ++rival)
      recorder.add({"MLP training", (*all)[i].name, (*all)[rival].name,
                    measure::compare((*all)[i].seconds, (*all)[rival].seconds,
                                     (*all)[count + rival].seconds),
                    i == 0 ? 1.0 : 0.0});
  return Done{};
}

}  // namespace trek::bench
