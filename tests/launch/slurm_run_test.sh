#!/usr/bin/env bash
# `colla run` in an allocation of a real Slurm: it starts its processes on the nodes by srun, without ssh,
# as the allocation says.
#
#   hosts.sh node1- node2- node3- -- slurm_run_test.sh COLLA MEMBER PROBE
set -euo pipefail
source "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../support/slurm.sh"
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
# Nothing of a Slurm around us may reach in.
[[ ${4:-} == alone ]] || exec env -i "PATH=$PATH" "HOSTS_DIR=$HOSTS_DIR" HOME=/ "${BASH_SOURCE[0]}" "$1" "$2" "$3" alone
needs munged slurmctld slurmd srun sbatch salloc
colla=$1 member=$2 probe=$3
mkdir /run/test
cd /run/test
exec 3>&1
trap 'status=$?; ((status == 0)) || tail -v -n 20 /run/slurm/*.log >&3' EXIT
startMunge
startSlurm node1 node2 node3

job=("$member" allreduce 5 100000 20000)
allocate=(salloc --quiet --overcommit)
allocate_two=("${allocate[@]}" -w node1,node2 -N 2)
three=("worker 0. rank 0 of 3," "worker 1. rank 1 of 3," "worker 2. rank 2 of 3,")
place='echo $COLLA_RANK/$COLLA_SIZE $COLLA_LOCAL_RANK/$COLLA_LOCAL_SIZE $COLLA_HOST $(hostname) $PWD $COLLA_THREADS x$COLLA_SECRET'
expect "two nodes with two tasks and one" 0 "0/3 0/2 node1 node1 /run/test [12] x$" "1/3 1/2 node1 node1 /run/test [12] x$" \
  "2/3 0/1 node2 node2 /run/test [12] x$" -- "${allocate_two[@]}" -n 3 "$colla" run -- sh -c "$place"
expect "a job that meets" 0 "${three[@]}" -- "${allocate_two[@]}" -n 3 "$colla" run --threads 1 -- "${job[@]}"
expect "fewer workers than tasks, and a server" 0 "worker 0. worker 0 node1" "worker 1. worker 1 node1" "ps 0. ps 0 node1" -- \
  "${allocate_two[@]}" --ntasks-per-node 2 "$colla" run -np 2 --ps 1 -- sh -c 'echo $COLLA_ROLE $COLLA_RANK $(hostname)'
expect "as many workers as CPUs" 0 "0/4 0/2 node1" "3/4 1/2 node2 node2 /run/test [12] x$" -- \
  "${allocate_two[@]}" --cpus-per-task 2 "$colla" run -- sh -c "$place"
expect "more workers than tasks" 2 "^colla run: -np is 5, but the hosts have 4 slots" -- \
  "${allocate_two[@]}" --ntasks-per-node 2 "$colla" run -np 5 -- true
expect "more workers than tasks, on the node itself" 0 "1/2 1/2 node1 node1" -- \
  on node1 "${allocate[@]}" -w node1 -n 1 "$colla" run -np 2 -- sh -c "$place"
expect "hosts of the allocation that are named" 0 "0/2 0/1 node3" "1/2 0/1 node2" -- \
  "${allocate[@]}" -N 3 -n 3 "$colla" run -H node3:1,node2:1 -- sh -c "$place"
expect "a program that is not on a node" 1 "host node2: there is no program .*/only-here" -- \
  on node1 bash -c 'mkdir -p /mnt/only && mount -t tmpfs tmpfs /mnt/only && cp "$(type -P true)" /mnt/only/only-here && "$@"' bash \
  "${allocate_two[@]}" -n 2 "$colla" run -- /mnt/only/only-here
expect "the first failure" 7 "colla run: worker 1 on host node2 ended with exit code 7" -- \
  "${allocate_two[@]}" -n 2 "$colla" run -- sh -c '[ $COLLA_RANK = 0 ] && sleep 60; exit 7'
expect "doctor" 0 "between hosts: TCP" "^node1 *node2 *[0-9]* us" "a job can run on these hosts" -- \
  "${allocate_two[@]}" -n 2 "$colla" doctor

line=$(grep '^salloc ' "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../../docs/clusters.md")
mkdir bin
ln -s "$colla" bin/colla
expect "docs/clusters.md: $line" 0 "worker 0. node" "worker 7. node" -- env "PATH=$PWD/bin:$PATH" bash -c "$line"

# In a batch job the first node is where `colla run` is; the job's shell has the variables of a task.
cat >batch <<'END'
#!/bin/sh
"$@"
echo "ended: $?"
END
expect "sbatch" 0 "Submitted" -- sbatch -N 3 -n 5 --overcommit -o batch.out batch "$colla" run --threads 1 -- "${job[@]}"
waitFor "the batch job" grep -qs "^ended" batch.out
expect "a batch job on three nodes" 0 "worker 0. rank 0 of 5," "worker 4. rank 4 of 5," "^ended: 0" -- cat batch.out

# The secret crosses the network sealed, and is in no environment and no command line.
mark=mark-$$
"${allocate_two[@]}" -n 4 "$colla" run -- "$probe" signals $mark >run.out 2>&1 </dev/null &
waitFor "four workers" eval '(($(grep -c "ready$" run.out) == 4))'
front=$(pgrep -f "^[^ ]*$colla run" | head -1)
kill -USR1 "$front"
waitFor "a signal that is passed on" grep -q 'worker 3. got USR1' run.out
kill -9 "$front"
nothing() { ! pgrep -f "$mark" >/dev/null && ! pgrep -f "[a]gent$" >/dev/null; }
deadline=$((SECONDS + 10))
until nothing; do ((SECONDS < deadline)) || { ps -ef && exit 1; }; sleep 0.2; done
echo passed
