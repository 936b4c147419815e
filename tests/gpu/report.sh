# What scripts that check an engine on a device share; to be sourced. They have `out`, a folder for logs, `results` for
# reports, and say what they find in `fact` and by fail().
failures=()
declare -A fact
fail() { echo "FAILED: $1"; failures+=("$1"); }
quick() { timeout -k 3 "$@"; }
device=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)

# sanitize SECONDS ENGINE TOOL TREK_RUN FILE...: compute-sanitizer's TOOL over conformance files, so long each.
sanitize() {
  local seconds=$1 engine=$2 tool=$3 run=$4 errors=0 file code
  shift 4
  echo "== $tool"
  for file; do
    quick "$seconds" "$sanitizer" --tool $tool --error-exitcode 9 "$run" --test --engine $engine --quiet "tests/conformance/$file.trek" >"$out/$tool-$file.log" 2>&1
    code=$?
    ((code == 0)) || { errors=$((errors + 1)); echo "$file: exit $code"; grep -m 3 -E "=========     |Error|Race|hazard" "$out/$tool-$file.log"; }
  done
  fact[${tool}_files_with_findings]=$errors
  ((errors == 0)) || fail "$tool"
}

# report ENGINE COMMAND: writes results/DEVICE-ENGINE-DATE.json, shows it, and ends with what failed.
report() {
  local json
  json=$results/$(echo "${device##* }" | tr 'A-Z' 'a-z')-$1-$(date -u +%F).json
  {
    echo "{"
    echo "  \"command\": \"$2\","
    echo "  \"device\": \"$device\", \"driver\": \"$driver\", \"date\": \"$(date -u +%F)\","
    for key in "${!fact[@]}"; do echo "  \"$key\": ${fact[$key]},"; done | sort
    echo "  \"failures\": \"${failures[*]:-none}\""
    echo "}"
  } >"$json"
  cat "$json"
  echo "== failures: ${failures[*]:-none}"
  exit ${#failures[@]}
}
