#!/bin/sh
# compile.sh CLANG OUTPUT ARGUMENT...: CLANG ARGUMENT... -o OUTPUT, with what it depends on in OUTPUT.d. What is the same
# after preprocessing is compiled once for all builds of this user (kept.sh): the same device code is in every preset,
# and some of it takes minutes.
set -eu
here=$(dirname "$0")
. "$here/kept.sh"
clang=$1 output=$2
shift 2

# Where the checkout lies is in -I and in names of sources, and makes no difference to code.
root=$(cd "$here/../.." && pwd)
asked=$("$clang" --version && printf '%s\n' "$@" | sed "s#$root##g")
set -- "$@" -MD -MF "$output.d" -MT "$output"
kept=$({
  echo "$asked"
  "$clang" "$@" -E -P -Wno-unused-command-line-argument -o - 2>/dev/null || echo "does not preprocess"
} | kept_path)

if [ -n "$kept" ] && [ -s "$output.d" ] && cp "$kept.device" "$output" 2>/dev/null; then
  touch "$kept.device"
else
  "$clang" "$@" -o "$output"
  if [ -n "$kept" ]; then
    keep "$output" "$kept.device"
    forget_old "$kept"
  fi
fi
