#!/usr/bin/env bash
# slurm_test.sh MEMBER: a program that real srun and sbatch start joins its peers, or says why not.
#
# A cluster of two nodes runs on this host in namespaces of its own: processes, network, names and
# files (on a tmpfs) end with the first process in there, however it ends.
set -euo pipefail

skip() {
  echo "skipped: $*"
  exit 77
}

if [[ ${2:-} != inside ]]; then
  PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
  for program in munged slurmctld slurmd srun sbatch; do
    command -v "$program" >/dev/null ||
      skip "there is no $program; scripts/packages.txt names its package"
  done
  [[ $(id -u) == 0 ]] || skip "a Slurm that starts processes needs root"
  spaces=(unshare --mount --uts --ipc --net --pid --fork --kill-child --mount-proc)
  "${spaces[@]}" true 2>/dev/null || skip "this root may not make namespaces"
  # Nothing of a Slurm around us may reach in.
  exec env -i "PATH=$PATH" HOME=/ "${spaces[@]}" "${BASH_SOURCE[0]}" "$1" inside
fi

command=("$1" allreduce 5 100000 20000)
mount -t tmpfs -o mode=755 tmpfs /run
cd /run
exec 3>&1
trap 'status=$?; ((status == 0)) || tail -v -n 20 /run/*.log >&3' EXIT

# expect WHAT EXIT-CODE PATTERN… -- COMMAND…: the command's exit code, and each pattern in one line
# of what it says.
expect() {
  local what=$1 wanted=$2 patterns=() status=0 pattern
  shift 2
  while [[ $1 != -- ]]; do
    patterns+=("$1")
    shift
  done
  shift
  timeout -k 5 40 "$@" >said 2>&1 || status=$?
  for pattern in "${patterns[@]}"; do
    [[ $status == "$wanted" && $(grep -c -e "$pattern" said) == 1 ]] && continue
    echo "$what: wanted exit code $wanted and \"$pattern\" in one line, got exit code $status and:"
    cat said
    exit 1
  done
  echo "$what: fine"
}

# waitFor WHAT CONDITION…
waitFor() {
  local deadline=$((SECONDS + 30))
  until "${@:2}"; do
    ((SECONDS < deadline)) || { echo "waited 30 s for $1" && exit 1; }
    sleep 0.1
  done
}
answers() { [[ $(timeout 5 scontrol ping 2>/dev/null) == *"is UP"* ]]; }
idle() { [[ $(timeout 5 sinfo -h -o '%D %t' 2>/dev/null) == "2 idle" ]]; }

# Addresses other than 127.0.0.1, without which getaddrinfo() takes the host for one without a
# network.
ip link set lo up
ip address add 10.0.0.1/32 dev lo
ip address add 10.0.0.2/32 dev lo
printf '%s\n' "127.0.0.1 localhost" "10.0.0.1 node1" "10.0.0.2 node2" >hosts
mount --bind hosts /etc/hosts
hostname node1

export SLURM_CONF=/run/slurm.conf
cat >slurm.conf <<'END'
ClusterName=test
SlurmctldHost=node1
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=/run/munge.socket
StateSaveLocation=/run/state
SlurmdSpoolDir=/run/spool-%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SlurmdParameters=config_overrides
NodeName=node1 Port=7001 CPUs=4
NodeName=node2 Port=7002 CPUs=4
PartitionName=all Nodes=ALL Default=YES
END
# Processes are found without cgroups. What says so is new in 24.05; v1 touches none that it is not
# asked to.
version=$(slurmd -V)
[[ ${version##* } < 24.05 ]] && cgroups=cgroup/v1 || cgroups=disabled
echo "CgroupPlugin=$cgroups" >cgroup.conf
mkdir state
(umask 077 && head -c 128 /dev/urandom >munge.key && head -c 32 /dev/urandom | base64 >secret)
munged -F --force --key-file=/run/munge.key --socket=/run/munge.socket --pid-file=/run/munged.pid \
  --seed-file=/run/munge.seed >munged.log 2>&1 &
# One after the other: each waits for seconds before it tries again.
waitFor munged test -S munge.socket
slurmctld -D >slurmctld.log 2>&1 &
waitFor slurmctld answers
slurmd -D -N node1 >slurmd1.log 2>&1 &
slurmd -D -N node2 >slurmd2.log 2>&1 &
waitFor "both nodes" idle

one=(srun -N 1 -n 3 --overcommit)
# Uneven nodes would give their ranks different numbers of threads, which a job refuses.
export COLLA_THREADS=1
two=(srun -N 2 -n 3 --overcommit)
three=("rank 0 of 3," "rank 1 of 3," "rank 2 of 3,")
expect "srun on one node" 0 "${three[@]}" -- "${one[@]}" "${command[@]}"
expect "srun with PMI's variables" 0 "${three[@]}" -- "${one[@]}" --mpi=pmi2 "${command[@]}"
expect "srun across nodes without a secret" 1 "1 of its 3 processes.* set COLLA_SECRET_FILE" -- \
  "${two[@]}" "${command[@]}"
export COLLA_SECRET_FILE=/run/secret
expect "srun across nodes" 0 "${three[@]}" -- "${two[@]}" "${command[@]}"
expect "srun across nodes, cyclic" 0 "${three[@]}" -- \
  "${two[@]}" --distribution=cyclic "${command[@]}"

# The shell of a batch job has the variables of three tasks, but is none of them.
cat >batch <<'END'
#!/bin/sh
"$@"
shell=$?
srun -N 1 -n 2 --overcommit "$@"
echo "ended: $shell $?"
END
expect "sbatch" 0 "Submitted" -- sbatch -N 1 -n 3 --overcommit -o batch.out batch "${command[@]}"
waitFor "the batch job" grep -qs "^ended" batch.out
expect "the batch job's shell and step" 0 "rank 0 of 1," "rank 0 of 2," "rank 1 of 2," \
  "ended: 0 0" -- cat batch.out
