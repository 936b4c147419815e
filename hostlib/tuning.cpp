#include "hostlib/tuning.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "emulator/measure/cpu_clock.h"
#include "emulator/measure/philox.h"
#include "emulator/plan/link.h"
#include "hostlib/digest.h"
#include "hostlib/names.h"
#include "isa/builder.h"
#include "isa/verifier.h"

namespace trek {
namespace {

using isa::Builder;
using isa::DType;
using isa::Module;
using isa::Ref;
using measure::Done;
using measure::Error;
using measure::Result;
using measure::Status;

// A candidate whose estimate is so many times the least is not tried.
constexpr double kHopeless = 4;
// So many are measured in programs of their own, besides what would be taken anyway.
constexpr size_t kAlone = 3;
// Strict results up to this size are compared.
constexpr int64_t kComparedBytes = int64_t{64} << 20;

// ---- operands ------------------------------------------------------------------------------------

// Of a random word, what is kept and what is set to make a float of magnitude 1/2 to 1 of either sign.
struct FloatForm {
  uint64_t kept;
  uint64_t set;
};
FloatForm form_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {0x800F'FFFF'FFFF'FFFF, 0x3FE0'0000'0000'0000};
    case DType::f32:
      return {0x807F'FFFF, 0x3F00'0000};
    case DType::f16:
      return {0x83FF, 0x3800};
    case DType::bf16:
      return {0x807F, 0x3F00};
    case DType::f8e4m3:
      return {0x87, 0x30};
    case DType::f8e5m2:
      return {0x83, 0x38};
    default:
      return {~uint64_t{0}, 0};
  }
}

