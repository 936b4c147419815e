#!/usr/bin/env bash
# tests/gpu/run_on_device.sh BIN OUT: everything that only a GPU can show, in one go of a few minutes.
#
#   BIN  a folder with trek-measure, tests/gpu-device, tests/semantics-bits (and, where the machine lacks
#        it, lib/libfmt.so.9 beside them)
#   OUT  where results and logs go: h200-*.json by the names that tests/bench/results keeps, *.log
#
# Each step goes on when another fails; the last lines say which did. Exit code: the number of failures.
set -uo pipefail
bin=$1
out=$2
mkdir -p "$out"
export LD_LIBRARY_PATH="$bin/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
device=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | sed 's/.* //' | tr 'A-Z' 'a-z')
date=$(date -u +%F)
failures=()

step() { # NAME SECONDS COMMAND...
  local name=$1 seconds=$2
  shift 2
  echo "== $name: $*"
  timeout "$seconds" "$@" >"$out/$name.log" 2>&1
  local code=$?
  tail -n "${LINES_SHOWN:-12}" "$out/$name.log"
  if ((code != 0)); then
    echo "== $name: FAILED with $code"
    failures+=("$name")
  fi
}

# cuBLAS and NVRTC where the loader does not look, as inside a Python package.
for name in cublas nvrtc; do
  variable=TREK_${name^^}_LIBRARY
  if ! ldconfig -p | grep -q "lib$name.so.1[23]" && [[ ! -e /usr/local/cuda/lib64/lib$name.so.13 ]]; then
    found=$(find / -xdev -name "lib$name.so.1[23]" -not -path '*/stubs/*' 2>/dev/null | head -n 1)
    [[ -n $found ]] && export "$variable=$found" && echo "$variable=$found"
  fi
done

nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm,temperature.gpu --format=csv
LINES_SHOWN=14 step devices 20 "$bin/trek-measure" devices
LINES_SHOWN=40 step driver 60 "$bin/tests/gpu-device"
LINES_SHOWN=40 step ceilings 100 "$bin/trek-measure" ceilings --json "$out/$device-ceilings-$date.json"
LINES_SHOWN=100 step semantics "${SEMANTICS_SECONDS:-150}" "$bin/tests/semantics-bits" --json "$out/$device-semantics-$date.json"
if sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null); then
  check=("$sanitizer" --tool memcheck --report-api-errors no --error-exitcode 9)
  step memcheck-driver 60 "${check[@]}" "$bin/tests/gpu-device"
  step memcheck-ceilings 90 "${check[@]}" "$bin/trek-measure" ceilings --quick --rounds 5
else
  echo "== compute-sanitizer is not here"
fi
echo "== failures: ${failures[*]:-none}"
exit ${#failures[@]}
