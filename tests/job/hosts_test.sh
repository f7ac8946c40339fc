#!/usr/bin/env bash
# A job of four processes on the two hosts that tests/support/hosts.sh makes. Groups inside a host use
# shared memory, groups across hosts use the wire, and all sums have the bits of the job on one host.
# With a MEMBER, the wire is cut at last, and both sides name the other.
#
#   hosts.sh a b -- hosts_test.sh PROGRAM [WIRE [MEMBER]]
set -euo pipefail
program=$1
wire=${2:-tcp}
member=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

export COLLA_TRANSPORT=auto
if [ "$wire" = ucx ]; then
  # UCX goes by the devices in /sys, and takes none that does not run.
  export UCX_TLS=tcp
  for name in a b; do
    on $name mount -t sysfs sysfs /sys
    until on $name ip link show eth0 | grep -q 'state UP'; do sleep 0.1; done
  done
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
if [ "$wire" != tcp ]; then export COLLA_TRANSPORT=$wire; fi
for rank in 0 1 2 3; do
  start two "$rank" $((rank % 2)) 2 a on "$([ $rank -lt 2 ] && echo a || echo b)"
done
finish_run two

for rank in 0 1 2 3; do
  [ "$(grep -c '^sum' "$work/two-$rank")" -ge 6 ] || { echo "rank $rank has too few sums"; exit 1; }
  diff <(grep '^sum' "$work/one-$rank") <(grep '^sum' "$work/two-$rank")
  first=$((rank / 2 * 2))
  common=$([ $first = 0 ] && echo 1,2,0,0 || echo 0,0,3,4)
  diff - <(grep '^route' "$work/two-$rank" | grep -v 'route next') <<EOF
route local $((rank % 2)) of 2, cross $((rank / 2)) of 2, shares memory with 0: $([ $first = 0 ] && echo true || echo false)
route world: 0,1,2,3 by $wire
route pair: $first,$((first + 1)) by shm
route across: $((rank % 2)),$((rank % 2 + 2)) by $wire
route common: $common
route host: $first,$((first + 1)) by shm
EOF
done
for rank in 0 2 3; do grep -q "^route next: 3,0,2 by $wire" "$work/two-$rank"; done
if grep -q '^route next' "$work/two-1"; then echo "rank 1 should be idle"; exit 1; fi
grep -q '^route world: 0,1,2,3 by shm' "$work/one-0"
# One rank on each host, each in the middle of sums without end.
cut_wire() {
  local rank name cut=()
  for rank in 0 1; do
    name=$([ $rank = 0 ] && echo a || echo b)
    env WORLD_SIZE=2 RANK="$rank" LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=a MASTER_PORT=29417 \
      TORCHELASTIC_RUN_ID="hosts-$$-cut" COLLA_SECRET_FILE="$work/secret" \
      on "$name" "$member" allreduce 1000000000 4000000 4000 > "$work/cut-$rank" 2>&1 &
    cut+=($!)
  done
  for rank in 0 1; do
    for _ in $(seq 300); do grep -q going "$work/cut-$rank" && break; sleep 0.1; done
  done
  ip link set to-b down
  for rank in 0 1; do
    for _ in $(seq 200); do kill -0 "${cut[$rank]}" 2>/dev/null || break; sleep 0.1; done
    if kill "${cut[$rank]}" 2>/dev/null; then echo "rank $rank goes on without the wire"; exit 1; fi
    if ! grep -q "peer=$((1 - rank)) .*rank $((1 - rank)) on" "$work/cut-$rank"; then
      cat "$work/cut-$rank"
      exit 1
    fi
  done
}
if [ -n "$member" ]; then cut_wire; fi
echo passed