// Random elements: what a multiplier takes, in time and power, depends on its bits.
std::vector<std::byte> random_bytes(const isa::Type& type) {
  constexpr size_t kPeriod = 999'983;  // elements that are drawn; a prime, so no two rows are equal
  const auto size = static_cast<size_t>(isa::byte_size(type.dtype));
  const FloatForm form = form_of(type.dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
  const size_t drawn = std::min(bytes.size(), kPeriod * size);
  for (size_t at = 0; at < drawn; at += size) {
    const measure::Philox4 random = measure::philox(size, at);
    const uint64_t word = (uint64_t{random.lane[1]} << 32 | random.lane[0]) & form.kept;
    const uint64_t bits = word | form.set;
    std::memcpy(bytes.data() + at, &bits, size);
  }
  for (size_t at = drawn; at < bytes.size(); at += drawn)
    std::memcpy(bytes.data() + at, bytes.data(), std::min(drawn, bytes.size() - at));
  return bytes;
}

// ---- the program ---------------------------------------------------------------------------------

// A product of a module, and how often it stands beside itself.
struct Wanted {
  isa::Type a;
  isa::Type b;
  isa::Type c;
  bool ta = false;
  bool tb = false;
  int64_t beside = 1;
};

Wanted wanted_of(const plan::Plan& plan, const plan::Node& node) {
  Wanted wanted = {node.operand_types[0], node.operand_types[1], node.main_type};
  const plan::MatrixShape shape = plan::matrix_shape(node);
  wanted.ta = shape.ta;
  wanted.tb = shape.tb;
  const auto beside =
      std::llround(static_cast<double>(plan.device.processors) / static_cast<double>(node.share));
  const int64_t bytes = wanted.a.bytes() + wanted.b.bytes() + wanted.c.bytes();
  const int64_t room = plan.device.memory_bytes / 2 / std::max<int64_t>(1, bytes);
  wanted.beside = std::clamp<int64_t>(beside, 1, std::max<int64_t>(1, room));
  return wanted;
}

// For candidate i a loop of as many trips as its parameter says.
struct CandidatesModule {
  Module module;
  std::vector<uint32_t> operands;  // tensors
  uint32_t result = 0;             // of the first of those that stand beside each other
  std::shared_ptr<plan::MeasuredTiles> tiles = std::make_shared<plan::MeasuredTiles>();
};

isa::Result<CandidatesModule> module_of(const Wanted& wanted, std::span<const TriedTiles> tried) {
  CandidatesModule made;
  Builder build(made.module);
  struct Product {
    Ref a, b, c;
  };
  std::vector<Product> products;
  for (int64_t i = 0; i < wanted.beside; ++i) {
    const auto tensor = [&](char name, const isa::Type& type) {
      return build.tensor(fmt::format("{}{}", name, i), type, isa::Role::state);
    };
    products.push_back({tensor('a', wanted.a), tensor('b', wanted.b), tensor('c', wanted.c)});
    made.operands.push_back(products.back().a.index());
    made.operands.push_back(products.back().b.index());
  }
  made.result = products[0].c.index();
  std::vector<Ref> trips;
  for (size_t i = 0; i < tried.size(); ++i)
    trips.push_back(build.param(fmt::format("trips{}", i), DType::i64, 0));
  build.begin_function("main");
  std::optional<isa::Fault> fault;
  for (size_t i = 0; i < tried.size() && !fault; ++i) {
    fault = build.open_loop(build.integer(0), trips[i], build.integer(1), {});
    for (const Product& each : products) {
      if (!fault)
        fault = build.add(isa::Opcode::Matmul, {each.a, each.b},
                          {Builder::number(wanted.ta), Builder::number(wanted.tb), Ref(), Ref(),
                           Builder::dtype(wanted.c.dtype)},
                          {each.c});
      if (!tried[i].is_divided)
        made.tiles->set_instruction(static_cast<uint32_t>(build.function().code.size() - 1),
                                    tried[i].tiles);
    }
    if (!fault) fault = build.yield({});
  }
  build.end_function();
  if (fault) return problem(fault->code, "the program that measures a product: " + fault->message);
  if (isa::Problems problems = isa::verify(made.module); !problems.empty()) return problems;
  return made;
}

// The candidates on the engine.
class CandidatesProgram {
 public:
  // Loaded, and run once; see check().
  static Result<std::unique_ptr<CandidatesProgram>> open(const Wanted& wanted,
                                                         std::span<const TriedTiles> tried,
                                                         Engine& engine, const TuneOptions& options,
                                                         bool strict) {
    const auto failed = [](const isa::Problems& problems) {
      return Error{"", "", problems[0].message};
    };
    isa::Result<CandidatesModule> made = module_of(wanted, tried);
    if (!made) return failed(made.problems());
    auto candidates =
        std::unique_ptr<CandidatesProgram>(new CandidatesProgram(made.take(), options));
    LoadOptions load = options.load;
    load.tiles = candidates->made_.tiles;
    isa::Result<std::unique_ptr<Program>> loaded = engine.load(candidates->made_.module, load);
    if (!loaded) return failed(loaded.problems());
    candidates->program_ = loaded.take();
    if (Status bound = candidates->bind(); !bound) return bound.error();
    if (Status checked = candidates->check(tried.size(), strict); !checked) return checked.error();
    return candidates;
  }

  Result<measure::Contender> contender(size_t candidate) {
    const Result<int64_t> trips = trips_of(candidate);
    if (!trips) return trips.error();
    return measure::Contender{
        "", [this, candidate, trips = *trips] { return seconds(candidate, trips); }};
  }

 private:
  CandidatesProgram(CandidatesModule made, const TuneOptions& options)
      : made_(std::move(made)), options_(options) {}

  Status bind() {
    for (const uint32_t operand : made_.operands) {
      const isa::Type& type = made_.module.type(made_.module.tensors[operand].type);
      const isa::Problems problems = program_->bind(operand, random_bytes(type));
      if (!problems.empty()) return Error{"", "", problems[0].message};
    }
    return Done{};
  }

  Status run(size_t candidate, int64_t trips) {
    program_->set(static_cast<uint32_t>(candidate), static_cast<uint64_t>(trips));
    RunOptions run;
    run.stop = options_.stop;
    const RunResult result = program_->run(run);
    program_->set(static_cast<uint32_t>(candidate), 0);
    if (options_.stop != nullptr && *options_.stop) return Error{"", "", "stopped"};
    if (result.outcome == Outcome::trapped) return Error{"", "", result.trap->detail};
    if (result.outcome != Outcome::done) return Error{"", "", result.detail};
    return Done{};
  }

  Result<double> seconds(size_t candidate, int64_t trips) {
    Status ran = Done{};
    const double seconds = measure::cpu_seconds([&] { ran = run(candidate, trips); });
    if (!ran) return ran.error();
    return seconds / static_cast<double>(trips);
  }

  // As many trips as make a sample.
  Result<int64_t> trips_of(size_t candidate) {
    constexpr int64_t kMost = 1 << 20;
    for (int64_t trips = 1;;) {
      const Result<double> of_one = seconds(candidate, trips);
      if (!of_one) return of_one.error();
      const double wanted = options_.sample_seconds / *of_one;
      if (trips >= kMost || static_cast<double>(trips) >= 0.7 * wanted) return trips;
      trips = std::clamp(static_cast<int64_t>(wanted), 2 * trips, kMost);
    }
  }

  // Every candidate runs once. Strict results are the same bits whatever the tiles.
  Status check(size_t candidates, bool strict) {
    const isa::Type& type = made_.module.type(made_.module.tensors[made_.result].type);
    const bool compared = strict && type.bytes() <= kComparedBytes;
    std::optional<Digest> first;
    for (size_t i = 0; i < candidates; ++i) {
      if (Status ran = run(i, 1); !ran) return ran;
      if (!compared) continue;
      const Digest made = digest(type.dtype, program_->read(made_.result));
      if (!first) first = made;
      if (made != *first) return Error{"", "", "its bits are not the same with all tiles"};
    }
    return Done{};
  }

  CandidatesModule made_;
  std::unique_ptr<Program> program_;
  const TuneOptions& options_;
};

// ---- one product ---------------------------------------------------------------------------------

// The candidates that are tried, as the cost model ranks them, and among them what would be taken anyway.
void choose_candidates(const plan::Plan& plan, const plan::ChosenProduct& chosen, size_t most,
                       TunedProduct& product) {
  const plan::ProductWork work = plan::work_of(plan, chosen);
  const plan::MatrixTiles& before = plan.tilings[chosen.node.tiles];
  std::vector<TriedTiles>& tried = product.tried;
  for (const plan::MatrixTiles& tiles : plan::candidates(plan.device, work)) {
    const double cycles = plan::estimate(plan.device, work, tiles);
    const auto slower = [](double than, const TriedTiles& each) { return than < each.cycles; };
    tried.insert(std::upper_bound(tried.begin(), tried.end(), cycles, slower),
                 {tiles, false, cycles, {}, {}});
  }
  product.candidates = tried.size();
  const double hopeless = kHopeless * tried[0].cycles;
  size_t kept = 0;
  for (size_t i = 0; i < tried.size(); ++i) {
    const bool wanted = kept < most && tried[i].cycles <= hopeless;
    if (wanted || tried[i].tiles == before) tried[kept++] = tried[i];
  }
  tried.resize(kept);
  // What no tiles for the whole product are is the plan's own division, which it thinks better than all of these.
  const auto is_before = [&](const TriedTiles& each) { return each.tiles == before; };
  if (std::ranges::none_of(tried, is_before)) {
    tried.insert(tried.begin(), {before, true, 0, {}, {}});
    ++product.candidates;
  }
  product.before =
      static_cast<size_t>(std::find_if(tried.begin(), tried.end(), is_before) - tried.begin());
  product.now = product.fastest = product.before;
}

// Takes the fastest of those whose places in `tried` are given, if it is faster beyond chance than the first of them, which is
// what would be taken anyway.
void judge(const std::vector<measure::Series>& series, const std::vector<size_t>& places,
           measure::Estimate TriedTiles::* seconds, TunedProduct& product) {
  size_t fastest = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    product.tried[places[i]].*seconds = measure::estimate(series[i].seconds);
    if ((product.tried[places[i]].*seconds).median <
        (product.tried[places[fastest]].*seconds).median)
      fastest = i;
  }
  product.fastest = places[fastest];
  const measure::Estimate gain = measure::ratio(series[0].seconds, series[fastest].seconds);
  const bool gains = gain.interval.low > 1;
  product.gain = gains ? gain : measure::exactly(1);
  product.now = gains ? product.fastest : product.before;
}

