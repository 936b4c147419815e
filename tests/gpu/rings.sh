#!/usr/bin/env bash
# rings.sh ENGINE...: rings.trek leaves the bits of ref under fast numerics on these engines.
set -euo pipefail
digest() { "${TREK_BIN:?}/trek-run" tests/gpu/rings.trek --engine "$1" --numerics fast --digest --quiet; }
expected=$(digest ref)
[[ $expected == @* ]] || { echo "ref gives no digest: $expected"; exit 1; }
for engine in "$@"; do
  diff <(echo "$expected") <(digest "$engine") || { echo "$engine differs from ref"; exit 1; }
  echo "$engine leaves the bits of ref"
done
