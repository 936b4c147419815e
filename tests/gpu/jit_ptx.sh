#!/usr/bin/env bash
# tests/gpu/jit_ptx.sh TREK_RUN LEVEL [--spill BYTES] FILE...: what the JIT makes of programs for a level of GPUs is taken by
# ptxas, for which no GPU is needed, without a warning of the C75xx family, and with so many bytes of spilled registers in a
# function at most. Exit code 4: no ptxas, or no JIT.
set -euo pipefail
run=$1 level=$2 spill=
shift 2
[[ ${1-} = --spill ]] && { spill=$2 && shift 2; }
ptxas=$(PATH=$PATH:/usr/local/cuda/bin command -v ptxas) || { echo "jit_ptx.sh: skipped, there is no ptxas"; exit 4; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for file in "$@"; do
  numerics=strict
  [[ $file = *:fast ]] && numerics=fast
  TREK_JIT_TARGET=$level "$run" --dump ptx --device h200 --numerics $numerics "${file%:fast}" >"$out/program.ptx" || exit $?
  grep -q '^\.visible \.entry resident(' "$out/program.ptx" || { echo "$file: there is no kernel"; exit 1; }
  # The other roles of a block are there, too: somebody polls counters. (Inline PTX has braces at the start of lines.)
  polls=$(awk '/^\.(func|visible)/ { inside = 0 } /^\.visible \.entry resident\(/ { inside = 1 } inside' "$out/program.ptx" | grep -c 'ld\.acquire' || true)
  ((polls > 0)) || { echo "$file: the kernel polls no counter"; exit 1; }
  emulator/driver/assemble.sh "$ptxas" "$level" "$spill" "$out/program.ptx" "$out/program.cubin" || { echo "of $file"; exit 1; }
  echo "$file: $(grep -c '^\.func node_[0-9]*($' "$out/program.ptx") functions"
done