// What would be taken anyway, then the others, as many as are wanted, the fastest first where they have been measured.
std::vector<size_t> places_of(const TunedProduct& product, size_t others) {
  std::vector<size_t> places;
  for (size_t i = 0; i < product.tried.size(); ++i)
    if (i != product.before) places.push_back(i);
  std::ranges::sort(places, {},
                    [&](size_t i) { return std::pair(product.tried[i].seconds.median, i); });
  places.resize(std::min(places.size(), others));
  places.insert(places.begin(), product.before);
  return places;
}

// Those at `places`, in turn: as loops of one program that has all, or each in a program of its own.
Status measure_places(const Wanted& wanted, const std::vector<size_t>& places, bool alone,
                      Engine& engine, const TuneOptions& options, TunedProduct& product) {
  std::vector<std::unique_ptr<CandidatesProgram>> programs;
  std::vector<measure::Contender> contenders;
  for (const size_t place : places) {
    if (alone || programs.empty()) {
      const std::span<const TriedTiles> all = product.tried;
      auto program = CandidatesProgram::open(wanted, alone ? all.subspan(place, 1) : all, engine,
                                             options, !product.product.fast);
      if (!program) return program.error();
      programs.push_back(program.take());
    }
    Result<measure::Contender> contender = programs.back()->contender(alone ? 0 : place);
    if (!contender) return contender.error();
    contenders.push_back(contender.take());
  }
  const auto series = measure::measure_interleaved(contenders, options.rounds);
  if (!series) return series.error();
  judge(*series, places, alone ? &TriedTiles::alone : &TriedTiles::seconds, product);
  return Done{};
}

