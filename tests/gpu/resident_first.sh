#!/usr/bin/env bash
# A first look at the resident emulator on a device: BIN OUT
set -uo pipefail
p=$1; out=$2
export CUDA_CACHE_PATH=/tmp/cuda-cache CUDA_CACHE_MAXSIZE=4294967296
run=$p/bin/trek-run
mkdir -p /usr/share/datasets && cp -r "$p/data/fashion-mnist" /usr/share/datasets/ 2>/dev/null
nproc; nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
$run --list-engines
( nice -n 19 timeout -k 3 560 "$p/bin/trek-accuracy" --threads 14 --json "$out/accuracy-f32.json" --type f32 --function relu elu gelu gelu_tanh silu mish softplus hardswish elu.grad gelu.grad gelu_tanh.grad silu.grad mish.grad softplus.grad hardswish.grad erf.grad > "$out/accuracy-f32.log" 2>&1;  date > "$out/accuracy.done" ) &
cd "$p"
echo "== hello"; time timeout -k 3 200 $run samples/01_hello.trek --engine resident --digest 2>&1 | tail -8
time timeout -k 3 60 $run samples/01_hello.trek --engine resident --digest 2>&1 | tail -3
$run samples/01_hello.trek --engine ref --digest --quiet | tail -3
echo "== conformance"; start=$SECONDS; good=0; bad=0
for f in tests/conformance/*.trek; do
  if timeout -k 3 60 $run --test --engine resident --quiet "$f" > "$out/$(basename "$f").log" 2>&1; then good=$((good+1)); rm "$out/$(basename "$f").log"; else bad=$((bad+1)); echo "-- $f: $?"; head -4 "$out/$(basename "$f").log"; fi
done
echo "conformance: $good good, $bad bad, $((SECONDS-start)) s"
echo "== random"; cd "$out"; time timeout -k 3 150 "$p/bin/engines-agree" resident --modules 1500 2>&1 | tail -40
cd "$p"
for s in 02_softmax_regression 03_fashion_mnist; do echo "== $s"
 for e in ref resident; do timeout -k 3 100 $run samples/$s.trek --engine $e --digest --profile > "$out/$s-$e.txt" 2>&1; echo "$e rc=$?"; grep -E "accuracy|@" "$out/$s-$e.txt" | tail -8; done; tail -30 "$out/$s-resident.txt"; done
S=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer)
echo "== memcheck"; for f in add matmul sort sum loop gather; do timeout -k 3 60 $S --tool memcheck --error-exitcode 9 $run --test --engine resident --quiet tests/conformance/$f.trek 2>&1 | tail -2; done
jobs; ls "$out" | head -50
wait
tail -50 "$out/accuracy-f32.log"
