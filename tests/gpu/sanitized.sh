#!/usr/bin/env bash
# tests/gpu/sanitized.sh PACKAGE OUT: compute-sanitizer over conformance files on the engines that use a device, from a
# folder that tools/package has made; first what its racecheck says of kernels whose races are known. Ends with what was
# found, and writes OUT/DEVICE-sanitized-DATE.json. ENGINES ("resident jit"), FILES (some of them) and TOOLS (all four) say
# what is checked. racecheck is for the resident emulator alone, and runs PACKAGE/bin/trek-run-racecheck where there is one: a
# trek-run of a build with -DTREK_FOR_RACECHECK=ON (emulator/resident/README.md). AT_ONCE (3) says how many processes share
# the device, LIMIT (180) how many seconds a tool has for a file: racecheck takes 2 to 3 for a test.
set -uo pipefail
p=$(cd "$1" && pwd)
mkdir -p "$2"
results=$(cd "$2" && pwd)
out=$(mktemp -d) # logs
engines=${ENGINES:-resident jit}
files=${FILES:-add matmul sort loop gather cumsum softmax cross_entropy adam}
tools=${TOOLS:-memcheck synccheck initcheck racecheck}
run=$p/bin/trek-run
export CUDA_CACHE_PATH=${CUDA_CACHE_PATH:-/tmp/trek-cuda-cache} CUDA_CACHE_MAXSIZE=4294967296 TREK_CUBIN_CACHE=$out/cubins
cd "$p"
source tests/gpu/report.sh
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
[[ -n $sanitizer ]] || { echo "compute-sanitizer is not here"; exit 77; }
# By name, or the JIT would take this computer where a device is not to be had.
level=$("$run" --list-engines | sed -nE 's/^jit .* level (sm_[0-9a-z]+).*/\1/p')
[[ -n $level ]] && export TREK_JIT_TARGET=$level

# sanitize ENGINE TOOL TREK_RUN: the tool over the files.
sanitize() {
  local engine=$1 tool=$2 checked=$3 begin=$SECONDS name found=0
  # shellcheck disable=SC2086
  printf '%s\n' $files | xargs -P "${AT_ONCE:-3}" -I{} sh -c \
    "timeout -k 3 ${LIMIT:-180} '$sanitizer' --tool $tool --error-exitcode 9 '$checked' --test --engine $engine --quiet tests/conformance/{}.trek >'$out/$engine-$tool-{}.log' 2>&1; echo \$? >'$out/$engine-$tool-{}.code'"
  for name in $files; do
    [[ $(cat "$out/$engine-$tool-$name.code") = 0 ]] && continue
    found=$((found + 1))
    echo "$engine, $tool, $name: exit $(cat "$out/$engine-$tool-$name.code")"
    grep -m 3 -E "=========     |Error|Race|hazard" "$out/$engine-$tool-$name.log"
  done
  fact[${engine}_${tool}_files_with_findings]=$found
  echo "$engine, $tool: $found of $(wc -w <<<"$files") files with findings, $((SECONDS - begin)) s"
  ((found == 0)) || fail "$tool on $engine"
}

echo "== racecheck of known races"
SANITIZER=$sanitizer quick 60 tests/gpu/racecheck.sh bin/racecheck-probe || fail "racecheck of known races"
[[ -n $level || $engines != *jit* ]] || fail "the engine jit takes no GPU here"
for engine in $engines; do
  for tool in ${tools/racecheck/}; do sanitize "$engine" "$tool" "$run"; done
done
if [[ $engines == *resident* && $tools == *racecheck* ]]; then
  racecheck=$run
  [[ -x $run-racecheck ]] && racecheck=$run-racecheck
  fact[racecheck_of]="\"$(basename "$racecheck")\""
  sanitize resident racecheck "$racecheck"
fi

fact[files]="\"$files\""
report sanitized "ENGINES='$engines' TOOLS='$tools' tests/gpu/sanitized.sh PACKAGE OUT"
