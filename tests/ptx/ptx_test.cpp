// The interpreter by itself: kernels of a few lines, whose results are known, and what it says of wrong ones.
#include <bit>
#include <string>

#include <catch2/catch.hpp>

#include "tests/ptx/machine.h"
#include "tests/ptx/read.h"
#include "tests/ptx/text.h"

namespace trek::ptx {
namespace {

constexpr const char* kHead = ".version 8.0\n.target sm_90a\n.address_size 64\n";

// A kernel `k` of one parameter, the address of words that it may write.
class Bench {
 public:
  explicit Bench(const std::string& body, const std::string& before = "")
      : module_(read_module(text_ = kHead + before +
                                    ".visible .entry k(.param .u64 k_param_0) {\n" +
                                    ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<30>; " +
                                    ".reg .f32 %f<9>; .reg .b64 %rd<30>;\n" +
                                    "ld.param.u64 %rd1, [k_param_0];\nmov.u32 %r1, %tid.x;\n" +
                                    "mul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd2, %rd1, %rd2;\n" +
                                    body + "\nret;\n}\n",
                            memory_)) {
    words_ = memory_.allocate(kWords * 4);
  }

  void run(uint32_t threads = 32, uint64_t seed = 1, uint32_t blocks = 1, uint32_t cluster = 1) {
    LaunchShape shape;
    shape.cluster = cluster;
    shape.grid = {blocks, 1, 1};
    shape.block = {threads, 1, 1};
    shape.dynamic_shared_bytes = 1024;
    shape.resident_blocks = 2;
    shape.seed = seed;
    std::vector<std::byte> parameters(8);
    std::memcpy(parameters.data(), &words_, 8);
    Grid(*module_, *module_->find("k"), shape, parameters, memory_).run();
  }
  // What a run says is wrong; empty where nothing is.
  std::string error(uint32_t threads = 32, uint32_t blocks = 1, uint32_t cluster = 1) {
    try {
      run(threads, 1, blocks, cluster);
    } catch (const KernelError& error) {
      return error.what();
    }
    return "";
  }
  uint32_t& word(uint32_t i) {
    return reinterpret_cast<uint32_t*>(words_)[i];
  }  // NOLINT(performance-no-int-to-ptr)

  static constexpr uint32_t kWords = 256;

