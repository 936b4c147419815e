#!/usr/bin/env bash
# tests/gpu/resident.sh PACKAGE OUT: the resident emulator on a device, from a folder that tools/package
# --data has made: conformance, samples and products against ref, random modules, a killed process, two processes at
# once, gpu-resident. Ends with what failed, and writes OUT/DEVICE-resident-DATE.json. MODULES says how many random
# modules (10000).
set -uo pipefail
p=$(cd "$1" && pwd)
mkdir -p "$2"
results=$(cd "$2" && pwd)
out=$(mktemp -d) # logs
modules=${MODULES:-10000}
run=$p/bin/trek-run
export CUDA_CACHE_PATH=${CUDA_CACHE_PATH:-/tmp/trek-cuda-cache} CUDA_CACHE_MAXSIZE=4294967296
if [[ -d $p/data && ! -e /usr/share/datasets/fashion-mnist ]]; then
  mkdir -p /usr/share/datasets && cp -r "$p/data/fashion-mnist" /usr/share/datasets/
fi
[[ -e /usr/share/datasets/fashion-mnist ]] || { echo "resident.sh: no data for the samples; make the package with tools/package --data" >&2; exit 1; }
cd "$p"
source tests/gpu/report.sh

echo "== start-up"
for word in first again; do
  begin=$(date +%s%N)
  quick 180 "$run" samples/01_hello.trek --engine resident --digest | tail -n 1 || fail "hello $word"
  fact[start_${word}_ms]=$((($(date +%s%N) - begin) / 1000000))
done
echo "first ${fact[start_first_ms]} ms, again ${fact[start_again_ms]} ms"

echo "== conformance"
good=0
for file in tests/conformance/*.trek; do
  if quick 30 "$run" --test --engine resident --quiet "$file" >"$out/last.log" 2>&1; then
    good=$((good + 1))
  else
    fail "conformance $(basename "$file")"
    head -n 5 "$out/last.log"
  fi
done
fact[conformance_files]=$good

echo "== products of many shapes, samples, rows in words: the digests of ref"
python3 tests/gpu/products.py >"$out/products.trek"
for program in "$out/products.trek" samples/0{2_softmax_regression,3_fashion_mnist}.trek tests/gpu/{adam_moments,few_products,made_gradients,made_rows,moves,part_rows,recurrent,thin_stays,warp_products}.trek; do
  name=$(basename "$program" .trek)
  options=()
  [[ $name = part_rows ]] && options=(--set trips=200)
  for engine in ref resident; do
    quick 100 "$run" "$program" --engine $engine --digest --quiet "${options[@]}" >"$out/$name-$engine.txt" 2>&1 || fail "$name on $engine"
  done
  if [[ -s $out/$name-ref.txt ]] && cmp -s "$out/$name-ref.txt" "$out/$name-resident.txt"; then
    echo "$name: the same $(grep -c '^@' "$out/$name-ref.txt") digests"
    fact[same_digests_$name]=$(grep -c '^@' "$out/$name-ref.txt")
  else
    fail "$name differs"
  fi
done

echo "== fast products inside their bound"
python3 tests/gpu/products_fast.py >"$out/products_fast.trek"
quick 60 "$run" --test --engine resident --numerics fast --quiet "$out/products_fast.trek" 2>&1 | tail -n 3 | tee "$out/products_fast.log"
grep -q ' 0 failed' "$out/products_fast.log" || fail "fast products"

echo "== products of one row under fast numerics, near ref"
if TREK_BIN=$p/bin quick 60 python3 tests/gpu/gemv.py resident 5; then
  echo "gemv: as near as they must be"
else
  fail "products of one row"
fi
TREK_BIN=$p/bin quick 120 python3 tests/gpu/gemv_random.py resident 0 60 || fail "random chains of products of one row"

echo "== $modules random modules"
(cd "$out" && quick 200 "$p/bin/engines-agree" resident --modules "$modules" --first 5000) | tail -n 12 | tee "$out/random.log"
grep -q ": 0 differ" "$out/random.log" || fail "random modules"
fact[random_modules]=$modules

echo "== a killed process, and two at once"
"$run" samples/03_fashion_mnist.trek --engine resident --quiet >/dev/null 2>&1 &
victim=$!
sleep 0.8
kill -9 $victim
wait $victim 2>/dev/null
for i in 1 2; do
  quick 60 "$run" samples/03_fashion_mnist.trek --engine resident --digest --quiet >"$out/twin-$i.txt" 2>&1 &
  twins[$i]=$!
done
for i in 1 2; do
  wait "${twins[$i]}"
  cmp -s "$out/twin-$i.txt" "$out/03_fashion_mnist-ref.txt" || fail "two processes at once: $i"
done

echo "== the tests of emulator/resident"
quick 90 bin/gpu-resident >"$out/gpu-resident.log" 2>&1 || { fail "gpu-resident"; grep -m 3 -B 6 -A 8 FAILED "$out/gpu-resident.log"; }
tail -n 3 "$out/gpu-resident.log"

echo "== times"
for program in tests/bench/programs/{chain_within,product_f32,scalars}.trek samples/03_fashion_mnist.trek; do
  name=$(basename "$program" .trek)
  times=()
  for _ in 1 2 3 4 5; do
    times+=("$(quick 60 "$run" "$program" --engine resident --quiet --profile 2>/dev/null | awk '/ in all: / { print $1, $2; exit }')")
  done
  median=$(printf '%s\n' "${times[@]}" | sort -g | sed -n 3p)
  echo "$name: $median (of ${times[*]})"
  fact[time_$name]="\"$median\""
done

report resident "MODULES=$modules tests/gpu/resident.sh PACKAGE OUT"
