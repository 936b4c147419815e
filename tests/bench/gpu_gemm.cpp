// Lists of matrix products, each one instruction, beside cuBLAS in a CUDA graph with the same operands: random-normal
// ones, which stay where they are on both sides.
#include <algorithm>

#include <fmt/format.h>

#include "emulator/measure/products.h"
#include "hostlib/tuning.h"
#include "tests/bench/gemm_shapes.h"
#include "tests/bench/gpu_bench.h"

namespace trek::bench {
namespace {

using driver::GemmShape;
using driver::GemmType;

constexpr double kSampleSeconds = 0.008;

struct GemmList {
  std::string name;
  double asked;  // of the geometric mean of cuBLAS's times ÷ ours
  std::vector<GemmShape> shapes;
  bool compiled;  // on the JIT too, where several engines are ours: it takes seconds for each shape
  bool tuned = false;  // and once more with tiles that were measured on the way
};

// In small, to see that it works: a shape of each form and class.
std::vector<GemmShape> small_shapes() {
  return {{24, 40, 72, false, false}, {33, 7, 130, true, false}, {1, 65, 31, false, true}};
}

std::string program_text(GemmType type, const GemmShape& shape) {
  const std::string element = driver::element_bytes(type) == 4 ? "f32" : std::string(name(type));
  const auto matrix = [&](int rows, int columns, bool transposed) {
    return transposed ? fmt::format("{}[{},{}]", element, columns, rows)
                      : fmt::format("{}[{},{}]", element, rows, columns);
  };
  return fmt::format(
      ".trek 1.0\n"
      ".param $trips i64 = 1\n"
      ".state @a {} = normal(0, 1, key=1)\n"
      ".state @b {} = normal(0, 1, key=2)\n"
      ".state @c {}\n"
      ".func main() {{\n"
      "  loop $i = 0 until $trips {{\n"
      "    @c = matmul @a, @b{}{}\n"
      "  }}\n"
      "}}\n",
      matrix(shape.m, shape.k, shape.a_transposed), matrix(shape.k, shape.n, shape.b_transposed),
      matrix(shape.m, shape.n, false), shape.a_transposed ? ", ta" : "",
      shape.b_transposed ? ", tb" : "");
}

using Bytes = std::vector<std::byte>;

// Both operands of a program that has been loaded.
struct Operands {
  Bytes a;
  Bytes b;
};
Result<Operands> read_operands(BenchProgram& program) {
  Result<Bytes> a = program.read("a");
  if (!a) return a.error();
  Result<Bytes> b = program.read("b");
  if (!b) return b.error();
  return Operands{a.take(), b.take()};
}

// The tiles that measuring finds for the products of a program; none of an engine that has no tiles.
Result<std::shared_ptr<plan::MeasuredTiles>> tuned_tiles(Engine& engine, const isa::Module& module,
                                                         NumericsMode numerics) {
  TuneOptions options;
  options.load.numerics = numerics;
  const auto device = engine.device(options.load);
  if (device && *device == nullptr) return std::shared_ptr<plan::MeasuredTiles>();
  const isa::Result<Tuning> tuning =
      tune(module, engine, options, [](const Tuning&, const TunedProduct&) {});
  if (!tuning) return to_error("tuning", tuning.problems());
  auto tiles = std::make_shared<plan::MeasuredTiles>();
  for (const TunedProduct& product : tuning->products)
    if (product.is_measured() && !product.tried[product.now].is_divided)
      tiles->set(product.product, product.tried[product.now].tiles);
  return tiles;
}

// A shape on an engine once more, with tiles that were measured.
Status add_tuned(Engine& engine, GemmType type, NumericsMode numerics, const GemmShape& shape,
                 std::vector<Side>& sides) {
  Side& chosen = sides.back();
  const auto tiles = tuned_tiles(engine, chosen.program->module(), numerics);
  if (!tiles) return tiles.error();
  if (*tiles == nullptr) return Done{};
  Result<std::unique_ptr<BenchProgram>> program =
      BenchProgram::from_text(engine, text(shape), program_text(type, shape), numerics, *tiles);
  if (!program) return program.error();
  sides.push_back({&engine, numerics, chosen.name + ", tuned", program.take()});
  return Done{};
}

Result<std::vector<Side>> open_shape(GpuBench& bench, const GemmList& list, GemmType type,
                                     NumericsMode numerics, const GemmShape& shape) {
  std::vector<Side> sides;
  for (const std::unique_ptr<Engine>& engine : bench.engines) {
    if (!list.compiled && engine->name() == "jit" && bench.engines.size() > 1) continue;
    Result<std::unique_ptr<BenchProgram>> program =
        BenchProgram::from_text(*engine, text(shape), program_text(type, shape), numerics);
    if (!program) return program.error();
    sides.push_back({engine.get(), numerics,
                     fmt::format("{} {}", engine->name(), trek::name(numerics)), program.take()});
    if (!list.tuned) continue;
    if (Status added = add_tuned(*engine, type, numerics, shape, sides); !added)
      return added.error();
  }
  return sides;
}

// Some elements against f64, and every element against cuBLAS where it is there; where they disagree and ours is right,
// a note says so.
Status check(GpuBench& bench, GemmType type, const GemmShape& shape, Side& side,
             const Operands& operands, const Bytes* rival) {
  const Result<Bytes> c = side.program->read("c");
  if (!c) return c.error();
  Status right = measure::check_product(type, shape, operands.a, operands.b, *c);
  if (!right || rival == nullptr) return right;
  const Result<measure::Disagreement> found =
      measure::compare_products(type, shape, operands.a, operands.b, *c, *rival);
  if (!found) return found.error();
  if (found->elements > 0)
    bench.recorder.add_note(
        fmt::format("{} {}, {}: {}", name(type), text(shape), side.name, measure::text(*found)));
  return Done{};
}

Status bench_shape(GpuBench& bench, const GemmList& list, GemmType type, NumericsMode numerics,
                   const GemmShape& shape) {
  Result<std::vector<Side>> sides = open_shape(bench, list, type, numerics, shape);
  if (!sides) return sides.error();
  const Result<Operands> operands = read_operands(*sides->front().program);
  if (!operands) return operands.error();
  for (Side& side : *sides)
    if (Status ran = side.program->run(1); !ran) return ran;
  if (!bench.natives.cublas) {
    for (Side& side : *sides) {
      Status right = check(bench, type, shape, side, *operands, nullptr);
      if (!right) return right;
    }
    return Done{};
  }

  Result<measure::CublasGraph> rival =
      measure::CublasGraph::create(*bench.natives.device, *bench.natives.cublas, type, shape,
                                   operands->a, operands->b, kSampleSeconds);
  if (!rival) return rival.error();
  std::vector<measure::Contender> contenders;
  for (Side& side : *sides) {
    const Result<int> trips = side.program->trips_lasting(bench.options.quick ? 0 : kSampleSeconds);
    if (!trips) return trips.error();
    contenders.push_back(side.program->contender(side.name, *trips));
  }
  for (int i = 0; i < 2; ++i)  // the second for the A/A band
    contenders.push_back(rival->contender("cuBLAS in a CUDA graph"));
  const Result<std::vector<measure::Series>> series =
      measure::measure_interleaved(contenders, bench.options.rounds);
  if (!series) return series.error();
  const Result<Bytes> theirs = rival->result();
  if (!theirs) return theirs.error();
  const size_t native = sides->size();
  for (size_t i = 0; i < native; ++i) {
    Side& side = (*sides)[i];
    if (Status right = check(bench, type, shape, side, *operands, &*theirs); !right) return right;
    bench.recorder.add({fmt::format("{} {}", name(type), text(shape)), side.name,
                        (*series)[native].name,
                        measure::compare((*series)[i].seconds, (*series)[native].seconds,
                                         (*series)[native + 1].seconds),
                        list.asked, list.name});
  }
  return Done{};
}

bool is_wanted(const GpuOptions& options, const GemmShape& shape) {
  const std::string name = text(shape);
  const auto has = [&](const std::string& part) { return name.find(part) != std::string::npos; };
  return options.shapes.empty() || std::ranges::any_of(options.shapes, has);
}

// What fails for one shape is noted, and the list goes on.
Status bench_lists(GpuBench& bench, GemmType type, NumericsMode numerics,
                   std::vector<GemmList> lists) {
  const bool small = bench.options.quick || bench.options.check;
  Status all = Done{};
  for (GemmList& list : lists) {
    if (list.name.find(bench.options.list) == std::string::npos) continue;
    if (small) list.shapes = small_shapes();
    for (const GemmShape& shape : list.shapes) {
      if (!small && !is_wanted(bench.options, shape)) continue;
      const Status done = bench_shape(bench, list, type, numerics, shape);
      if (Status saved = bench.recorder.save(); !saved) return saved;
      if (done) continue;
      all = Error{fmt::format("{} {}", list.name, text(shape)), "", done.error().text()};
      bench.recorder.add_note(all.error().text());
    }
    if (small) break;
  }
  return all;
}

std::vector<GemmList> lists_of(GemmType type, double known, bool compiled) {
  return {{fmt::format("GEMM {}, known shapes and GPT-2's training", name(type)), known,
           known_shapes(), compiled}};
}

// The known shapes, and random ones.
std::vector<GemmList> lists_of_half(GemmType type, bool compiled) {
  std::vector<GemmList> lists = lists_of(type, 1.05, compiled);
  lists.push_back({fmt::format("GEMM {}, random shapes, multiples of 8", name(type)), 1.05,
                   random_shapes(true), false});
  lists.push_back({fmt::format("GEMM {}, random shapes, odd ones", name(type)), 1.0,
                   random_shapes(false), false});
  return lists;
}

// Of the known shapes those whose operands and result are made in a moment.
std::vector<GemmShape> handy_shapes() {
  constexpr int64_t kElements = int64_t{1} << 26;
  std::vector<GemmShape> shapes = known_shapes();
  std::erase_if(shapes, [](const GemmShape& shape) {
    const int64_t m = shape.m;
    const int64_t n = shape.n;
    return std::max({m * n, n * shape.k, m * shape.k}) > kElements;
  });
  return shapes;
}

}  // namespace

Status bench_gemm_tuned(GpuBench& bench) {
  const std::string name = "GEMM bf16, known shapes with tuned tiles beside those chosen";
  return bench_lists(bench, GemmType::bf16, NumericsMode::fast,
                     {{name, 1.05, handy_shapes(), true, true}});
}

Status bench_gemm_bf16(GpuBench& bench) {
  return bench_lists(bench, GemmType::bf16, NumericsMode::fast,
                     lists_of_half(GemmType::bf16, true));
}

Status bench_gemm_f16(GpuBench& bench) {
  return bench_lists(bench, GemmType::f16, NumericsMode::fast, lists_of_half(GemmType::f16, false));
}

Status bench_gemm_f32(GpuBench& bench) {
  return bench_lists(bench, GemmType::f32, NumericsMode::strict,
                     lists_of(GemmType::f32, 0.95, false));
}

Status bench_gemm_tf32(GpuBench& bench) {
  return bench_lists(bench, GemmType::tf32, NumericsMode::fast,
                     lists_of(GemmType::tf32, 1.0, false));
}

}  // namespace trek::bench
