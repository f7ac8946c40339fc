#!/usr/bin/env bash
# What local SGD saves on a slow link: an MLP with 3.4 million parameters, one worker in each of two
# network namespaces, joined by a link of 100 Mbit/s (tc's tbf). For allreduce and for each K it prints
# the kernel's count of bytes on the link for each step, samples/s, and the test loss after equal samples.
#
#   sudo bench/local_sgd.sh [K ...]      (needs ./colla to be built; by default K = 1 8 64)
#
# The bytes of a step are those of a run of 128 steps less those of one of 64, so that what moves once
# (the first broadcast, evaluations) does not count.
set -euo pipefail
root=$(dirname "$(dirname "$(realpath "$0")")")
colla=$root/build/bin/colla
[[ -x $colla ]] || { echo "local_sgd.sh: build Colla first: ./colla --version" >&2; exit 1; }
work=$(mktemp -d)
names=("colla-$$-a" "colla-$$-b")
finish() {
  for name in "${names[@]}"; do ip netns del "$name" 2>/dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT
ip netns add "${names[0]}" && ip netns add "${names[1]}" || {
  echo "local_sgd.sh: network namespaces need root" >&2
  exit 1
}
ip link add va netns "${names[0]}" type veth peer name vb netns "${names[1]}"
for side in 0 1; do
  device=$([[ $side = 0 ]] && echo va || echo vb)
  ip -n "${names[$side]}" addr add "10.233.1.$((side + 1))/24" dev "$device"
  ip -n "${names[$side]}" link set lo up
  ip -n "${names[$side]}" link set "$device" up
  ip netns exec "${names[$side]}" tc qdisc add dev "$device" root tbf rate 100mbit burst 256kb latency 50ms
done
(umask 077; head -c 32 /dev/urandom | base64 > "$work/secret")

linkBytes() {
  ip netns exec "${names[0]}" cat /sys/class/net/va/statistics/tx_bytes
}

# train STEPS FLAGS…: both workers, to their end; worker 0's totals are in $work/json.
train() {
  local steps=$1 rank processes=()
  shift
  rm -f "$work/json"
  for rank in 0 1; do
    env WORLD_SIZE=2 RANK=$rank LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.233.1.1 MASTER_PORT=29418 \
      COLLA_SECRET_FILE="$work/secret" COLLA_THREADS=1 \
      TORCHELASTIC_RUN_ID="local-$$-$steps-$*" \
      ip netns exec "${names[$rank]}" "$colla" train mlp --hidden 1500 --data synthetic:mnist:12800 \
      --batch 100 --lr 0.02 --steps "$steps" --eval-every "$steps" --quiet --json "$work/json$rank" "$@" \
      >"$work/out$rank" 2>&1 &
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
for k in allreduce "${@:-1 8 64}"; do
  for every in $k; do
    flags=(--strategy local-sgd --every "$every")
    [[ $every == allreduce ]] && flags=(--strategy allreduce)
    before=$(linkBytes)
    train 64 "${flags[@]}"
    middle=$(linkBytes)
    train 128 "${flags[@]}"
    after=$(linkBytes)
    bytes=$(((after - middle - (middle - before)) / 64))
    first=${first:-$bytes}
    printf '%-20s %14d %8.2f %10.0f %10s\n' "${flags[*]:1}" "$bytes" \
      "$(python3 -c "print($first / max(1, $bytes))")" "$(total samples_per_s)" "$(total val_loss)"
  done
done
