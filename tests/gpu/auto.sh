#!/usr/bin/env bash
# tests/gpu/auto.sh PACKAGE OUT: `--engine auto` on a device, from a folder that tools/package has made: programs that move
# to compiled code at a given back-edge (TREK_AUTO_AT) leave what ref and the resident emulator leave; then by themselves,
# with what --profile says; what is interrupted while it compiles ends at once. Ends with what failed, and writes
# OUT/DEVICE-auto-DATE.json. MODULES says how many random modules for each of three back-edges (128), FIRST the first
# one's seed (9000).
set -uo pipefail
p=$(cd "$1" && pwd)
mkdir -p "$2"
results=$(cd "$2" && pwd)
out=$(mktemp -d) # logs
modules=${MODULES:-128}
first=${FIRST:-9000}
run=$p/bin/trek-run
export TREK_CUBIN_CACHE=$out/cubins
cd "$p"
source tests/gpu/report.sh
processors=$(nproc)
"$run" --list-engines | tee "$out/engines" | grep '^auto .*level sm_' || { echo "the engine auto takes no GPU here"; exit 4; }
grep '^without --engine: auto,' "$out/engines" || fail "auto is not the default"

echo "== hand_over.trek at every back-edge: what ref leaves; limits: what resident leaves"
"$run" tests/gpu/hand_over.trek --engine ref --digest >"$out/ref" 2>&1
"$run" tests/gpu/hand_over.trek --engine ref --set bound=303 2>&1 | grep -v ' = ' >"$out/ref-trap"
for limit in 20 60 100; do
  quick 30 "$run" tests/gpu/hand_over.trek --engine resident --limit-instructions $limit --digest >"$out/limit-$limit" 2>&1
done
same=0
for at in $(seq 0 26); do
  export TREK_AUTO_AT=$at
  quick 30 "$run" tests/gpu/hand_over.trek --engine auto --digest >"$out/auto" 2>&1
  cmp "$out/ref" "$out/auto" && same=$((same + 1)) || fail "hand_over at $at"
  ((at % 4 == 0)) || continue
  quick 30 "$run" tests/gpu/hand_over.trek --engine auto --set bound=303 2>&1 | grep -v ' = ' >"$out/auto"
  cmp "$out/ref-trap" "$out/auto" && same=$((same + 1)) || fail "hand_over with a trap at $at"
  for limit in 20 60 100; do
    quick 30 "$run" tests/gpu/hand_over.trek --engine auto --limit-instructions $limit --digest >"$out/auto" 2>&1
    cmp "$out/limit-$limit" "$out/auto" && same=$((same + 1)) || fail "hand_over with limit $limit at $at"
  done
done
fact[same_hand_overs]=$same

echo "== conformance"
for at in 0 1; do
  export TREK_AUTO_AT=$at
  files=$(ls tests/conformance/*.trek)
  ((at == 0)) || files=$(grep -lE '^ *(loop|while) ' tests/conformance/*.trek)
  echo "$files" | xargs -P "$processors" -I{} sh -c \
    "timeout -k 3 60 '$run' --test --engine auto --quiet {} >'$out'/\$(basename {}).log 2>&1 && echo ok || echo {}" >"$out/conformance"
  fact[conformance_files_at_$at]=$(grep -c '^ok$' "$out/conformance")
  for file in $(grep -v '^ok$' "$out/conformance"); do
    fail "conformance $(basename "$file") at $at"
    head -n 5 "$out/$(basename "$file").log"
  done
done

echo "== 3 x $modules random modules"
of_each=$(((modules + processors - 1) / processors))
for at in 0 1 3; do
  export TREK_AUTO_AT=$at
  seq 0 $((processors - 1)) | xargs -P "$processors" -I{} sh -c \
    "mkdir '$out/random-$at-{}' && cd '$out/random-$at-{}' && timeout -k 3 300 '$p/bin/engines-agree' auto --modules $of_each --first \$(($first + {} * $of_each)) >log 2>&1 && grep -q ': 0 differ' log && echo ok || echo {}" >"$out/random"
  fact[random_modules_at_$at]=$((of_each * $(grep -c '^ok$' "$out/random")))
  for part in $(grep -v '^ok$' "$out/random"); do
    fail "random modules at $at from $((first + part * of_each))"
    tail -n 5 "$out/random-$at-$part/log"
  done
done
unset TREK_AUTO_AT

echo "== interrupted while it compiles"
printf '.trek 1.0\n.state @x f32[2048] = 1\n.func main() {\n  loop $i = 0 until 1000000000000 {\n    %%y = mul @x, 0.5\n    @x = tanh %%y\n  }\n}\n' >"$out/long.trek"
begin=$(date +%s%N)
TREK_CUBIN_CACHE= timeout -s INT -k 3 0.7 "$run" "$out/long.trek" --engine auto --quiet >"$out/long.log" 2>&1
code=$?
fact[interrupted_ms]=$((($(date +%s%N) - begin) / 1000000))
grep -q interrupted "$out/long.log" && ((${fact[interrupted_ms]} < 2000)) || { fail "interrupted: exit $code"; head -n 5 "$out/long.log"; }

echo "== by themselves: the digests of the resident emulator; first, and from the cubins that are kept"
declare -A trips=([chain_within]=1500000 [mlp_step]=35000 [lstm]=1000) # some seconds
for program in chain_within mlp_step lstm; do
  for what in resident jit auto again; do
    engine=$what
    [[ $what = again ]] && engine=auto
    # Each is compiled anew, but the last.
    [[ $what = again ]] || rm -rf "$TREK_CUBIN_CACHE"
    begin=$(date +%s%N)
    quick 60 "$run" tests/bench/programs/$program.trek --set trips=${trips[$program]} --engine $engine --digest --profile --quiet >"$out/$program-$what.txt" 2>&1 || fail "$program on $what"
    fact[${program}_${what}_process_ms]=$((($(date +%s%N) - begin) / 1000000))
    grep '^@' "$out/$program-$what.txt" >"$out/$program-$what.digests"
    echo "$program $what: ${fact[${program}_${what}_process_ms]} ms"
    sed -n '/ in all: /,$p' "$out/$program-$what.txt" | grep -v '^@'
  done
  for what in auto again; do
    [[ -s $out/$program-resident.digests ]] && cmp -s "$out/$program-resident.digests" "$out/$program-$what.digests" || fail "$program $what differs"
  done
done

report auto "MODULES=$modules FIRST=$first tests/gpu/auto.sh PACKAGE OUT"
