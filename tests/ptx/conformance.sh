#!/usr/bin/env bash
# conformance.sh ENGINE [NAME...]: conformance files (all of them, or those named) on an engine whose GPU is the
# interpreter. Ends with how many hold; what a file that does not says is shown.
set -uo pipefail
engine=$1
shift
names=("$@")
if ((${#names[@]} == 0)); then
  for file in tests/conformance/*.trek; do names+=("$(basename "$file" .trek)"); done
fi
held=0
for name in "${names[@]}"; do
  if said=$("${TREK_BIN:?}/trek-run" --test --quiet --engine "$engine" "tests/conformance/$name.trek" 2>&1); then
    held=$((held + 1))
  else
    echo "$name: $(head -c 2000 <<<"$said")"
  fi
done
echo "$held of ${#names[@]} conformance files hold on $engine"
((held == ${#names[@]} && held > 0))
