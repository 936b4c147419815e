#!/usr/bin/env bash
# tests/gpu/racecheck.sh PROBE [OPTION...]: what compute-sanitizer's racecheck says of kernels whose races are known
# (racecheck_kernels.cu). PROBE is the program racecheck-probe, options are racecheck's. It must report every kernel
# that lacks a barrier, above all the unit, and none of the others.
# SANITIZER names another compute-sanitizer. Exit codes: 0, 1, 77 there is no device or no sanitizer.
set -uo pipefail
probe=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$probe" >"$log" 2>&1
code=$?
((code == 77)) && cat "$log" && exit 77
((code == 0)) || { cat "$log"; exit 1; }
sanitizer=${SANITIZER:-$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)}
[[ -n $sanitizer ]] || { echo "skipped: compute-sanitizer is not here"; exit 77; }

"$sanitizer" --version | grep -i version
timeout -k 3 "${SECONDS_ALLOWED:-60}" "$sanitizer" --tool racecheck "$@" "$probe" >"$log" 2>&1
found=$(grep -oE 'access at [a-z0-9_]+' "$log" | awk '{ print $3 }' | sort -u)
kernels=$(awk '/^(handover|softmax)_/ { print $1 }' "$log")
[[ -n $kernels ]] || { tail -n 20 "$log"; echo "nothing was launched"; exit 1; }
wrong=0
for kernel in $kernels; do
  says=clean
  grep -qx "$kernel" <<<"$found" && says=race
  want=clean
  [[ $kernel == *_without_* ]] && want=race
  note=
  [[ $says = "$want" ]] || { note=' *** wrong'; wrong=1; }
  printf '%-40s %s%s\n' "$kernel" "$says" "$note"
done
grep -iE 'overflow|Warning: [^R]|SUMMARY' "$log" | head -n 3
exit $wrong
