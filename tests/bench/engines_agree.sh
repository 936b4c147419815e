#!/usr/bin/env bash
# engines_agree.sh PROGRAM [TRIPS [NAME=VALUE]...]: whether a program leaves the same bits on ref and on the resident
# emulator's host, after so many trips and with these constants; and with the JIT and on a GPU, where they are; and where
# $TREK_AUTO_AT says at which back-edge a program moves to compiled code, on auto.
set -euo pipefail
program=$1
options=(--quiet --digest)
if (($# > 1)); then options+=(--set "trips=$2"); fi
for define in "${@:3}"; do options+=(-D "$define"); done
digest() { "${TREK_BIN:?}/trek-run" "$program" --engine "$1" "${options[@]}"; }

expected=$(digest ref)
[[ $expected == @* ]] || { echo "ref gives no digest: $expected"; exit 1; }
engines=$("$TREK_BIN/trek-run" --list-engines)
failed=0
hold() { # ENGINE
  local given
  given=$(digest "$1")
  [[ $given == "$expected" ]] && return
  printf '%s differs from ref\n%s\n' "$1" "$(diff <(echo "$expected") <(echo "$given"))"
  failed=1
}
hold resident-host
engines_here=(resident jit)
[[ -n ${TREK_AUTO_AT:-} ]] && engines_here+=(auto)
for engine in "${engines_here[@]}"; do
  if grep -q "^$engine  *available" <<<"$engines"; then hold "$engine"; fi
done
exit $failed
