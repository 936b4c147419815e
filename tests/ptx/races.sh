#!/usr/bin/env bash
# races.sh PROBE: what the interpreter says of kernels whose races are known (tests/gpu/racecheck_kernels.cu): every one
# that lacks a barrier, and no other.
set -uo pipefail
probe=$1
export TREK_PTX_RACES=1
kernels=$(TREK_PTX_RACES=0 "$probe" 2>&1 | awk '/^(handover|softmax)_/ { print $1 }')
[[ $(wc -w <<<"$kernels") -ge 19 ]] || { echo "too few kernels: $kernels"; exit 1; }
wrong=0
for kernel in $kernels; do
  said=$("$probe" "$kernel" 2>&1)
  found=clean
  grep -q 'a race: ' <<<"$said" && found=race
  want=clean
  [[ $kernel = *_without_* ]] && want=race
  note=
  [[ $found = "$want" ]] || { note="*** $want expected: $said"; wrong=1; }
  printf '%-40s %s  %s\n' "$kernel" "$found" "$note"
done
exit $wrong