// All together, then, where that would change something and programs have frames, the fastest of them alone, as far as there is
// room for these beside each other.
Status measure_candidates(const plan::Device& device, const Wanted& wanted, Engine& engine,
                          const TuneOptions& options, TunedProduct& product) {
  const std::vector<size_t> all = places_of(product, product.tried.size());
  if (Status measured = measure_places(wanted, all, false, engine, options, product); !measured)
    return measured;
  if (!device.makes_code() || product.now == product.before) return Done{};
  const int64_t bytes = wanted.beside * (wanted.a.bytes() + wanted.b.bytes() + wanted.c.bytes());
  const int64_t room = device.memory_bytes / 2 / std::max<int64_t>(1, bytes) - 1;
  if (room < 1) return Done{};
  const std::vector<size_t> best = places_of(product, std::min(kAlone, static_cast<size_t>(room)));
  return measure_places(wanted, best, true, engine, options, product);
}

TunedProduct tune_product(const plan::Plan& plan, const plan::ChosenProduct& chosen, Engine& engine,
                          const TuneOptions& options) {
  TunedProduct product;
  product.product = plan::product_key(plan, chosen.node);
  choose_candidates(plan, chosen, options.candidates, product);
  if (product.tried.size() == 1) {
    product.failure = "there is one way to cut it";
    return product;
  }
  const Status measured =
      measure_candidates(plan.device, wanted_of(plan, chosen.node), engine, options, product);
  if (!measured) product.failure = measured.error().detail;
  return product;
}

bool is_stopped(const TuneOptions& options) { return options.stop != nullptr && *options.stop; }

}  // namespace

isa::Result<Tuning> tune(const isa::Module& module, Engine& engine, const TuneOptions& options,
                         const std::function<void(const Tuning&, const TunedProduct&)>& told) {
  const auto device = engine.device(options.load);
  if (!device) return device.problems();
  if (*device == nullptr)
    return problem(isa::ErrorCode::UnknownInstruction,
                   fmt::format("the engine {} has nothing to tune: it cuts nothing into tiles",
                               engine.name()));
  plan::LinkOptions link;
  link.fast = options.load.numerics == NumericsMode::fast;
  link.tiles = options.load.tiles.get();
  const isa::Result<plan::Plan> plan = plan::link(module, **device, link);
  if (!plan) return plan.problems();

  Tuning tuning;
  tuning.device = **device;
  // Of different products those that are alike, in the order in which they first appear.
  using Alike = std::vector<const plan::ChosenProduct*>;
  std::vector<Alike> products;
  std::map<plan::ProductKey, size_t> places;
  for (const plan::ChosenProduct& chosen : plan->products) {
    const plan::ProductKey key = plan::product_key(*plan, chosen.node);
    const plan::MatrixShape& shape = key.shape;
    if (shape.m == 0 || shape.n == 0 || shape.k == 0 || shape.batches == 0) continue;
    const auto [place, is_new] = places.emplace(key, products.size());
    if (is_new) products.emplace_back();
    products[place->second].push_back(&chosen);
  }
  for (const Alike& alike : products) {
    TunedProduct product = tune_product(*plan, *alike[0], engine, options);
    if (is_stopped(options)) {
      tuning.left_out = products.size() - tuning.products.size();
      break;
    }
    for (const plan::ChosenProduct* chosen : alike)
      product.places.push_back({chosen->node.function, chosen->node.instruction});
    tuning.products.push_back(std::move(product));
    told(tuning, tuning.products.back());
  }
  return tuning;
}

}  // namespace trek
