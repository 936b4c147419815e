#!/usr/bin/env bash
# Every benchmark of bench-gpu once, small: that it works and its results are right, no figure. Without a
# GPU it is refused by name, and the programs that it checks are run by ref.
set -euo pipefail
bench=${TREK_BIN:?}/bench-gpu
if "$TREK_BIN/trek-measure" devices >/dev/null; then
  exec "$bench" --quick --rounds 5 --form graph --form eager
fi
"$bench" --check --quick --engine ref
code=0
said=$("$bench" --quick 2>&1) || code=$?
if ((code != 4)); then
  printf 'without a GPU: exit code %s, not 4\n%s\n' $code "$said"
  exit 1
fi
echo "without a GPU: $said"
