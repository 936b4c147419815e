# What scripts share that have the JIT work in tiles of a file, on a Hopper; to be sourced. Gives `run`, the runner; `folder`,
# which is removed in the end; and the device as such a file names it: `device`, `code` and `processors`. Where there is no
# Hopper it says so and ends the script as skipped.
run=${TREK_BIN:?}/trek-run
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
listed=$("$run" --list-engines | grep '^jit .*level sm_90a') || { echo "$(basename "$0"): skipped, the engine jit takes no Hopper here"; exit 77; }
device=$(sed -E 's/^jit +available +device [0-9]+: ([^,]*),.*/\1/' <<<"$listed")
code="jit sm_90a, compute capability 9.0"
processors=$(grep -oE '[0-9]+ multiprocessors' <<<"$listed" | grep -oE '[0-9]+')
