#!/usr/bin/env bash
# Every measurement of trek-measure once, small: that it works and its results are right, no figure.
# Exits 77 where there is no GPU.
set -euo pipefail
if ! devices=$("${TREK_BIN:?}/trek-measure" devices); then
  echo "skipped: $devices"
  exit 77
fi
exec "$TREK_BIN/trek-measure" ceilings --quick --rounds 5
