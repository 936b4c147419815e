#!/usr/bin/env bash
# rings.sh ENGINE...: rings.trek under fast numerics and rings_f32.trek leave the bits of ref on these engines.
set -euo pipefail
digest() { "${TREK_BIN:?}/trek-run" "tests/gpu/$1.trek" --numerics "$2" --engine "$3" --digest --quiet; }
compare() {
  local program=$1 numerics=$2 expected engine
  shift 2
  expected=$(digest "$program" "$numerics" ref)
  [[ $expected == @* ]] || { echo "ref gives no digest of $program: $expected"; exit 1; }
  for engine in "$@"; do
    diff <(echo "$expected") <(digest "$program" "$numerics" "$engine") || { echo "$engine differs from ref in $program"; exit 1; }
    echo "$engine leaves the bits of ref in $program"
  done
}
compare rings fast "$@"
compare rings_f32 strict "$@"
