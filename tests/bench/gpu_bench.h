// The figures of the engines on a GPU: our programs beside what is native, in one session.
//
// A benchmark opens programs, checks what they compute, measures them and their rivals round by round, and
// adds the outcome to the report. What cannot be measured here becomes a note.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emulator/driver/cublas.h"
#include "emulator/measure/ceiling_bench.h"
#include "tests/bench/program.h"
#include "tests/bench/pytorch.h"

namespace trek::bench {

struct GpuOptions {
  std::vector<std::string> engines = {"resident", "jit"};
  std::string programs = "tests/bench/programs";
  std::string python = "python3";
  std::string script = "tests/bench/pytorch_rivals.py";
  // Of PyTorch's. Not `autotune`, which takes minutes.
  std::vector<std::string> forms = {"graph", "eager", "compile"};
  int form_seconds = 120;  // until one of them is ready, at most
  // Of a network's only these, by name; none: all.
  std::vector<std::string> numerics;
  std::string list;  // of lists of products only those that have it in their names
  // Of their products only those that have one of these in their names; none: all.
  std::vector<std::string> shapes;
  bool quick = false;  // small: that it works, no figures
  bool check = false;  // only whether results are right, on any engine
  measure::Rounds rounds;
};

// What stands on the other side.
struct Natives {
  // The device, its clock and its kernels; none under `check`.
  std::optional<measure::CeilingBench> device;
  std::optional<driver::Cublas> cublas;
  std::unique_ptr<PyTorch> pytorch;
  double copy_bytes = 0;  // a second, read plus written, the faster of two ways; 0: not measured
};

struct GpuBench {
  const GpuOptions& options;
  const Engines& engines;
  Natives& natives;
  Recorder& recorder;
};

// A program on one engine, loaded, and how it is called in the report: "jit strict".
struct Side {
  const Engine* engine;
  NumericsMode numerics;
  std::string name;
  std::unique_ptr<BenchProgram> program;
};
// `program` on every engine under each of the numerics.
Result<std::vector<Side>> open_sides(GpuBench& bench, const std::string& program,
                                     const Defines& defines,
                                     std::span<const NumericsMode> numerics);

// Dependent instructions, beside barriers across the grid.
Status bench_chains(GpuBench& bench);
// One product as one instruction, beside cuBLAS.
Status bench_product_bf16(GpuBench& bench);
Status bench_product_f32(GpuBench& bench);
// Lists of products (gemm_shapes.h), beside cuBLAS in a CUDA graph.
Status bench_gemm_bf16(GpuBench& bench);
Status bench_gemm_f16(GpuBench& bench);
Status bench_gemm_f32(GpuBench& bench);
Status bench_gemm_tf32(GpuBench& bench);
Status bench_gemm_tuned(GpuBench& bench);
// Softmax, layer norm, gelu, losses and Adam over more than the cache holds, beside a plain addition.
Status bench_rows(GpuBench& bench);
// Networks, beside PyTorch.
Status bench_mlp_step(GpuBench& bench);
Status bench_mlp_step_4096(GpuBench& bench);
Status bench_mlp_forward(GpuBench& bench);
Status bench_lstm(GpuBench& bench);
Status bench_gpt2_token(GpuBench& bench);

}  // namespace trek::bench
