#!/usr/bin/env bash
# What docs/use.md promises of local SGD: with an average every K steps the link carries a K-th of
# allreduce's bytes, within 5 %, by the kernel's counters. In small: how fast the links are does not count.
#
#   local_sgd_test.sh COLLA
set -euo pipefail
root=$(dirname "$(dirname "$(dirname "$(realpath "$0")")")")
found=$(COLLA=$1 HIDDEN=400 STEPS=16 RATE=1gbit "$root/bench/local_sgd.sh" 1 8 16) || {
  status=$?
  echo "$found"
  exit $status
}
echo "$found"
awk '
  $1 == "local-sgd" {
    ++lines
    if ($5 < 0.95 * $3 || $5 > 1.05 * $3) { print "every " $3 " steps: " $5 "-fold fewer bytes"; bad = 1 }
  }
  END { exit bad || lines != 3 }' <<<"$found"
