# Sourced by tests that run among the hosts of hosts.sh: a real Slurm, whose controller runs on desk and
# whose nodes are the hosts that startSlurm is given. Files and processes end with hosts.sh.
#
# A requeued job waits until the credentials of its first run have expired: here for seconds.

# needs PROGRAM…: skips the test without them.
needs() {
  local program
  for program in "$@"; do
    command -v "$program" >/dev/null && continue
    echo "skipped: there is no $program; scripts/packages.txt names its package"
    exit 77
  done
}

# waitFor WHAT CONDITION…
waitFor() {
  local deadline=$((SECONDS + 30))
  until "${@:2}"; do
    ((SECONDS < deadline)) || { echo "waited 30 s for $1" && exit 1; }
    sleep 0.1
  done
}

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
  timeout -k 5 60 "$@" >said 2>&1 || status=$?
  for pattern in "${patterns[@]}"; do
    [[ $status == "$wanted" && $(grep -c -e "$pattern" said) == 1 ]] && continue
    echo "$what: wanted exit code $wanted and \"$pattern\" in one line, got exit code $status and:"
    cat said
    exit 1
  done
  echo "$what: fine"
}

slurmAnswers() { [[ $(timeout 5 scontrol ping 2>/dev/null) == *"is UP"* ]]; }
slurmIdle() { [[ $(timeout 5 sinfo -h -o '%D %t' 2>/dev/null) == "$1 idle" ]]; }

startMunge() {
  mkdir -p /run/munge
  (umask 077 && head -c 128 /dev/urandom >/run/munge/key)
  munged -F --force --key-file=/run/munge/key --pid-file=/run/munge/pid --seed-file=/run/munge/seed \
    --log-file=/run/munge/log >/run/munge/out 2>&1 &
  waitFor munged test -S /run/munge/munge.socket.2
}

# startSlurm NODE…: with four CPUs each, whatever there are.
startSlurm() {
  local node device cgroups version
  mkdir -p /run/slurm/state
  export SLURM_CONF=/run/slurm/slurm.conf
  cat >"$SLURM_CONF" <<'END'
ClusterName=test
SlurmctldHost=desk
SlurmUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool-%n
SlurmctldPidFile=/run/slurm/controller.pid
SlurmdPidFile=/run/slurm/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
KillWait=5
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,bf_interval=2
GresTypes=gpu
PartitionName=all Nodes=ALL Default=YES
END
  for node in "$@"; do echo "NodeName=$node CPUs=4 Gres=gpu:tesla:4"; done >>"$SLURM_CONF"
  # A GPU is a device to Slurm; nobody opens these.
  for device in null zero full random; do echo "Name=gpu Type=tesla File=/dev/$device"; done >/run/slurm/gres.conf
  # Processes are found without cgroups. What says so is new in 24.05; v1 touches none that it is not
  # asked to.
  version=$(slurmd -V)
  [[ ${version##* } < 24.05 ]] && cgroups=cgroup/v1 || cgroups=disabled
  echo "CgroupPlugin=$cgroups" >/run/slurm/cgroup.conf
  # One after the other: each waits for seconds before it tries again.
  slurmctld -D >/run/slurm/controller.log 2>&1 &
  waitFor slurmctld slurmAnswers
  for node in "$@"; do on "$node" slurmd -D -N "$node" >"/run/slurm/$node.log" 2>&1 & done
  waitFor "the nodes" slurmIdle $#
}
