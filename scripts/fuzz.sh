#!/usr/bin/env bash
# fuzz.sh BUILD SECONDS: runs every fuzz target of a build tree for that long. What it learns stays
# in BUILD/corpus, so the next run starts from there; an input that breaks a target is kept in
# BUILD/crash-… and named.
set -euo pipefail

build=$1
seconds=$2

shopt -s nullglob
targets=("$build"/fuzz/*)
if ((${#targets[@]} == 0)); then
  echo "fuzz: no targets in $build; ./test --fuzz builds them" >&2
  exit 77  # CTest: skipped.
fi
failures=0
for target in "${targets[@]}"; do
  name=$(basename "$target")
  corpus=$build/corpus/$name
  log=$build/corpus/$name.log
  mkdir -p "$corpus"
  if "$target" "$corpus" "-max_total_time=$seconds" "-artifact_prefix=$build/crash-$name-" \
    -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 >"$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "fuzz: $name: $runs inputs, nothing broke"
  else
    tail -n 60 "$log"
    echo "fuzz: $name: FAILED; the input is in the file named above"
    failures=$((failures + 1))
  fi
done
echo "fuzz: $((${#targets[@]} - failures)) of ${#targets[@]} targets passed"
((failures == 0))
