#!/bin/sh
# check_ptxas.sh PTXAS ARCH MOST FILE: assembles PTX for ARCH and fails on a warning of the C75xx family and
# on more than MOST bytes of spilled registers in any function. Exit 77 where there is no ptxas or no PTX.
set -eu
ptxas=$1 arch=$2 most=$3 file=$4
command -v "$ptxas" >/dev/null || { echo "ptxas is not installed"; exit 77; }
[ -f "$file" ] || { echo "no PTX: clang++-19 is not installed"; exit 77; }
log=$("$ptxas" -v -arch "$arch" "$file" -o /dev/null 2>&1) || { echo "$log"; exit 1; }
echo "$log" | grep -E "Used|Compiling|Compile time" || true
if echo "$log" | grep -E "C75[0-9][0-9]"; then exit 1; fi
echo "$log" | awk -v most="$most" '
  /Function properties/ { name = $NF }
  /spill stores/ {
    for (i = 1; i < NF; ++i) if ($(i + 2) == "spill" && $(i + 3) ~ /^stores/) bytes = $i + 0
    if (bytes > worst) { worst = bytes; where = name }
  }
  END {
    printf "worst spill: %d bytes %s\n", worst, where
    exit worst > most ? 1 : 0
  }'
