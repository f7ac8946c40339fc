#!/usr/bin/env bash
# How long a job of eight hosts with four processes each takes from `colla run` to its first barrier,
# and where the time goes.
#
#   hosts.sh a b c d e f g h -- hosts_start_test.sh COLLA MEMBER
set -euo pipefail
cd "$TMPDIR"
for _ in 1 2 3; do
  begin=$(date +%s.%N)
  "$1" run -H a:4,b:4,c:4,d:4,e:4,f:4,g:4,h:4 --log debug --threads 1 -- "$2" barrier 1 4 20000 >started 2>&1 </dev/null || {
    cat started
    exit 1
  }
  end=$(date +%s.%N)
  [[ $(grep -c 'going$' started) == 32 ]]
  grep '^colla run: .* s$' started
  awk "BEGIN { printf \"from colla run to its end, with one barrier: %.2f s\n\", $end - $begin }"
done
