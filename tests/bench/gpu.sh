#!/usr/bin/env bash
# tests/bench/gpu.sh PACKAGE OUT [OPTION...]: every figure of the engines beside its rival, on a
# machine with a GPU and a Python that has PyTorch, from a folder that tools/package has made.
#
#   OUT/DEVICE-figures-DATE.json   the report, which tests/bench/results keeps
#   OUT/profile-NAME.txt           where the time of a program goes, by instruction
#   OUT/bench-gpu.log              what compilers and libraries of the rivals say
#
# Options are bench-gpu's (names of benchmarks, --rounds N, --form FORM, --quick, ...). $PYTHON is the
# interpreter (python3); $TREK_CUBLAS_LIBRARY names cuBLAS where it is not found by itself.
set -uo pipefail
if (($# < 2)); then
  sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
  exit 1
fi
p=$(cd "$1" && pwd) || exit 1
mkdir -p "$2" || exit 5
out=$(cd "$2" && pwd)
shift 2
cd "$p" || exit 1
export CUDA_CACHE_PATH=${CUDA_CACHE_PATH:-/tmp/trek-cuda-cache} CUDA_CACHE_MAXSIZE=4294967296

if ! devices=$(bin/trek-measure devices); then
  echo "gpu.sh: no GPU to measure on: $devices" >&2
  exit 4
fi
name=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
device=$(echo "${name##* }" | tr 'A-Z' 'a-z')

# cuBLAS where the loader does not look, as inside a Python package.
if [[ -z ${TREK_CUBLAS_LIBRARY:-} ]] && ! ldconfig -p | grep -q 'libcublas.so.1[23]'; then
  found=$(find / -xdev -name 'libcublas.so.1[23]' -not -path '*/stubs/*' 2>/dev/null | head -n 1)
  [[ -n $found ]] && export TREK_CUBLAS_LIBRARY=$found && echo "TREK_CUBLAS_LIBRARY=$found"
fi

bin/bench-gpu --json "$out/$device-figures-$(date -u +%F).json" --python "${PYTHON:-python3}" "$@" \
  2> >(tee "$out/bench-gpu.log" | grep '^bench-gpu' >&2)
code=$?

profile() { # PROGRAM NUMERICS TRIPS
  timeout -k 3 60 bin/trek-run "tests/bench/programs/$1.trek" --engine resident --numerics "$2" --set "trips=$3" \
    --quiet --profile >"$out/profile-$1.txt" 2>&1 || { echo "profile of $1 failed"; code=3; }
}
profile mlp_step strict 200
profile mlp_forward strict 1000
profile lstm strict 4
profile gpt2_token fast 20
exit $code
