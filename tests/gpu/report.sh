# What scripts that check an engine on a device share; to be sourced. They have `p`, the package, `out`, a folder for
# logs, `results` for reports, and say what they find in `fact` and by fail().
failures=()
declare -A fact
fail() { echo "FAILED: $1"; failures+=("$1"); }
quick() { timeout -k 3 "$@"; }
device=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)

# report ENGINE COMMAND: writes results/DEVICE-ENGINE-DATE.json, shows it, and ends with what failed.
report() {
  local json
  json=$results/$(echo "${device##* }" | tr 'A-Z' 'a-z')-$1-$(date -u +%F).json
  {
    echo "{"
    echo "  \"command\": \"$2\","
    echo "  \"revision\": \"$(cat "$p/REVISION" 2>/dev/null || echo unknown)\","
    echo "  \"device\": \"$device\", \"driver\": \"$driver\", \"date\": \"$(date -u +%F)\","
    for key in "${!fact[@]}"; do echo "  \"$key\": ${fact[$key]},"; done | sort
    echo "  \"failures\": \"${failures[*]:-none}\""
    echo "}"
  } >"$json"
  cat "$json"
  echo "== failures: ${failures[*]:-none}"
  exit ${#failures[@]}
}
