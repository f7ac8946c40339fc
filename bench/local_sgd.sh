#!/usr/bin/env bash
# What local SGD saves on a slow link: an MLP with 3.4 million parameters, one worker on each of two hosts
# (network namespaces), whose links carry 100 Mbit/s (tc's tbf). For allreduce and for each K it prints
# the kernel's count of bytes on the link for each step, samples/s, and the test loss after equal samples.
#
#   sudo bench/local_sgd.sh [K ...]      (needs ./colla to be built; by default K = 1 8 64)
#
# The bytes of a step are those of a run of 128 steps less those of one of 64, so that what moves once
# (the first broadcast, evaluations) does not count. COLLA, HIDDEN, STEPS and RATE are for the test: the
# command, the width of both hidden layers, the steps of the shorter run, and what the links carry.
set -euo pipefail
root=$(dirname "$(dirname "$(realpath "$0")")")
colla=${COLLA:-$root/build/bin/colla} hidden=${HIDDEN:-1500} steps=${STEPS:-64} rate=${RATE:-100mbit}
[[ -x $colla ]] || { echo "local_sgd.sh: build Colla first: ./colla --version" >&2; exit 1; }
# It comes back here with both hosts, which are gone when it ends.
[[ -n ${HOSTS_DIR:-} ]] || exec "$root/tests/support/hosts.sh" a- b- -- "$(realpath "$0")" "$@"

work=$(mktemp -d)
for name in a b; do on $name tc qdisc add dev eth0 root tbf rate "$rate" burst 256kb latency 50ms; done
(umask 077; head -c 32 /dev/urandom | base64 > "$work/secret")

linkBytes() {
  on a cat /proc/net/dev | awk '$1 == "eth0:" { print $10 }'
}

# train STEPS FLAGS…: both workers, to their end; worker 0's totals are in $work/json0.
train() {
  local steps=$1 rank name processes=()
  shift
  for rank in 0 1; do
    name=$([[ $rank = 0 ]] && echo a || echo b)
    rm -f "$work/json$rank"
    env WORLD_SIZE=2 RANK=$rank LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.234.0.2 MASTER_PORT=29418 \
      COLLA_SECRET_FILE="$work/secret" COLLA_THREADS=1 TORCHELASTIC_RUN_ID="local-$$-$steps-$*" \
      on $name "$colla" train mlp --hidden "$hidden" --data synthetic:mnist:12800 --batch 100 --lr 0.02 \
      --steps "$steps" --eval-every "$steps" --quiet --json "$work/json$rank" "$@" >"$work/out$rank" 2>&1 &
    processes+=($!)
  done
  for rank in 0 1; do
    wait "${processes[$rank]}" || { cat "$work/out0" "$work/out1" >&2; exit 1; }
  done
}

total() {  # total NAME: a number of worker 0's last line.
  tail -n 1 "$work/json0" | python3 -c "
import json, sys
line = json.loads(sys.stdin.read())
print(line.get('$1', line.get('metrics', {}).get('$1')))"
}

printf '%-20s %14s %8s %10s %10s\n' strategy 'bytes a step' ratio samples/s 'val loss'
first=
for k in allreduce ${*:-1 8 64}; do
  flags=(--strategy local-sgd --every "$k")
  [[ $k == allreduce ]] && flags=(--strategy allreduce)
  before=$(linkBytes)
  train "$steps" "${flags[@]}"
  middle=$(linkBytes)
  train $((2 * steps)) "${flags[@]}"
  bytes=$((($(linkBytes) - middle - (middle - before)) / steps))
  first=${first:-$bytes}
  printf '%-20s %14d %8.2f %10.0f %10s\n' "${flags[*]:1}" "$bytes" \
    "$(python3 -c "print($first / max(1, $bytes))")" "$(total samples_per_s)" "$(total val_loss)"
done
