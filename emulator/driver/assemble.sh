#!/bin/sh
# assemble.sh PTXAS TARGET MAX_SPILL PTX CUBIN: assembles PTX for TARGET, and fails on a warning of the C75xx
# family and on more than MAX_SPILL bytes of spilled registers in a function; "" allows any.
#
# What ptxas says is kept in CUBIN.log. The same PTX is assembled once for all builds of this user: cubins
# and logs are kept in $TREK_CUBIN_CACHE (~/.cache/trek/cubins; empty: nowhere) for thirty days.
set -eu
ptxas=$1 target=$2 most=$3 ptx=$4 cubin=$5
log=$cubin.log

cache=${TREK_CUBIN_CACHE-${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}}
[ -n "${TREK_CUBIN_CACHE-}" ] || cache=${cache:+$cache/trek/cubins}
kept=
if [ -n "$cache" ] && mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ]; then
  kept=$cache/$({ "$ptxas" --version && echo "$target" && cat "$ptx"; } | sha256sum | cut -c 1-40)
fi

if [ -n "$kept" ] && [ -f "$kept.cubin" ] && cp "$kept.log" "$log"; then
  cp "$kept.cubin" "$cubin"
  touch "$kept.cubin" "$kept.log"
else
  "$ptxas" -v -arch "$target" "$ptx" -o "$cubin" >"$log" 2>&1 || { cat "$log"; exit 1; }
  if [ -n "$kept" ]; then
    cp "$log" "$kept.$$" && mv "$kept.$$" "$kept.log"
    cp "$cubin" "$kept.$$" && mv "$kept.$$" "$kept.cubin" # last: who finds it finds the log
    find "$cache" -type f -mtime +30 -delete
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
