#!/usr/bin/env bash
# A job of four processes on the two hosts that tests/support/hosts.sh makes. Groups inside a host use
# shared memory, groups across hosts use the wire, and all sums have the bits of the job on one host.
# With a MEMBER, ranks are killed, the wire is cut, and a host is removed: everybody left names who is
# lost. And a machine without UCX says what to install for it.
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
# members RUN OPERATION: two ranks on each host, each in the middle of OPERATION without end.
members() {
  local run=$1 rank operation=$2
  local kept=$program
  program="$member"
  processes=()
  for rank in 0 1 2 3; do
    start "$run" "$rank" $((rank % 2)) 2 a on "$([ $rank -lt 2 ] && echo a || echo b)" \
      bash -c "exec \"\$0\" $operation 1000000000 400000 8000"
  done
  program=$kept
  for rank in 0 1 2 3; do
    for _ in $(seq 300); do grep -q going "$work/$run-$rank" && break; sleep 0.1; done
  done
}
# names RUN RANK LOST: within 15 seconds RANK ends, and says that one of LOST is lost.
names() {
  local run=$1 rank=$2 lost=$3
  for _ in $(seq 150); do kill -0 "${processes[$rank]}" 2>/dev/null || break; sleep 0.1; done
  if kill -9 "${processes[$rank]}" 2>/dev/null; then
    echo "$run: rank $rank goes on without rank $lost"
    exit 1
  fi
  if ! grep -q "peer=[$lost] .*rank [$lost] on" "$work/$run-$rank"; then
    echo "$run: rank $rank does not name rank $lost"
    tail -n +1 "$work/$run"-*
    exit 1
  fi
}
lose_ranks_and_hosts() {
  local operation rank
  for operation in allreduce broadcast alltoall barrier; do
    members "killed-$operation" "$operation"
    kill -9 "${processes[2]}"
    wait "${processes[2]}" 2>/dev/null || true  # Otherwise bash tells of it.
    for rank in 0 1 3; do names "killed-$operation" $rank 2; done
  done
  members cut allreduce
  ip link set to-b down
  for rank in 0 1; do names cut $rank 23; done
  for rank in 2 3; do names cut $rank 01; done
  ip link set to-b up
  members removed allreduce
  unhost b
  wait "${processes[2]}" "${processes[3]}" 2>/dev/null || true
  for rank in 0 1; do names removed $rank 23; done
}
# The library is hidden by a file of an overlay that says that it is not there.
hide_ucx() {
  local library
  library=$(ldconfig -p | sed -n 's/.*libucp\.so\.0 .* => //p' | head -n 1)
  [ -n "$library" ] || return 0
  library=$(realpath "$(dirname "$library")")/libucp.so.0
  unshare --mount bash -c '
    set -e
    mount -t tmpfs tmpfs /mnt
    mkdir /mnt/upper /mnt/work
    mknod /mnt/upper/libucp.so.0 c 0 0
    folder=$(dirname "$0")
    mount -t overlay overlay -o "lowerdir=$folder,upperdir=/mnt/upper,workdir=/mnt/work" "$folder"
    [ ! -e "$0" ]
    export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29417 TORCHELASTIC_RUN_ID=hidden-$$
    if RANK=0 LOCAL_RANK=0 COLLA_TRANSPORT=ucx "$1" barrier 1 4 8000; then exit 1; fi
    RANK=1 LOCAL_RANK=1 COLLA_TRANSPORT=auto "$1" barrier 1 4 8000 &
    RANK=0 LOCAL_RANK=0 COLLA_TRANSPORT=auto "$1" barrier 1 4 8000
    wait $!' "$library" "$member" > "$work/hidden" 2>&1 || {
    cat "$work/hidden"
    exit 1
  }
  grep -q "libucx0" "$work/hidden" || { cat "$work/hidden"; exit 1; }
  [ "$(grep -c "^done" "$work/hidden")" = 2 ] || { cat "$work/hidden"; exit 1; }
}
if [ -n "$member" ]; then
  [ "$wire" != ucx ] || hide_ucx
  lose_ranks_and_hosts
fi
echo passed