 private:
  DeviceMemory memory_{1 << 20};
  std::string text_;
  std::unique_ptr<Module> module_;
  uint64_t words_ = 0;
};

std::string text_error(const std::string& text) {
  DeviceMemory memory(1 << 20);
  try {
    read_module(text, memory);
  } catch (const TextError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every lane works out its own element") {
  Bench bench("mad.lo.s32 %r2, %r1, %r1, 7; st.global.u32 [%rd2], %r2;");
  bench.run(96);
  for (uint32_t i = 0; i < 96; ++i) CHECK(bench.word(i) == i * i + 7);
  CHECK(bench.word(96) == 0xFFFFFFFF);  // nobody's
}

TEST_CASE("arithmetic of f32 rounds once, and has one NaN") {
  Bench bench(
      "mov.f32 %f1, 0f3F800001; mov.f32 %f2, 0fBF800000;"
      "fma.rn.f32 %f3, %f1, %f1, %f2; st.global.f32 [%rd1], %f3;"  // (1 + 2^-23)^2 - 1, exactly
      "mov.f32 %f4, 0f7F800000; sub.rn.f32 %f5, %f4, %f4; st.global.f32 [%rd1+4], %f5;"
      "mov.f32 %f6, 0f80000000; mov.f32 %f7, 0f00000000; min.f32 %f8, %f7, %f6;"
      "st.global.f32 [%rd1+8], %f8;"
      "cvt.rn.bf16x2.f32 %r2, %f1, %f4; st.global.u32 [%rd1+12], %r2;"
      "mov.f32 %f1, 0f4F800000; cvt.rzi.s32.f32 %r3, %f1; st.global.u32 [%rd1+16], %r3;");
  bench.run(1);
  CHECK(std::bit_cast<float>(bench.word(0)) == 0x1.000001p-22F);
  CHECK(bench.word(1) == 0x7FFFFFFF);
  CHECK(bench.word(2) == 0x80000000);
  CHECK(bench.word(3) == 0x3F807F80);
  CHECK(bench.word(4) == 0x7FFFFFFF);
}

TEST_CASE("blocks of a cluster send to each other's shared memory") {
  const std::string memory = ".extern .shared .align 128 .b8 m[];\n";
  const std::string meet = "barrier.cluster.arrive; barrier.cluster.wait;";
  const std::string begin =
      "mov.u32 %r2, m; mbarrier.init.shared.b64 [%r2], 1;" + meet +
      "mov.u32 %r3, %cluster_ctarank; xor.b32 %r4, %r3, 1; add.s32 %r6, %r2, 16;"
      "mapa.shared::cluster.u32 %r5, %r2, %r4; mapa.shared::cluster.u32 %r7, %r6, %r4;";
  const std::string send =
      "add.s32 %r8, %r3, 10; mov.b32 %f1, %r8;"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
      "[%r7], {%f1, %f1, %f1, %f1}, [%r5];";
  const std::string give =
      "mov.u32 %r10, %ctaid.x; mul.wide.u32 %rd3, %r10, 4;"
      "add.s64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], %r9;" +
      meet;
  const auto check = [](Bench& bench, uint32_t last) {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      bench.run(1, seed, 4, 2);
      for (uint32_t block = 0; block < 4; ++block) CHECK(bench.word(block) == last - block % 2);
    }
  };
  Bench bench(begin + send +
                  "mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16;"
                  "AGAIN: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra AGAIN;"
                  "ld.shared.u32 %r9, [%r6+12];" +
                  give,
              memory);
  check(bench, 11);
  // A word.
  Bench tells(
      begin +
          "add.s32 %r8, %r3, 20;"
          "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7], %r8, [%r5];"
          "mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 4;"
          "AGAIN: mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r2], 0;"
          "@!%p1 bra AGAIN; ld.shared.u32 %r9, [%r6];" +
          give,
      memory);
  check(tells, 21);
  // A block that does not stay for the other.
  Bench leaves(begin +
                   "setp.eq.s32 %p1, %r3, 1; @%p1 bra OUT; mov.u32 %r11, 0;"
                   "MORE: add.s32 %r11, %r11, 1; setp.ne.s32 %p2, %r11, 20000; @%p2 bra MORE;" +
                   send + "OUT:",
               memory);
  CHECK_THAT(leaves.error(1, 2, 2), Catch::Contains("shared memory of a block that has ended"));
  Bench alone(begin + send, memory);
  CHECK_THAT(alone.error(1, 1, 1), Catch::Contains("no block of the cluster has that rank"));
}

TEST_CASE("lanes that part meet again") {
  Bench bench(
      "and.b32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 0; @%p1 bra EVEN;"
      "mov.u32 %r3, 100; bra.uni JOIN;"
      "EVEN: mov.u32 %r3, 200;"
      "JOIN: bar.warp.sync 0xffffffff; shfl.sync.bfly.b32 %r4, %r3, 1, 31, 0xffffffff;"
      "st.global.u32 [%rd2], %r4;");
  bench.run();
  for (uint32_t i = 0; i < 32; ++i) CHECK(bench.word(i) == (i % 2 == 0 ? 100 : 200));
}

TEST_CASE("eight lines of eight elements are turned around") {
  // Lane l has elements 2 l and 2 l + 1 of the 64, line by line.
  Bench bench(
      "shl.b32 %r2, %r1, 1; add.s32 %r3, %r2, 1; shl.b32 %r3, %r3, 16; or.b32 %r2, %r2, %r3;"
      "movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r2; st.global.u32 [%rd2], %r4;");
  bench.run();
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t first = lane % 4 * 2 * 8 + lane / 4;
    CHECK(bench.word(lane) == (first | (first + 8) << 16));
  }
}

TEST_CASE("a lane that waits for another of its warp lets it go on") {
  // Lane 0 looks at a word until lane 1 has written it, and stands before it in the text.
  Bench bench(
      "setp.gt.u32 %p3, %r1, 1; @%p3 bra END;"
      "setp.eq.s32 %p1, %r1, 1; @%p1 bra WRITE;"
      "LOOK: ld.acquire.gpu.global.u32 %r2, [%rd1+64]; setp.ne.s32 %p2, %r2, 5; @%p2 bra LOOK;"
      "st.global.u32 [%rd1], %r2; bra.uni END;"
      "WRITE: mov.u32 %r3, 5; st.release.gpu.global.u32 [%rd1+64], %r3;"
      "END:");
  bench.run();
  CHECK(bench.word(0) == 5);
}

TEST_CASE("calls pass parameters, and have registers and local memory of their own") {
  const std::string square =
      ".func (.param .b32 func_retval0) twice(.param .b32 twice_param_0)\n{\n"
      ".local .align 8 .b8 __depot[16]; .reg .b64 %SP<3>; .reg .b32 %r<4>;\n"
      "mov.u64 %SP1, __depot; ld.param.u32 %r1, [twice_param_0]; st.local.u32 [%SP1+4], %r1;\n"
      "ld.local.u32 %r2, [%SP1+4]; add.s32 %r3, %r1, %r2;\n"
      "st.param.b32 [func_retval0+0], %r3; ret;\n}\n";
  Bench bench(
      "{ .param .b32 param0; st.param.b32 [param0+0], %r1; .param .b32 retval0;\n"
      "call.uni (retval0), twice, (param0); ld.param.b32 %r2, [retval0+0]; }\n"
      "st.global.u32 [%rd2], %r2;",
      square);
  bench.run();
  for (uint32_t i = 0; i < 32; ++i) CHECK(bench.word(i) == 2 * i);
}

TEST_CASE("a barrier holds warps of a block together") {
  // Each warp writes its words and reads the other's.
  const std::string exchange =
      "mul.lo.s32 %r2, %r1, 4; st.shared.u32 [%r2+1024], %r1;"
      "BARRIER"
      "xor.b32 %r3, %r1, 32; mul.lo.s32 %r3, %r3, 4; ld.shared.u32 %r4, [%r3+1024];"
      "st.global.u32 [%rd2], %r4;";
  const std::string shared = ".extern .shared .align 16 .b8 memory[];\n";
  const auto with = [&](const std::string& barrier) {
    std::string body = exchange;
    return body.replace(body.find("BARRIER"), 7, barrier);
  };
  bool fails_without = false;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Bench bench(with("bar.sync 0;"), shared);
    bench.run(64, seed);
    for (uint32_t i = 0; i < 64; ++i) REQUIRE(bench.word(i) == (i ^ 32));
    Bench broken(with(""), shared);
    broken.run(64, seed);
    for (uint32_t i = 0; i < 64; ++i) fails_without |= broken.word(i) != (i ^ 32);
  }
  CHECK(fails_without);
}

