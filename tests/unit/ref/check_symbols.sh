#!/bin/sh
# Whether the given object files (separated by spaces or ';') are free of weak symbols: inline functions
# that a linker could take for the whole program.
set -eu
IFS=' ;'
found=$(nm -C $* | grep -E ' [VvWwu] ' || true)
[ -z "$found" ] && exit 0
echo "functions compiled for special instructions that the linker may keep for everyone:"
echo "$found"
exit 1
