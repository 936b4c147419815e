#!/usr/bin/env bash
# tests/gpu/racecheck.sh PROBE [OPTION...]: what compute-sanitizer's racecheck says of kernels whose races are known
# (racecheck_kernels.cu). PROBE is the program racecheck-probe, options are racecheck's. It must report every kernel
# that lacks a barrier, above all the unit; the unit with its barriers, and hand-overs of stores for which every lane
# arrives, it must not. What it reports of the other hand-overs, which are as right, is shown: see
# emulator/resident/README.md.
# SANITIZER names another compute-sanitizer. Exit codes: 0, 1, 77 there is no device or no sanitizer.
set -uo pipefail
probe=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
timeout -k 3 20 "$probe" >"$log" 2>&1
code=$?
((code == 77)) && cat "$log" && exit 77
((code == 0)) || { cat "$log"; exit 1; }
sanitizer=${SANITIZER:-$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)}
[[ -n $sanitizer ]] || { echo "skipped: compute-sanitizer is not here"; exit 77; }

"$sanitizer" --version | grep -i version
timeout -k 3 60 "$sanitizer" --tool racecheck "$@" "$probe" >"$log" 2>&1
# A called function is named "$KERNEL$FUNCTION".
found=$(sed -nE 's/.*access at \$?([a-z0-9_]+).*/\1/p' "$log" | sort -u)
kernels=$(awk '/^(handover|softmax)_/ { print $1 }' "$log")
[[ -n $kernels ]] || { tail -n 20 "$log"; echo "nothing was launched"; exit 1; }
wrong=0
for kernel in $kernels; do
  says=clean
  grep -qx "$kernel" <<<"$found" && says=race
  note=
  case $kernel in
    *_without_*) [[ $says = race ]] || note='*** it has one' ;;
    handover_stores_all_lanes_* | *_with_sync) [[ $says = clean ]] || note='*** it has none' ;;
    *) [[ $says = clean ]] || note='it has none' ;;
  esac
  [[ $note = '***'* ]] && wrong=1
  printf '%-40s %s  %s\n' "$kernel" "$says" "$note"
done
exit $wrong