TEST_CASE("mbarriers pass phase after phase, and copies arrive at them") {
  Bench bench(
      "setp.ne.s32 %p1, %r1, 0; @%p1 bra READY; mov.u32 %r2, 1536; mov.u32 %r3, 1;"
      "mbarrier.init.shared.b64 [%r2], %r3; READY: bar.sync 0;"
      "setp.ge.u32 %p2, %r1, 32; @%p2 bra TAKE;"
      "@%p1 bra END;"
      "mov.u32 %r4, 1024; cp.async.ca.shared.global [%r4], [%rd1+512], 4;"
      "mov.u32 %r2, 1536; cp.async.mbarrier.arrive.noinc.shared.b64 [%r2]; bra.uni END;"
      "TAKE: mov.u32 %r5, 1024; mov.u32 %r6, 1536;"
      "WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r6], 0; @!%p3 bra WAIT;"
      "ld.shared.u32 %r7, [%r5]; st.global.u32 [%rd2], %r7; END:",
      ".extern .shared .align 16 .b8 memory[];\n");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    bench.word(128) = 77 + static_cast<uint32_t>(seed);
    bench.run(64, seed);
    for (uint32_t i = 32; i < 64; ++i) REQUIRE(bench.word(i) == 77 + seed);
  }
}

TEST_CASE("copies that are not waited for have not come") {
  Bench bench(
      "mad.lo.s32 %r2, %r1, 4, 1024; mov.u32 %r9, 0; st.shared.u32 [%r2], %r9;"
      "cp.async.ca.shared.global [%r2], [%rd1+512], 4; cp.async.commit_group;"
      "ld.shared.u32 %r3, [%r2]; st.global.u32 [%rd2], %r3;"
      "cp.async.wait_group 0; ld.shared.u32 %r3, [%r2]; st.global.u32 [%rd2+256], %r3;",
      ".extern .shared .align 16 .b8 memory[];\n");
  bench.word(128) = 9;
  bench.run();
  uint32_t sooner = 0;
  for (uint32_t i = 0; i < 32; ++i) {
    sooner += bench.word(i) == 9 ? 1 : 0;
    CHECK(bench.word(64 + i) == 9);
  }
  CHECK(sooner > 0);
  CHECK(sooner < 32);
}

