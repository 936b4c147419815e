#!/usr/bin/env bash
# engines_agree.sh PROGRAM NAME=VALUE...: whether a program leaves the same bits on ref and on the resident
# emulator's host, with these constants; and on a GPU, where there is one.
set -euo pipefail
program=$1
shift
defines=()
for define in "$@"; do defines+=(-D "$define"); done
digest() { "${TREK_BIN:?}/trek-run" "$program" --engine "$1" --quiet --digest "${defines[@]}"; }

expected=$(digest ref)
[[ $expected == @* ]] || { echo "ref gives no digest: $expected"; exit 1; }
failed=0
hold() { # ENGINE
  local given
  given=$(digest "$1")
  [[ $given == "$expected" ]] && return
  printf '%s differs from ref\n%s\n' "$1" "$(diff <(echo "$expected") <(echo "$given"))"
  failed=1
}
hold resident-host
if "$TREK_BIN/trek-run" --list-engines | grep -q '^resident  *available'; then hold resident; fi
exit $failed
