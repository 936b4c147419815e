#include "tests/bench/onednn.h"

#include <dnnl.hpp>
#include <fmt/format.h>
#include <omp.h>

namespace trek::bench {

struct OneDnnMatmul::State {
  int threads = 1;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::memory::desc a;
  dnnl::memory::desc b;
  dnnl::memory::desc c;
  dnnl::matmul product;
};

driver::Result<OneDnnMatmul> OneDnnMatmul::create(const MatmulShape& shape, int threads) {
  using Tag = dnnl::memory::format_tag;
  constexpr auto kF32 = dnnl::memory::data_type::f32;
  try {
    omp_set_num_threads(threads);  // oneDNN plans for as many when it makes a primitive
    auto state = std::make_shared<State>();
    state->threads = threads;
    state->a = {{shape.m, shape.k}, kF32, Tag::ab};
    state->b = {{shape.k, shape.n}, kF32, Tag::ab};
    state->c = {{shape.m, shape.n}, kF32, Tag::ab};
    const dnnl::matmul::desc description(state->a, state->b, state->c);
    state->product = dnnl::matmul({description, state->engine});
    return OneDnnMatmul(std::move(state));
  } catch (const dnnl::error& error) {
    return driver::Error{fmt::format("making oneDNN's product {}x{}x{}", shape.m, shape.n, shape.k),
                         "", error.what()};
  }
}

std::string OneDnnMatmul::version() {
  const dnnl::version_t* version = dnnl::version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

void OneDnnMatmul::run(std::span<float> a, std::span<float> b, std::span<float> c) {
  omp_set_num_threads(state_->threads);
  state_->product.execute(state_->stream,
                          {{DNNL_ARG_SRC, {state_->a, state_->engine, a.data()}},
                           {DNNL_ARG_WEIGHTS, {state_->b, state_->engine, b.data()}},
                           {DNNL_ARG_DST, {state_->c, state_->engine, c.data()}}});
  state_->stream.wait();
}

}  // namespace trek::bench
