#!/bin/sh
# Holds trek-manual --check to what it promises: it passes on what --out wrote, and fails, naming the
# file, on a page that is stale, missing or left over and on an instruction without an example.
set -u
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
manual="$TREK_BIN/trek-manual --accuracy $work/accuracy.json --examples $work/examples"
cp -r isa/manual/examples "$work/examples"
echo '[]' > "$work/accuracy.json"
failures=0

# expect STATUS WORDS: the manual's check ends with STATUS and says WORDS.
expect() {
  $manual --out "$work/out" --check > "$work/said" 2>&1
  status=$?
  if [ $status -ne "$1" ] || ! { [ -z "$2" ] || grep -qF -- "$2" "$work/said"; }; then
    echo "expected exit code $1 and '$2', found $status and:"
    cat "$work/said"
    failures=$((failures + 1))
  fi
}

expect 1 "pages/add.md is missing"
$manual --out "$work/out" || exit 1
expect 0 ""

echo "an edit" >> "$work/out/pages/add.md"
expect 1 "pages/add.md is stale"
cp "$work/out/pages/sub.md" "$work/out/pages/frobnicate.md"
expect 1 "pages/frobnicate.md is the page of no instruction"
$manual --out "$work/out" || exit 1
expect 0 ""

mv "$work/examples/add.trek" "$work/examples/addd.trek"
expect 2 "examples/add.trek cannot be read"
expect 2 "did you mean 'add.trek'?"
mv "$work/examples/addd.trek" "$work/examples/add.trek"
echo '{"a":' > "$work/accuracy.json"
expect 2 "accuracy.json is not what trek-accuracy --json writes"

[ $failures -eq 0 ]
