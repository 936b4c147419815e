// Networks as programs, beside PyTorch with the same weights: in a CUDA graph, compiled, and eager.
#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "emulator/measure/cpu_clock.h"
#include "tests/bench/gpu_bench.h"

namespace trek::bench {
namespace {

using nlohmann::json;

// Native time ÷ ours that is asked for of an engine; nothing of those without.
struct Asked {
  std::string engine;
  NumericsMode numerics;
  double ratio;
};

// A way in which PyTorch runs a network. Where it is not the native best, nothing is asked for.
struct Form {
  std::string key;  // in requests
  std::string name;
  bool asked = true;
};
const Form kGraph = {"graph", "PyTorch in a CUDA graph"};
const Form kCompile = {"compile", "torch.compile in a CUDA graph"};
const Form kAutotune = {"autotune", "torch.compile max-autotune in a CUDA graph"};
const Form kEager = {"eager", "PyTorch eager", false};

// A form that is measured: beside a network of f32 under fast numerics with TF32, which ours may take, too.
struct Rival {
  Form form;
  bool tf32 = false;
  std::string name() const { return tf32 ? form.name + ", TF32" : form.name; }
};

struct Network {
  std::string program;
  std::string title;
  int check_trips;  // of the run whose result is compared
  Defines small;    // constants under `quick`
  Defines full;     // and else
  std::vector<NumericsMode> numerics;
  std::vector<Asked> asked;
  std::vector<Form> forms;
  bool is_f32 = true;
};

// Whether a rival of these numerics may use TF32.
bool may_use_tf32(const Network& network, NumericsMode numerics) {
  return network.is_f32 && numerics == NumericsMode::fast;
}

double asked_of(const Network& network, const Side& side) {
  for (const Asked& asked : network.asked)
    if (asked.engine == side.engine->name() && asked.numerics == side.numerics) return asked.ratio;
  return 0;
}

// The program's first run against PyTorch's in f64, from the same state. Gives the seconds of the run.
Result<double> check(GpuBench& bench, const Network& network, Side& side, const std::string& before,
                     const std::string& after) {
  Status status = side.program->save_state(before);
  double seconds = 0;
  if (status)
    seconds = measure::cpu_seconds([&] { status = side.program->run(network.check_trips); });
  if (status) status = side.program->save_state(after);
  if (!status) return status.error();
  if (bench.natives.pytorch == nullptr) return seconds;
  const Result<json> answer = bench.natives.pytorch->ask({{"do", "check"},
                                                          {"network", network.program},
                                                          {"before", before},
                                                          {"after", after},
                                                          {"trips", network.check_trips},
                                                          {"numerics", name(side.numerics)}},
                                                         120);
  if (!answer) return answer.error();
  const double error = answer->value("error", 1e300);
  const double tolerance = answer->value("tolerance", 0.0);
  const std::string what = answer->value("what", "");
  if (!(error <= tolerance))
    return measure::wrong(fmt::format("{}, {}", network.title, side.name),
                          fmt::format("{} are {:.2g} from PyTorch's in f64, allowed is {:.2g}",
                                      what, error, tolerance));
  fmt::print("{}, {}: {} are {:.1e} from PyTorch's in f64\n", network.title, side.name, what,
             error);
  return seconds;
}

// A rival that PyTorch has ready, in the process that is there now.
Status prepare(GpuBench& bench, const Network& network, const std::string& before,
               const Rival& rival) {
  const int seconds = bench.options.form_seconds;
  const Result<json> answer = bench.natives.pytorch->ask({{"do", "prepare"},
                                                          {"network", network.program},
                                                          {"form", rival.form.key},
                                                          {"tf32", rival.tf32},
                                                          {"before", before},
                                                          {"seconds", seconds}},
                                                         seconds + 60);
  if (!answer) return answer.error();
  fmt::print("{}, {}: ready after {:.0f} s\n", network.title, rival.name(),
             answer->value("seconds", 0.0));
  std::fflush(stdout);
  return Done{};
}

// The forms that are wanted, once for all numerics that allow the same.
std::vector<Rival> wanted_rivals(const GpuBench& bench, const Network& network) {
  const std::vector<std::string>& wanted = bench.options.forms;
  std::vector<Rival> rivals;
  for (const bool tf32 : {false, true}) {
    const auto allows = [&](NumericsMode numerics) {
      return may_use_tf32(network, numerics) == tf32;
    };
    if (std::none_of(network.numerics.begin(), network.numerics.end(), allows)) continue;
    for (const Form& form : network.forms)
      if (std::find(wanted.begin(), wanted.end(), form.key) != wanted.end())
        rivals.push_back({form, tf32});
  }
  return rivals;
}

// Those that PyTorch has ready; those that it has not are noted. A form may take the process down with it: then those
// before are made ready again.
Result<std::vector<Rival>> prepare_rivals(GpuBench& bench, const Network& network,
                                          const std::string& before) {
  std::vector<Rival> ready;
  if (bench.natives.pytorch == nullptr) return ready;
  for (const Rival& rival : wanted_rivals(bench, network)) {
    const Status made = prepare(bench, network, before, rival);
    if (made) {
      ready.push_back(rival);
      continue;
    }
    bench.recorder.add_note(
        fmt::format("{}: {} is left out: {}", network.title, rival.name(), made.error().text()));
    const int generation = bench.natives.pytorch->generation();
    const Result<json> alive = bench.natives.pytorch->ask({{"do", "hello"}}, 120);
    if (!alive) return alive.error();
    if (bench.natives.pytorch->generation() == generation) continue;
    for (const Rival& again : ready) {
      if (Status lost = prepare(bench, network, before, again); !lost) return lost.error();
    }
  }
  return ready;
}

// How long side `which` takes to the end of its first run, and from which trip on it has caught up with those that
// start sooner. Under further numerics an engine may find code of the first ones, so that says nothing.
void record_first_run(GpuBench& bench, const std::string& title, const std::vector<Side>& sides,
                      const std::vector<double>& first, const std::vector<measure::Series>& series,
                      size_t which) {
  const Side& late = sides[which];
  if (late.numerics != sides.front().numerics) return;
  bench.recorder.add(measure::Figure{fmt::format("{}, {}: first run", title, late.name), "s",
                                     measure::exactly(first[which])});
  for (size_t early = 0; early < which; ++early) {
    const double gained =
        measure::median(series[early].seconds) - measure::median(series[which].seconds);
    if (gained <= 0) {
      bench.recorder.add_note(
          fmt::format("{}: {} never catches up with {}", title, late.name, sides[early].name));
      continue;
    }
    const double trips = std::max(0.0, (first[which] - first[early]) / gained);
    bench.recorder.add(measure::Figure{
        fmt::format("{}: trips from which {} is ahead of {}", title, late.name, sides[early].name),
        "trips", measure::exactly(trips)});
  }
}

// What the report says of all rounds: each of ours alone, and beside each rival of its numerics. `first` are the seconds
// to the end of the first run.
void record(GpuBench& bench, const Network& network, const std::vector<Side>& sides,
            const std::vector<double>& first, const std::vector<Rival>& rivals,
            const std::vector<measure::Series>& series) {
  const size_t count = sides.size();
  for (size_t i = 0; i < count; ++i) {
    const measure::Estimate ours = measure::estimate(series[i].seconds);
    const std::string title = fmt::format("{}, {}", network.title, sides[i].name);
    bench.recorder.add(measure::Figure{title, "us", ours.times(1e6)});
    record_first_run(bench, network.title, sides, first, series, i);
    if (network.program == "gpt2_token" && bench.natives.copy_bytes > 0) {
      const auto read = static_cast<double>(sides[i].program->state_bytes());
      bench.recorder.add(measure::Figure{title + ": share of copy's bandwidth", "%",
                                         ours.as_rate(100 * read / bench.natives.copy_bytes)});
    }
    for (size_t which = 0; which < rivals.size(); ++which) {
      const Rival& rival = rivals[which];
      if (rival.tf32 != may_use_tf32(network, sides[i].numerics)) continue;
      const measure::Series& theirs = series[count + 2 * which];
      const measure::Series& again = series[count + 2 * which + 1];
      bench.recorder.add({network.title, sides[i].name, rival.name(),
                          measure::compare(series[i].seconds, theirs.seconds, again.seconds),
                          rival.form.asked ? asked_of(network, sides[i]) : 0});
    }
  }
}

Status bench_network(GpuBench& bench, Network network) {
  const std::vector<std::string>& wanted = bench.options.numerics;
  std::erase_if(network.numerics, [&](NumericsMode numerics) {
    return !wanted.empty() && std::ranges::find(wanted, name(numerics)) == wanted.end();
  });
  if (network.numerics.empty()) return Done{};
  constexpr double kSampleSeconds = 0.04;
  const TemporaryFolder folder;
  if (!folder.ok()) return Error{"making a temporary folder", "", ""};
  const std::string before = folder.file("before.safetensors");
  const std::string after = folder.file("after.safetensors");
  Result<std::vector<Side>> sides = open_sides(
      bench, network.program, bench.options.quick ? network.small : network.full, network.numerics);
  if (!sides) return sides.error();
  std::vector<double> first;
  for (Side& side : *sides) {
    const Result<double> seconds = check(bench, network, side, before, after);
    if (!seconds) return seconds.error();
    first.push_back(side.program->load_seconds() + *seconds);
  }
  if (bench.options.check) return Done{};

  const Result<std::vector<Rival>> rivals = prepare_rivals(bench, network, before);
  if (!rivals) return rivals.error();
  std::vector<measure::Contender> contenders;
  for (Side& side : *sides) {
    Result<int> trips = 2;
    if (!bench.options.quick) trips = side.program->trips_lasting(kSampleSeconds);
    if (!trips) return trips.error();
    contenders.push_back(side.program->contender(side.name, *trips));
  }
  for (const Rival& rival : *rivals) {
    for (int i = 0; i < 2; ++i)  // the second for the A/A band
      contenders.push_back(bench.natives.pytorch->contender(rival.name(), network.program,
                                                            rival.form.key, rival.tf32));
  }
  const Result<std::vector<measure::Series>> series =
      measure::measure_interleaved(contenders, bench.options.rounds);
  if (!series) return series.error();
  record(bench, network, *sides, first, *rivals, *series);
  if (bench.natives.pytorch == nullptr) return Done{};
  const Result<json> forgotten =
      bench.natives.pytorch->ask({{"do", "forget"}, {"network", network.program}});
  if (!forgotten) return forgotten.error();
  return Done{};
}

}  // namespace

namespace {

constexpr NumericsMode kStrict = NumericsMode::strict;
constexpr NumericsMode kFast = NumericsMode::fast;
const std::vector<Form> kForms = {kGraph, kEager, kCompile, kAutotune};

// A batch of so many, beside which resident and jit are asked for so much.
Status bench_training_step(GpuBench& bench, int batch, const std::vector<Asked>& asked) {
  return bench_network(bench,
                       {"mlp_step",
                        fmt::format("MLP 784-512-512-10 f32, batch {}, Adam step", batch),
                        5,
                        {{"BATCH", std::to_string(batch / 8)}, {"PIXELS", "49"}, {"HIDDEN", "33"}},
                        {{"BATCH", std::to_string(batch)}},
                        {kStrict, kFast},
                        asked,
                        kForms});
}

}  // namespace

Status bench_mlp_step(GpuBench& bench) {
  return bench_training_step(
      bench, 128, {{"resident", kStrict, 3}, {"jit", kStrict, 1.2}, {"jit", kFast, 1.2}});
}

Status bench_mlp_step_4096(GpuBench& bench) {
  return bench_training_step(bench, 4096, {{"jit", kStrict, 1.2}, {"jit", kFast, 1.2}});
}

Status bench_mlp_forward(GpuBench& bench) {
  return bench_network(bench, {"mlp_forward",
                               "MLP 784-512-512-10 f32, batch 1, forward",
                               5,
                               {{"PIXELS", "49"}, {"HIDDEN", "33"}},
                               {},
                               {kStrict, kFast},
                               {{"resident", kStrict, 1.8}, {"resident", kFast, 3}},
                               kForms});
}

Status bench_lstm(GpuBench& bench) {
  return bench_network(bench,
                       {"lstm",
                        "LSTM f32, batch 1, 256 steps, hidden 512",
                        1,
                        {{"STEPS", "8"}, {"INPUTS", "20"}, {"HIDDEN", "33"}},
                        {},
                        {kStrict, kFast},
                        {{"resident", kStrict, 5.5}, {"resident", kFast, 8}},
                        {{"eager", "cuDNN by PyTorch"}, {"graph", "cuDNN in a CUDA graph"}}});
}

Status bench_gpt2_token(GpuBench& bench) {
  return bench_network(bench,
                       {"gpt2_token",
                        "GPT-2 124M, one token, bf16 weights",
                        1,
                        {{"LAYERS", "2"}, {"D", "96"}, {"POSITIONS", "8"}, {"VOCABULARY", "200"}},
                        {},
                        {kFast},
                        {{"resident", kFast, 3}},
                        kForms,
                        /*is_f32=*/false});
}

}  // namespace trek::bench
