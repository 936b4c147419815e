#!/usr/bin/env bash
# assembled.sh: what `--engine auto` compiles while its program runs is assembled by ptxas, once, and leaves what ref
# leaves; by the driver where ptxas refuses, or is newer than the driver. The stand-in for ptxas gives the PTX back,
# which is what the interpreter takes.
set -euo pipefail
run=${TREK_BIN:?}/trek-run
program=tests/gpu/hand_over.trek
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TREK_AUTO_AT=2 TREK_CUBIN_CACHE=$folder/cubins TREK_PTXAS=$folder/ptxas

cat >"$folder/ptxas" <<'PTXAS'
#!/bin/sh
[ "$1" != --version ] || { echo "release ${RELEASE-12.9}, V12.9.0"; exit; }
echo "$1 $2" >>"$(dirname "$0")/runs"
[ -z "${REFUSES-}" ] || { echo "ptxas fatal: as the test wanted"; exit 1; }
cat "$3" >"$5"
PTXAS
chmod +x "$folder/ptxas"

"$run" "$program" --engine ref --digest >"$folder/ref"
holds() { # WHAT RUNS
  "$run" "$program" --engine auto --digest >"$folder/auto" || { echo "$1: does not run"; exit 1; }
  cmp "$folder/ref" "$folder/auto" || { echo "$1: differs from ref"; exit 1; }
  printf '%s' "$2" | cmp - "$folder/runs" || { echo "$1: ptxas ran for"; cat "$folder/runs"; exit 1; }
}
: >"$folder/runs"
once=$'-arch sm_90a\n'
holds "the first time" "$once"
holds "the same again" "$once"
RELEASE=13.0 holds "a ptxas newer than the driver" "$once"
rm -r "$TREK_CUBIN_CACHE"
REFUSES=yes holds "a ptxas that refuses" "$once$once"
