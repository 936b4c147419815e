#!/usr/bin/env bash
# tests/gpu/tagged_trap.sh: a program whose rows go from product to product in words (emulator/device/matrix_thin_tags.h)
# and which traps in its eleventh trip, while others wait for words that nobody writes any more: the trap of ref, on the
# JIT. And a loop of moves in words (emulator/resident/tagged_moves.h) that a limit or an interrupt ends. TREK_BIN is where
# trek-run lies.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/trap.trek" <<'TREK'
.trek 1.0
.param $trips i64 = 50
.state @x bf16[1,256] = normal(0, 1, key=1)
.state @first bf16[256,256] = normal(0, 0.1, key=2)
.state @second bf16[256,512] = normal(0, 0.1, key=3)
.state @third bf16[512,256] = normal(0, 0.1, key=4)
.state @table f32[10] = normal(0, 1, key=5)
.state @index i64[1] = 0
.output @found f32[1]
.func main() {
  loop $trip = 0 until $trips {
    @found = gather @table, @index
    %f = matmul @x, @first, tail=tanh
    %s = matmul %f, @second, tail=tanh
    %t = matmul %s, @third
    @index = add @index, 1
    @x = tanh %t
  }
}
TREK
failed=0
run() { timeout 120 "${TREK_BIN:?}/trek-run" "$folder/trap.trek" --quiet "$@" 2>&1 || echo "exit $?"; }
for options in "" "--set trips=9 --digest"; do
  # shellcheck disable=SC2086
  expected=$(run --engine ref $options)
  # shellcheck disable=SC2086
  given=$(run --engine jit $options)
  [[ $given == "$expected" ]] && continue
  printf 'jit differs from ref: %s\n%s\n' "$options" "$(diff <(echo "$expected") <(echo "$given"))"
  failed=1
done

cat >"$folder/moves.trek" <<'TREK'
.trek 1.0
.param $trips i64 = 1000000000
.state @x f32[64,1024] = normal(0, 1, key=1)
.func main() {
  %end = loop $i = 0 until $trips carry %v = @x {
    %w = permute %v, axes=[1,0]
    %r = reshape %w, shape=[64,1024]
    %u = permute %r, axes=[1,0]
    %o = reshape %u, shape=[64,1024]
    yield %o
  }
  @x = copy %end
}
TREK
for engine in ${ENGINES:-resident jit}; do
  for limit in 100 1000; do
    given=$(timeout 120 "$TREK_BIN/trek-run" "$folder/moves.trek" --engine "$engine" --quiet --limit-instructions $limit 2>&1; echo "exit $?")
    [[ $given == *limit* && $given != *watchdog* && $given != *"exit 0"* && $given != *"exit 124"* ]] && continue
    printf 'moves on %s with a limit of %s:\n%s\n' "$engine" "$limit" "$given"
    failed=1
  done
  begun=$SECONDS
  code=0
  timeout -s INT 4 "$TREK_BIN/trek-run" "$folder/moves.trek" --engine "$engine" --quiet >"$folder/out" 2>&1 || code=$?
  if ((code == 0 || SECONDS - begun > 40)) || grep -q watchdog "$folder/out"; then
    printf 'moves on %s, interrupted: exit %s after %s s\n%s\n' "$engine" "$code" $((SECONDS - begun)) "$(cat "$folder/out")"
    failed=1
  fi
done
exit $failed
