// Networks as programs, beside PyTorch with the same weights: in a CUDA graph, compiled, and eager.
#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "tests/bench/gpu_bench.h"

namespace trek::bench {
namespace {

using nlohmann::json;

struct Ours {
  NumericsMode numerics;
  double asked;  // native time ÷ ours
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

struct Network {
  std::string program;
  std::string title;
  int check_trips;  // of the run whose result is compared
  Defines small;    // constants under `quick`
  std::vector<Ours> ours;
  std::vector<Form> forms;
};

// The program's result against PyTorch's in f64, from the same state.
Status check(GpuBench& bench, const Network& network, const Defines& defines, const Ours& ours,
             const std::string& before, const std::string& after) {
  Result<std::unique_ptr<BenchProgram>> program =
      BenchProgram::open(bench.engine, bench.options.programs, network.program, network.check_trips,
                         ours.numerics, defines);
  if (!program) return program.error();
  Status status = (*program)->save_state(before);
  if (status) status = (*program)->run();
  if (status) status = (*program)->save_state(after);
  if (!status || bench.natives.pytorch == nullptr) return status;
  const Result<json> answer = bench.natives.pytorch->ask({{"do", "check"},
                                                          {"network", network.program},
                                                          {"before", before},
                                                          {"after", after},
                                                          {"trips", network.check_trips}},
                                                         120);
  if (!answer) return answer.error();
  const double error = answer->value("error", 1e300);
  const double tolerance = answer->value("tolerance", 0.0);
  const std::string what = answer->value("what", "");
  if (!(error <= tolerance))
    return measure::wrong(fmt::format("{}, {}", network.title, name(ours.numerics)),
                          fmt::format("{} are {:.2g} from PyTorch's in f64, allowed is {:.2g}",
                                      what, error, tolerance));
  fmt::print("{}, {}: {} are {:.1e} from PyTorch's in f64\n", network.title, name(ours.numerics),
             what, error);
  return Done{};
}

// The program with as many trips as make a launch last, however fast it is: so that a launch's ends do not
// count. Starts with few trips, whose launch may be nearly all ends.
Result<std::unique_ptr<BenchProgram>> open_lasting(GpuBench& bench, const Network& network,
                                                   const Defines& defines, const Ours& ours) {
  constexpr double kLeastSeconds = 0.04;
  int trips = bench.options.quick ? 2 : 8;
  for (;;) {
    Result<std::unique_ptr<BenchProgram>> program = BenchProgram::open(
        bench.engine, bench.options.programs, network.program, trips, ours.numerics, defines);
    if (!program || bench.options.quick) return program;
    const Result<double> seconds = (*program)->contender("").sample();
    if (!seconds) return seconds.error();
    if (*seconds * trips >= 0.7 * kLeastSeconds) return program;
    trips = std::max(2 * trips, static_cast<int>(kLeastSeconds / *seconds));
  }
}

// A form that PyTorch has ready, in the process that is there now.
Status prepare(GpuBench& bench, const Network& network, const std::string& before,
               const std::string& form) {
  const int seconds = bench.options.form_seconds;
  const Result<json> answer = bench.natives.pytorch->ask({{"do", "prepare"},
                                                          {"network", network.program},
                                                          {"form", form},
                                                          {"before", before},
                                                          {"seconds", seconds}},
                                                         seconds + 60);
  if (!answer) return answer.error();
  fmt::print("{}, {}: ready after {:.0f} s\n", network.title, form, answer->value("seconds", 0.0));
  std::fflush(stdout);
  return Done{};
}

// The forms that PyTorch has ready; those that it has not are noted. A form may take the process down with
// it: then those before are made ready again.
Result<std::vector<Form>> prepare_forms(GpuBench& bench, const Network& network,
                                        const std::string& before) {
  std::vector<Form> ready;
  if (bench.natives.pytorch == nullptr) return ready;
  const std::vector<std::string>& wanted = bench.options.forms;
  for (const Form& form : network.forms) {
    if (std::find(wanted.begin(), wanted.end(), form.key) == wanted.end()) continue;
    const Status made = prepare(bench, network, before, form.key);
    if (made) {
      ready.push_back(form);
      continue;
    }
    bench.recorder.add_note(
        fmt::format("{}: {} is left out: {}", network.title, form.name, made.error().text()));
    const int generation = bench.natives.pytorch->generation();
    const Result<json> alive = bench.natives.pytorch->ask({{"do", "hello"}}, 120);
    if (!alive) return alive.error();
    if (bench.natives.pytorch->generation() == generation) continue;
    for (const Form& again : ready) {
      if (Status lost = prepare(bench, network, before, again.key); !lost) return lost.error();
    }
  }
  return ready;
}

// What the report says of all rounds: each of ours alone, and beside each form.
void record(GpuBench& bench, const Network& network, const std::vector<Form>& forms,
            const std::vector<measure::Series>& series, uint64_t state_bytes) {
  const size_t count = network.ours.size();
  for (size_t i = 0; i < count; ++i) {
    const measure::Estimate ours = measure::estimate(series[i].seconds);
    const std::string title = fmt::format("{}, {}", network.title, series[i].name);
    bench.recorder.add(measure::Figure{title, "us", ours.times(1e6)});
    if (network.program == "gpt2_token" && bench.natives.copy_bytes > 0) {
      const auto read = static_cast<double>(state_bytes);
      bench.recorder.add(measure::Figure{title + ": share of copy's bandwidth", "%",
                                         ours.as_rate(100 * read / bench.natives.copy_bytes)});
    }
    for (size_t form = 0; form < forms.size(); ++form) {
      const measure::Series& rival = series[count + 2 * form];
      const measure::Series& again = series[count + 2 * form + 1];
      bench.recorder.add({network.title, series[i].name, forms[form].name,
                          measure::compare(series[i].seconds, rival.seconds, again.seconds),
                          forms[form].asked ? network.ours[i].asked : 0});
    }
  }
}

Status bench_network(GpuBench& bench, const Network& network) {
  const TemporaryFolder folder;
  if (!folder.ok()) return Error{"making a temporary folder", "", ""};
  const bool quick = bench.options.quick;
  const Defines defines = quick ? network.small : Defines{};
  const std::string before = folder.file("before.safetensors");
  const std::string after = folder.file("after.safetensors");
  for (const Ours& ours : network.ours) {
    const Status right = check(bench, network, defines, ours, before, after);
    if (!right) return right;
  }
  if (bench.options.check) return Done{};

  const Result<std::vector<Form>> forms = prepare_forms(bench, network, before);
  if (!forms) return forms.error();
  std::vector<std::unique_ptr<BenchProgram>> programs;
  std::vector<measure::Contender> contenders;
  for (const Ours& ours : network.ours) {
    Result<std::unique_ptr<BenchProgram>> program = open_lasting(bench, network, defines, ours);
    if (!program) return program.error();
    programs.push_back(program.take());
    contenders.push_back(
        programs.back()->contender(fmt::format("{} {}", bench.engine.name(), name(ours.numerics))));
  }
  for (const Form& form : *forms) {
    for (int i = 0; i < 2; ++i)  // the second for the A/A band
      contenders.push_back(bench.natives.pytorch->contender(form.name, network.program, form.key));
  }
  const Result<std::vector<measure::Series>> series =
      measure::measure_interleaved(contenders, bench.options.rounds);
  if (!series) return series.error();
  record(bench, network, *forms, *series, programs.front()->state_bytes());
  if (bench.natives.pytorch == nullptr) return Done{};
  const Result<json> forgotten =
      bench.natives.pytorch->ask({{"do", "forget"}, {"network", network.program}});
  if (!forgotten) return forgotten.error();
  return Done{};
}

}  // namespace

Status bench_mlp_step(GpuBench& bench) {
  return bench_network(bench, {"mlp_step",
                               "MLP 784-512-512-10 f32, batch 128, Adam step",
                               5,
                               {{"BATCH", "16"}, {"PIXELS", "49"}, {"HIDDEN", "33"}},
                               {{NumericsMode::strict, 3}},
                               {kGraph, kEager, kCompile, kAutotune}});
}

Status bench_mlp_forward(GpuBench& bench) {
  return bench_network(bench, {"mlp_forward",
                               "MLP 784-512-512-10 f32, batch 1, forward",
                               5,
                               {{"PIXELS", "49"}, {"HIDDEN", "33"}},
                               {{NumericsMode::strict, 1.8}, {NumericsMode::fast, 3}},
                               {kGraph, kEager, kCompile, kAutotune}});
}

Status bench_lstm(GpuBench& bench) {
  return bench_network(bench,
                       {"lstm",
                        "LSTM f32, batch 1, 256 steps, hidden 512",
                        1,
                        {{"STEPS", "5"}, {"INPUTS", "20"}, {"HIDDEN", "33"}},
                        {{NumericsMode::strict, 5.5}, {NumericsMode::fast, 8}},
                        {{"eager", "cuDNN by PyTorch"}, {"graph", "cuDNN in a CUDA graph"}}});
}

Status bench_gpt2_token(GpuBench& bench) {
  return bench_network(bench,
                       {"gpt2_token",
                        "GPT-2 124M, one token, bf16 weights",
                        1,
                        {{"LAYERS", "2"}, {"D", "96"}, {"POSITIONS", "8"}, {"VOCABULARY", "200"}},
                        {{NumericsMode::fast, 3}},
                        {kGraph, kEager, kCompile, kAutotune}});
}

}  // namespace trek::bench