TEST_CASE("what a kernel may not do is said with its line") {
  using Catch::Contains;
  CHECK_THAT(Bench("st.global.u32 [%rd1+1024], %r1;").error(),
             Contains("4 bytes at") && Contains("behind the end of an allocation of 1024") &&
                 Contains("st.global.u32 [%rd1+1024], %r1;") && Contains("lane 0"));
  CHECK_THAT(Bench("mov.u64 %rd3, 64; ld.u32 %r2, [%rd3];").error(), Contains("nobody's"));
  CHECK_THAT(Bench("st.global.u32 [%rd1+2], %r1;").error(), Contains("no multiple of the 4"));
  CHECK_THAT(Bench("mov.u32 %r2, 2048; ld.shared.u32 %r3, [%r2];").error(),
             Contains("4 bytes at 2048 of 2048 of shared memory"));
  CHECK_THAT(Bench("mov.u32 %r2, 1024; ld.shared.u32 %r3, [%r2+-4];").error(),
             Contains("4 bytes at 1020 of 2048 of shared memory"));
  CHECK_THAT(Bench("mad.lo.u32 %r2, %r1, 64, 1024; st.shared.u32 [%r2], %r1;").error(),
             Contains("4 bytes at 2048 of 2048 of shared memory") && Contains("lane 16"));
  CHECK_THAT(Bench("ld.param.u32 %r2, [k_param_0+2];").error(), Contains("no multiple of the 4"));
  CHECK_THAT(Bench("mov.u32 %r2, 1032; mbarrier.arrive.shared.b64 _, [%r2];").error(),
             Contains("no mbarrier has been made"));
  CHECK_THAT(
      Bench(
          "setp.gt.u32 %p1, %r1, 9; @%p1 bra OUT; shfl.sync.bfly.b32 %r2, %r1, 16, 31, 1023; OUT:")
          .error(),
      Contains("takes no part"));
  CHECK_THAT(Bench("setp.lt.u32 %p1, %r1, 32; @%p1 bra OUT; bar.sync 0; OUT:").error(64),
             Contains(""));
}

TEST_CASE("warps that wait for each other for ever are told") {
  using Catch::Contains;
  CHECK_THAT(Bench("setp.lt.u32 %p1, %r1, 32; @%p1 bra OTHER; bar.sync 1, 64; bra.uni OUT;"
                   "OTHER: bar.sync 2, 64; OUT:")
                 .error(64),
             Contains("every warp waits for another") && Contains("warp 1"));
}

TEST_CASE("text that is no PTX, or not known, is refused with its line") {
  using Catch::Contains;
  const auto with = [](const std::string& body) {
    return std::string(kHead) + ".visible .entry k() {\n.reg .b32 %r<3>;\n" + body + "\nret;\n}\n";
  };
  CHECK(text_error(with("mov.u32 %r1, 1;")).empty());
  CHECK_THAT(text_error(with("frob.u32 %r1, 1;")), Contains("line 6") && Contains("frob.u32"));
  CHECK_THAT(text_error(with("bra NOWHERE;")), Contains("no label NOWHERE"));
  CHECK_THAT(text_error(with("mov.u32 %r1, 0f12;x")), Contains("line"));
  CHECK_THAT(text_error(with("call.uni nobody;")), Contains("nobody is not defined"));
  CHECK_THAT(text_error(std::string(kHead) + ".visible .entry k() {\nret;"),
             Contains("does not end"));
}

}  // namespace trek::ptx
