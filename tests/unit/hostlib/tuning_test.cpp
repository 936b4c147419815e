#include "hostlib/tuning.h"

#include <fmt/format.h>

#include "assembler/assemble.h"
#include "emulator/plan/link.h"
#include "hostlib/digest.h"
#include "hostlib/engines.h"
#include "hostlib/session.h"
#include "tests/unit/hostlib/scratch.h"

using namespace trek;
using isa::Module;

namespace {

// Two products of one kind, one of another, two that stand beside each other, and one whose k may be divided.
constexpr const char* kProducts = R"(.trek 1.0
.state @a f32[200,96] = normal(0, 1, key=1)
.state @b f32[96,200] = normal(0, 1, key=2)
.state @c f32[200,200]
.state @d f32[96,96]
.state @e f32[96,96]
.state @l f32[8,9000] = normal(0, 1, key=3)
.state @r f32[9000,8] = normal(0, 1, key=4)
.state @f f32[8,8]
.func main() {
  loop $i = 0 until 1 {
    @c = matmul @a, @b
  }
  loop $i = 0 until 1 {
    @c = matmul @a, @b
  }
  %bc = matmul @b, @c
  @d = matmul %bc, @a
  @e = matmul @a, @a, ta
  @f = matmul @l, @r, tail=relu
}
)";

Module assembled(const char* text) {
  Assembly assembly = assemble_text("products.trek", text);
  REQUIRE(assembly.ok());
  return std::move(assembly.module);
}

std::unique_ptr<Engine> engine_named(const char* name) {
  std::string why;
  std::unique_ptr<Engine> engine = make_engine(name, why);
  CAPTURE(why);
  REQUIRE(engine != nullptr);
  return engine;
}

TuneOptions quick() {
  TuneOptions options;
  options.rounds = {0, 5, 0};
  options.sample_seconds = 0;
  return options;
}

isa::Result<Tuning> tuned(const Module& module, Engine& engine, const TuneOptions& options) {
  return tune(module, engine, options, [](const Tuning&, const TunedProduct&) {});
}

std::vector<std::string> digests(const Module& module, Engine& engine, LoadOptions options) {
  const ModuleFile file = {"", module};
  isa::Result<Session> session = Session::open(file, engine, Bindings(file.module), options);
  REQUIRE(session);
  REQUIRE(session->run({}).outcome == Outcome::done);
  std::vector<std::string> texts;
  for (const TensorDigest& each : session->digests()) texts.push_back(each.digest.text());
  return texts;
}

}  // namespace

TEST_CASE("every different product is measured once, with the places where it stands") {
  const Module module = assembled(kProducts);
  const std::unique_ptr<Engine> engine = engine_named("resident-host");
  const isa::Result<Tuning> tuning = tuned(module, *engine, quick());
  REQUIRE(tuning);
  CHECK(tuning->left_out == 0);
  size_t places = 0;
  for (const TunedProduct& product : tuning->products) {
    CAPTURE(plan::text(product.product, tuning->device), product.failure);
    CHECK(product.is_measured());
    CHECK(product.tried.size() > 1);
    CHECK(product.tried[product.now].seconds.samples == 5);
    CHECK(product.tried[product.fastest].seconds.median > 0);
    for (size_t i = 1; i < product.tried.size(); ++i)
      CHECK(product.tried[i - 1].cycles <= product.tried[i].cycles);
    places += product.places.size();
  }
  CHECK(places == 6);
  CHECK(tuning->products.size() < 6);
}

TEST_CASE(
    "strict results are the same bits whatever tiles are set, and the program says that it has "
    "them") {
  const Module module = assembled(kProducts);
  const std::unique_ptr<Engine> engine = engine_named("resident-host");
  const std::vector<std::string> wanted = digests(module, *engine_named("ref"), {});
  const auto device = engine->device({});
  REQUIRE(device);
  const isa::Result<plan::Plan> plan = plan::link(module, **device, {});
  REQUIRE(plan);
  constexpr size_t kMost = 5;
  for (size_t i = 0; i < kMost; ++i) {
    auto tiles = std::make_shared<plan::MeasuredTiles>();
    uint64_t products = 0;
    for (const plan::ChosenProduct& chosen : plan->products) {
      const auto all = plan::candidates(plan->device, plan::work_of(*plan, chosen));
      tiles->set(plan::product_key(*plan, chosen.node), all[i % all.size()]);
      ++products;
    }
    LoadOptions options;
    options.tiles = tiles;
    CHECK(digests(module, *engine, options) == wanted);
    const isa::Result<std::unique_ptr<Program>> program = engine->load(module, options);
    REQUIRE(program);
    CHECK((*program)->counters().tiles.products == products);
    CHECK((*program)->counters().tiles.measured == products);
  }
}

