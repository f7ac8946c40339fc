#!/usr/bin/env bash
# A job of four processes on two hosts: network namespaces, which Colla takes for hosts, joined by a
# veth pair. Groups inside a host use shared memory, groups across hosts use TCP, and all sums have the
# bits of the job on one host.
#
#   hosts_test.sh PROGRAM    (77: network namespaces can't be made here)
set -euo pipefail
program=$1
work=$(mktemp -d)
names=("colla-$$-a" "colla-$$-b")
finish() {
  for name in "${names[@]}"; do ip netns del "$name" 2>/dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT

make_hosts() {
  ip netns add "${names[0]}" && ip netns add "${names[1]}" &&
    ip link add va netns "${names[0]}" type veth peer name vb netns "${names[1]}" &&
    ip -n "${names[0]}" addr add 10.233.0.1/24 dev va && ip -n "${names[1]}" addr add 10.233.0.2/24 dev vb &&
    ip -n "${names[0]}" link set va up && ip -n "${names[1]}" link set vb up &&
    ip -n "${names[0]}" link set lo up && ip -n "${names[1]}" link set lo up
}
if ! reason=$(make_hosts 2>&1); then
  echo "skipped: no network namespaces here ($reason)"
  exit 77
fi

(umask 077; head -c 32 /dev/urandom | base64 > "$work/secret")
# start RUN RANK LOCAL_RANK LOCAL_SIZE ADDRESS [PREFIX...]: as torchrun would.
start() {
  local run=$1 rank=$2 local_rank=$3 local_size=$4 address=$5
  shift 5
  env WORLD_SIZE=4 RANK="$rank" LOCAL_RANK="$local_rank" LOCAL_WORLD_SIZE="$local_size" \
    MASTER_ADDR="$address" MASTER_PORT=29417 TORCHELASTIC_RUN_ID="hosts-$$-$run" \
    COLLA_SECRET_FILE="$work/secret" COLLA_THREADS=1 COLLA_SLICES=6 COLLA_START_TIMEOUT=30 \
    "$@" "$program" > "$work/$run-$rank" 2> "$work/$run-$rank.err" &
  processes+=($!)
}
finish_run() {
  local run=$1 failed=0
  for process in "${processes[@]}"; do wait "$process" || failed=1; done
  if [ $failed = 1 ]; then
    tail -n +1 "$work/$run"-*
    exit 1
  fi
}

processes=()
for rank in 0 1 2 3; do start one "$rank" "$rank" 4 127.0.0.1; done
finish_run one
processes=()
for rank in 0 1 2 3; do
  start two "$rank" $((rank % 2)) 2 10.233.0.1 ip netns exec "${names[$((rank / 2))]}"
done
finish_run two

for rank in 0 1 2 3; do
  [ "$(grep -c '^sum' "$work/two-$rank")" -ge 6 ] || { echo "rank $rank has too few sums"; exit 1; }
  diff <(grep '^sum' "$work/one-$rank") <(grep '^sum' "$work/two-$rank")
  first=$((rank / 2 * 2))
  common=$([ $first = 0 ] && echo 1,2,0,0 || echo 0,0,3,4)
  diff - <(grep '^route' "$work/two-$rank" | grep -v 'route next') <<EOF
route local $((rank % 2)) of 2, cross $((rank / 2)) of 2, shares memory with 0: $([ $first = 0 ] && echo true || echo false)
route world: 0,1,2,3 by tcp
route pair: $first,$((first + 1)) by shm
route across: $((rank % 2)),$((rank % 2 + 2)) by tcp
route common: $common
route host: $first,$((first + 1)) by shm
EOF
done
for rank in 0 2 3; do grep -q '^route next: 3,0,2 by tcp' "$work/two-$rank"; done
if grep -q '^route next' "$work/two-1"; then echo "rank 1 should be idle"; exit 1; fi
grep -q '^route world: 0,1,2,3 by shm' "$work/one-0"
echo passed
