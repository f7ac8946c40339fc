#!/usr/bin/env bash
# The hosts that hosts.sh makes: they reach each other by name and by ssh, and nothing of them is left
# when it is killed.
set -euo pipefail
hosts=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/hosts.sh
mark=$RANDOM$RANDOM.5

said=$("$hosts" a b -- bash -c 'hostname; ssh b hostname; on a ssh b "echo from \${SSH_CONNECTION%% *}"; unhost b; on a timeout 1 bash -c "exec 3<>/dev/tcp/b/22" 2>/dev/null || echo gone') || {
  status=$?
  echo "$said"
  exit $status
}
diff <(echo "$said") <(printf 'desk\nb\nfrom 10.234.0.2\ngone\n')

"$hosts" a -- ssh a "sleep $mark" &
killed=$!
until pgrep -f "^sleep $mark" >/dev/null; do sleep 0.1; done
kill -9 $killed
for _ in $(seq 100); do
  pgrep -f "^sleep $mark" >/dev/null || {
    echo passed
    exit
  }
  sleep 0.1
done
echo "what ran on a killed test's host is still there"
exit 1
