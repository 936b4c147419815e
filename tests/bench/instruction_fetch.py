#!/usr/bin/env python3
"""tests/bench/instruction_fetch.py: what fetching instructions costs on the GPU that is here.

Kernels of nothing but multiplications, gone through again and again: of how many KB, by how many warps of a block a
multiprocessor, all of them through the same code or each through its own, in line or in blocks that jump to one another
in any order. Prints cycles an instruction. nvcc compiles them: $NVCC, or the one on the PATH.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile

FOUR = "".join(f"fma.rn.f32 %{i}, %{i}, %4, %4; " for i in range(4))
PER_KB = 64  # instructions


class Case:
    """A kernel: `kb` of code in blocks of `block` instructions, `regions` times, one for each of so many warps."""

    def __init__(self, kb, block=256, regions=1, jumps=False, warps=(1, 8)):
        self.name = f"code_{kb}_{block}_{regions}_{int(jumps)}"
        self.blocks = kb * PER_KB // block
        self.instructions = self.blocks * (block + (1 if jumps else 0))
        self.kb, self.block, self.regions, self.jumps, self.warps = kb, block, regions, jumps, warps

    def region(self, number):
        """One region as PTX. A jump is conditional, or ptxas would put the blocks in its order."""
        order = list(range(1, self.blocks))
        if self.jumps:
            random.shuffle(order)
        order = [0, *order]
        behind = {at: order[i + 1] if i + 1 < len(order) else "END" for i, at in enumerate(order)}
        label = f"L{self.name}_{number}_"
        text = "{ .reg .pred p; setp.eq.s32 p, %5, 1; "
        for at in range(self.blocks):
            text += f"{label}{at}: " + FOUR * (self.block // 4)
            if self.jumps:
                text += f"@p bra {label}{behind[at]}; "
        return text + (f"trap; {label}END: " if self.jumps else "") + "}"

    def kernel(self):
        regions = "".join(
            f'if (warp % {self.regions} == {r}) asm volatile("{self.region(r)}"'
            ' : "+f"(a), "+f"(b), "+f"(c), "+f"(d) : "f"(x), "r"(one));\n'
            for r in range(self.regions)
        )
        return f"""
__global__ void {self.name}(float* sums, long long* cycles, float x, int one) {{
  float a = x, b = x + 1, c = x + 2, d = x + 3;
  const int warp = threadIdx.x / 32;
  long long begin = 0;
#pragma unroll 1
  for (int i = 0; i < kBefore + kTimes; ++i) {{
    if (i == kBefore) begin = clock64();
    {regions}
  }}
  if (blockIdx.x == 0 && threadIdx.x == 0) *cycles = clock64() - begin;
  sums[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d;
}}
"""

    def calls(self):
        what = f"{self.kb} KB" + (f" a warp, of {self.regions} warps" if self.regions > 1 else "")
        what += f", jumps every {self.block}" if self.jumps else ""
        return "".join(
            f'measure({self.name}, "{what}", {warps}, {self.instructions});\n' for warps in self.warps
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="native", help="what is compiled for, as sm_90")
    parser.add_argument("--program", help="only compile, to this file")
    options = parser.parse_args()
    random.seed(1)
    cases = [Case(kb) for kb in (4, 16, 24, 32, 40, 64, 128, 160, 256)]
    cases += [Case(12, regions=r, warps=(r,)) for r in (2, 4, 8)]
    cases += [Case(kb, block=16, jumps=True) for kb in (8, 24, 40, 64, 100)]
    source = f"""#include <cstdio>
#include <cstdlib>
constexpr int kBefore = 4, kTimes = 20;
{"".join(case.kernel() for case in cases)}
template <class Kernel>
void measure(Kernel kernel, const char* what, int warps, int instructions) {{
  float* sums;
  long long* cycles;
  int blocks = 0;
  cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, 0);
  cudaMallocManaged(&sums, sizeof(float) * blocks * warps * 32);
  cudaMallocManaged(&cycles, sizeof *cycles);
  kernel<<<blocks, warps * 32>>>(sums, cycles, 0.5f, 1);
  if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) {{
    std::fprintf(stderr, "instruction_fetch: %s\\n", cudaGetErrorString(error));
    std::exit(3);
  }}
  std::printf("%-36s %d warps %6.2f cycles an instruction\\n", what, warps,
              double(*cycles) / kTimes / instructions);
  cudaFree(sums);
  cudaFree(cycles);
}}
int main() {{
{"".join(case.calls() for case in cases)}}}
"""
    with tempfile.TemporaryDirectory() as folder:
        path, program = os.path.join(folder, "fetch.cu"), os.path.join(folder, "fetch")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        compiler = [os.environ.get("NVCC", "nvcc"), "-std=c++17", f"-arch={options.arch}"]
        try:
            subprocess.run([*compiler, path, "-o", program], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"instruction_fetch: {error}")
        if options.program:
            shutil.move(program, options.program)
        else:
            sys.exit(subprocess.run([program], check=False).returncode)


if __name__ == "__main__":
    main()
