#!/usr/bin/env bash
# What `colla slurm` writes, on a real Slurm of two nodes: trains on all tasks, and goes on after a
# requeue and after the time limit with the bits of a run that nobody disturbed.
#
#   hosts.sh node1- node2- -- batch_test.sh COLLA
set -euo pipefail
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
source "$here/../support/slurm.sh"
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
# Nothing of a Slurm around us may reach in.
[[ ${2:-} == alone ]] || exec env -i "PATH=$PATH" "HOSTS_DIR=$HOSTS_DIR" HOME=/ "${BASH_SOURCE[0]}" "$1" alone
needs munged slurmctld slurmd sbatch scontrol
colla=$1
mkdir /run/test
cd /run/test
exec 3>&1
trap 'status=$?; ((status == 0)) || tail -v -n 30 /run/slurm/*.log /run/test/*.out >&3 || true' EXIT
startMunge
startSlurm node1 node2
export COLLA_THREADS=1

state() { [[ $(squeue -h -j "$1" -o %T 2>/dev/null) == "$2" ]]; }
ended() { [[ $(scontrol show job "$1" | grep -o 'JobState=[A-Z]*') == JobState=COMPLETED ]]; }
says() { grep -qs "$2" "$1"; }
# await SECONDS WHAT CONDITION…
await() {
  local deadline=$((SECONDS + $1))
  until "${@:3}"; do
    ((SECONDS < deadline)) || { echo "waited $1 s for $2" && exit 1; }
    sleep 0.2
  done
}

flags=(--nodes 2 --ntasks-per-node 2 --time 25 --output x_%j.out)
lr=(train lr --data synthetic:lr:4000x50 --batch 40 --steps)
expect "two commands in one file" 0 "Submitted batch job 1" -- \
  "$colla" slurm "${flags[@]}" --submit -- "${lr[@]}" 3 --checkpoint-dir runs/short \
  --then inspect runs/short
await 60 "job 1" ended 1
expect "their output" 0 "strategy allreduce, 4 workers" "^step  *3 " -- cat x_1.out

# Some seconds, in which there is something to disturb.
mlp=(train mlp --data synthetic:mnist:2000 --batch 100 --no-eval --steps)
steps=1000
"$colla" "${mlp[@]}" $steps --np 4 --checkpoint-dir runs/undisturbed >undisturbed.out 2>&1
expect "a job to requeue" 0 "Submitted batch job 2" -- \
  "$colla" slurm "${flags[@]}" --file requeue.sbatch --submit -- \
  "${mlp[@]}" $steps --checkpoint-dir runs/requeued
await 60 "job 2 to train" says x_2.out "strategy allreduce, 4 workers"
await 30 "its first steps" says x_2.out "^Step "
scontrol requeue 2
await 60 "job 2 to be requeued" state 2 PENDING
await 180 "job 2" ended 2
expect "the requeued job" 0 "resuming from step [1-9]" -- grep -e "resuming from" x_2.out
expect "the requeued job's bits" 0 "^equal: all" -- "$colla" compare runs/requeued runs/undisturbed

# As docs/clusters.md has it.
mkdir bin
ln -s "$colla" bin/colla
expect "the line of docs/clusters.md" 0 "Submitted batch job 3" -- \
  env "PATH=$PWD/bin:$PATH" bash -c "$(grep '^colla slurm ' "$here/../../docs/clusters.md")"
await 60 "job 3" ended 3
expect "its output" 0 "strategy allreduce, 4 workers" "2 threads per slice" "^Epoch 5/5" -- cat lr_3.out

# The limit is so near that Slurm sends SIGUSR1 within a minute.
expect "a job near its limit" 0 "Submitted batch job 4" -- \
  "$colla" slurm --nodes 2 --ntasks-per-node 2 --output x_%j.out --time 3 --file limit.sbatch --submit -- \
  "${mlp[@]}" 1000000 --checkpoint-dir runs/limit
scontrol update jobid=4 timelimit=2
await 100 "job 4 to be requeued" state 4 PENDING
scontrol update jobid=4 starttime=now timelimit=10
await 60 "job 4 to go on" says x_4.out "resuming from step [1-9]"
scancel 4
