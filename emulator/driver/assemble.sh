#!/bin/sh
# assemble.sh PTXAS TARGET MAX_SPILL PTX CUBIN: assembles PTX for TARGET, and fails on a warning of the C75xx
# family and on more than MAX_SPILL bytes of spilled registers in a function; "" allows any.
#
# What ptxas says is kept in CUBIN.log. The same PTX is assembled once for all builds of this user (kept.sh).
set -eu
. "$(dirname "$0")/kept.sh"
ptxas=$1 target=$2 most=$3 ptx=$4 cubin=$5
log=$cubin.log
kept=$({ "$ptxas" --version && echo "$target" && cat "$ptx"; } | kept_path)

if [ -n "$kept" ] && cp "$kept.cubin" "$cubin" 2>/dev/null && cp "$kept.log" "$log"; then
  touch "$kept.cubin" "$kept.log"
else
  "$ptxas" -v -arch "$target" "$ptx" -o "$cubin" >"$log" 2>&1 || { cat "$log"; exit 1; }
  if [ -n "$kept" ]; then
    keep "$log" "$kept.log"
    keep "$cubin" "$kept.cubin" # last: who finds it finds the log
    forget_old "$kept"
  fi
fi

fail() {
  rm -f "$cubin"
  echo "assemble.sh: $(basename "$ptx") for $target: $1"
  exit 1
}
! grep -E "C75[0-9][0-9]" "$log" || fail "ptxas warns that it serialises, or cannot do what was asked"
[ -z "$most" ] || awk -v most="$most" '
  /Function properties/ { name = $NF }
  /spill stores/ {
    for (i = 1; i < NF; ++i) if ($(i + 2) == "spill" && $(i + 3) ~ /^stores/) bytes = $i + 0
    if (bytes > worst) { worst = bytes; where = name }
  }
  END {
    if (worst > most) { printf "%d bytes spilled in %s\n", worst, where; exit 1 }
  }' "$log" || fail "more than $most bytes of spilled registers"