TEST_CASE("tiles that are no candidate of a product are as if there were none") {
  const Module module = assembled(kProducts);
  const std::unique_ptr<Engine> engine = engine_named("resident-host");
  const auto device = engine->device({});
  REQUIRE(device);
  const isa::Result<plan::Plan> plan = plan::link(module, **device, {});
  REQUIRE(plan);
  plan::MeasuredTiles tiles;
  for (const plan::ChosenProduct& chosen : plan->products) {
    plan::MatrixTiles odd;
    odd.rows = 7;
    odd.columns = 1'000'003;
    tiles.set(plan::product_key(*plan, chosen.node), odd);
  }
  plan::LinkOptions options;
  options.tiles = &tiles;
  const isa::Result<plan::Plan> again = plan::link(module, **device, options);
  REQUIRE(again);
  CHECK(again->tilings == plan->tilings);
  for (const plan::ChosenProduct& chosen : again->products) CHECK_FALSE(chosen.measured);
}

TEST_CASE(
    "a product whose last rows stand apart is measured as it is, beside tiles for all of it") {
  const std::unique_ptr<Engine> engine = engine_named("resident-host");
  const auto device = engine->device({});
  REQUIRE(device);
  bool is_found = false;
  for (int rows = 130; rows < 900 && !is_found; rows += 11) {
    const Module module = assembled(fmt::format(R"(.trek 1.0
.state @a f32[{},1024]
.state @b f32[1024,136]
.state @c f32[{},136]
.func main() {{
  @c = matmul @a, @b
}}
)",
                                                rows, rows)
                                        .c_str());
    const isa::Result<plan::Plan> plan = plan::link(module, **device, {});
    REQUIRE(plan);
    is_found = plan->nodes[0].rows.count != 0;
    if (!is_found) continue;
    TuneOptions options = quick();
    options.candidates = 2;
    const isa::Result<Tuning> tuning = tuned(module, *engine, options);
    REQUIRE(tuning);
    REQUIRE(tuning->products.size() == 1);
    const TunedProduct& product = tuning->products[0];
    CAPTURE(rows, product.failure);
    REQUIRE(product.is_measured());
    CHECK(product.tried.size() == 3);
    CHECK(product.before == 0);
    for (size_t i = 0; i < product.tried.size(); ++i)
      CHECK(product.tried[i].is_divided == (i == 0));
    CHECK(product.tried[product.now].seconds.samples == 5);
  }
  CHECK(is_found);
}

TEST_CASE("a stop leaves what has been measured") {
  const Module module = assembled(kProducts);
  const std::unique_ptr<Engine> engine = engine_named("resident-host");
  std::atomic<bool> stop = false;
  TuneOptions options = quick();
  options.stop = &stop;
  const isa::Result<Tuning> tuning =
      tune(module, *engine, options, [&](const Tuning&, const TunedProduct&) { stop = true; });
  REQUIRE(tuning);
  CHECK(tuning->products.size() == 1);
  CHECK(tuning->left_out > 0);
}

TEST_CASE("a module that does not fit is the problem that its load would have") {
  TuneOptions options = quick();
  options.load.memory_limit = 1024;
  const isa::Result<Tuning> tuning =
      tuned(assembled(kProducts), *engine_named("resident-host"), options);
  REQUIRE_FALSE(tuning);
  CHECK(tuning.problems()[0].code == isa::ErrorCode::ShapeLimit);
}

TEST_CASE("an engine without tiles has nothing to tune") {
  const isa::Result<Tuning> tuning = tuned(assembled(kProducts), *engine_named("ref"), quick());
  REQUIRE_FALSE(tuning);
  CHECK_THAT(tuning.problems()[0].message, Catch::Contains("ref has nothing to tune"));
}
