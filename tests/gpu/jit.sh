#!/usr/bin/env bash
# tests/gpu/jit.sh PACKAGE OUT: the JIT on a device, from a folder that tools/package has made: conformance, products and
# programs against ref or the resident emulator, random modules, and what the first run costs beside the next. Ends
# with what failed, and writes OUT/DEVICE-jit-DATE.json. MODULES says how many random modules (2000), FIRST the first
# one's seed (9000). Kernels are compiled anew: nothing is taken from the user's cubins. Uses all processors: compiling
# takes most of the time.
set -uo pipefail
p=$(cd "$1" && pwd)
mkdir -p "$2"
results=$(cd "$2" && pwd)
out=$(mktemp -d) # logs
modules=${MODULES:-2000}
first=${FIRST:-9000}
run=$p/bin/trek-run
export TREK_CUBIN_CACHE=$out/cubins
cd "$p"
source tests/gpu/report.sh
processors=$(nproc)
"$run" --list-engines | grep '^jit .*level sm_' || { echo "the engine jit takes no GPU here"; exit 4; }

echo "== conformance"
ls tests/conformance/*.trek | xargs -P "$processors" -I{} sh -c \
  "timeout -k 3 90 '$run' --test --engine jit --quiet {} >'$out'/\$(basename {}).log 2>&1 && echo ok || echo {}" >"$out/conformance"
fact[conformance_files]=$(grep -c '^ok$' "$out/conformance")
for file in $(grep -v '^ok$' "$out/conformance"); do
  fail "conformance $(basename "$file")"
  head -n 5 "$out/$(basename "$file").log"
done

echo "== products of many shapes: the digests of ref"
python3 tests/gpu/products.py >"$out/products.trek"
for engine in ref jit; do
  quick 140 "$run" "$out/products.trek" --engine $engine --digest --quiet >"$out/products-$engine.txt" 2>&1 || fail "products on $engine"
done
if [[ -s $out/products-ref.txt ]] && cmp -s "$out/products-ref.txt" "$out/products-jit.txt"; then
  fact[same_digests_products]=$(grep -c '^@' "$out/products-ref.txt")
else
  fail "products differ"
fi

echo "== fast products inside their bound"
# A program for each processor: the driver compiles what it loads on one.
seq 1 "$processors" | xargs -P "$processors" -I{} sh -c \
  "python3 tests/gpu/products_fast.py --part {}/$processors >'$out'/products_fast-{}.trek &&
   timeout -k 3 140 '$run' --test --engine jit --numerics fast --quiet '$out'/products_fast-{}.trek >'$out'/products_fast-{}.log 2>&1 &&
   grep -q ' 0 failed' '$out'/products_fast-{}.log && echo ok || echo {}" >"$out/products_fast"
fact[programs_of_fast_products]=$(grep -c '^ok$' "$out/products_fast")
for part in $(grep -v '^ok$' "$out/products_fast"); do
  fail "fast products, part $part of $processors"
  tail -n 3 "$out/products_fast-$part.log"
done

echo "== tiles that two blocks work on together: the bits of ref, and traps"
TREK_BIN=$p/bin quick 300 tests/gpu/pairs.sh >"$out/pairs.log" 2>&1 || { fail "pairs"; tail -n 5 "$out/pairs.log"; }

echo "== strict products whose k several tasks share: the bits of ref"
TREK_BIN=$p/bin quick 200 tests/gpu/parts.sh >"$out/parts.log" 2>&1 || { fail "parts"; tail -n 5 "$out/parts.log"; }

echo "== a product before whose tiles blocks meet: the bits of ref"
TREK_BIN=$p/bin quick 60 tests/gpu/meeting.sh >"$out/meeting.log" 2>&1 || { fail "meeting"; tail -n 5 "$out/meeting.log"; }

echo "== products of a few columns, of a few k, columns, steps, and rows in words, whose trips are many: the digests of ref"
for program in adam_moments few_products made_gradients made_rows warp_products columns moves part_rows recurrent steps tagged_rows; do
  options=()
  [[ $program = tagged_rows ]] && options=(--set rounds=100)
  [[ $program = moves ]] && options=(--set trips=1000)
  [[ $program = part_rows ]] && options=(--set trips=200)
  for engine in ref jit; do
    quick 60 "$run" tests/gpu/$program.trek --engine $engine --digest --quiet "${options[@]}" >"$out/$program-$engine.txt" 2>&1 || fail "$program on $engine"
  done
  if grep -q '^@' "$out/$program-ref.txt" && cmp -s "$out/$program-ref.txt" "$out/$program-jit.txt"; then
    fact[same_digests_$program]=$(grep -c '^@' "$out/$program-ref.txt")
  else
    fail "$program differ"
  fi
done

TREK_BIN=$p/bin quick 60 tests/gpu/tagged_trap.sh || fail "tagged_trap"

echo "== programs, strict: the digests of the resident emulator; load and run, first and again"
# Of 4096 rows a training step's gradients are long, and an optimizer adds the blocks of one (emulator/plan/README.md).
declare -A programs=([mlp_step_4096]="mlp_step.trek -D BATCH=4096 --set trips=5")
for name in chain_within mlp_forward mlp_step mlp_step_4096 lstm gpt2_token; do
  read -ra program <<<"${programs[$name]:-$name.trek}"
  for what in resident jit again; do
    engine=$what
    [[ $what = again ]] && engine=jit
    begin=$(date +%s%N)
    quick 140 "$run" tests/bench/programs/"${program[@]}" --engine $engine --digest --profile >"$out/$name-$what.txt" 2>&1 || fail "$name on $what"
    fact[${name}_${what}_process_ms]=$((($(date +%s%N) - begin) / 1000000))
    grep '^@' "$out/$name-$what.txt" >"$out/$name-$what.digests"
    echo "$name $what: ${fact[${name}_${what}_process_ms]} ms; $(grep -E ' in all: | loaded in ' "$out/$name-$what.txt" | tr '\n' ' ')"
  done
  if [[ -s $out/$name-resident.digests ]] && cmp -s "$out/$name-resident.digests" "$out/$name-jit.digests"; then
    fact[same_digests_$name]=$(wc -l <"$out/$name-jit.digests")
  else
    fail "$name differs"
  fi
done

echo "== $modules random modules"
of_each=$(((modules + processors - 1) / processors))
seq 0 $((processors - 1)) | xargs -P "$processors" -I{} sh -c \
  "mkdir '$out/random-{}' && cd '$out/random-{}' && timeout -k 3 600 '$p/bin/engines-agree' jit --modules $of_each --first \$(($first + {} * $of_each)) >log 2>&1 && grep -q ': 0 differ' log && echo ok || echo {}" >"$out/random"
fact[random_modules]=$((of_each * $(grep -c '^ok$' "$out/random")))
for part in $(grep -v '^ok$' "$out/random"); do
  fail "random modules from $((first + part * of_each))"
  tail -n 5 "$out/random-$part/log"
done

report jit "MODULES=$modules FIRST=$first tests/gpu/jit.sh PACKAGE OUT"
