#!/usr/bin/env bash
# A program that real srun and sbatch start, on one node or two, joins its peers, or says why not.
# COLLA is a command that trains, or none.
#
#   hosts.sh node1- node2- -- slurm_test.sh MEMBER COLLA
set -euo pipefail
source "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../support/slurm.sh"

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
# Nothing of a Slurm around us may reach in.
[[ ${3:-} == alone ]] || exec env -i "PATH=$PATH" "HOSTS_DIR=$HOSTS_DIR" HOME=/ "${BASH_SOURCE[0]}" "$1" "$2" alone
needs munged slurmctld slurmd srun sbatch
colla=$2
command=("$1" allreduce 5 100000 20000)
mkdir /run/test
cd /run/test
exec 3>&1
trap 'status=$?; ((status == 0)) || tail -v -n 20 /run/slurm/*.log >&3' EXIT
startMunge
startSlurm node1 node2

one=(srun -N 1 -n 3 --overcommit)
# Uneven nodes would give their ranks different numbers of threads, which a job refuses.
export COLLA_THREADS=1
two=(srun -N 2 -n 3 --overcommit)
three=("rank 0 of 3," "rank 1 of 3," "rank 2 of 3,")
expect "srun on one node" 0 "${three[@]}" -- "${one[@]}" "${command[@]}"
expect "srun with PMI's variables" 0 "${three[@]}" -- "${one[@]}" --mpi=pmi2 "${command[@]}"
expect "srun across nodes" 0 "${three[@]}" -- "${two[@]}" "${command[@]}"
expect "srun across nodes, cyclic" 0 "${three[@]}" -- \
  "${two[@]}" --distribution=cyclic "${command[@]}"

# Another user reaches rank 0's door as well, but the credential there is not for them.
knock() { (exec 3<>"/dev/tcp/node1/$((20000 + ($1 * 16) % 12000))" && cat <&3) 2>/dev/null; }
cat >late <<'END'
#!/bin/sh
[ "$SLURM_PROCID" = 0 ] || while [ ! -e /run/test/go ]; do sleep 0.1; done
exec "$@"
END
chmod +x late
"${two[@]}" ./late "${command[@]}" >late.out 2>&1 &
late=$!
id=
open() { id=$(squeue -h -o %i) && [[ -n $id ]] && knock "$id" >credential && [[ -s credential ]]; }
waitFor "rank 0's door" open
expect "the door's credential, to another user" 18 "Unauthorized credential" -- \
  setpriv --reuid=65534 --regid=65534 --clear-groups unmunge --input=credential --no-output
touch go
wait "$late" || { cat late.out && exit 1; }

# Where there is no MUNGE, a file has to have the secret.
fake=(env SLURM_PROCID=0 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=0
  SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE="1(x2)" "SLURM_STEP_NODELIST=node[1-2]")
expect "a node without MUNGE" 1 "MUNGE gives no credentials.*set COLLA_SECRET_FILE" -- \
  unshare --mount sh -c 'mount -t tmpfs tmpfs /run/munge && exec "$@"' sh "${fake[@]}" "${command[@]}"
(umask 077 && head -c 32 /dev/urandom | base64 >secret)
expect "srun across nodes with a secret in a file" 0 "${three[@]}" -- \
  env COLLA_SECRET_FILE=/run/test/secret "${two[@]}" "${command[@]}"

# srun gives this task a terminal, but its output goes into a file: a line, and no bar.
if [[ $colla != none ]]; then
  expect "progress under srun" 0 '^Step 2/2 - [0-9]*s - loss: [0-9.]* - accuracy: [0-9.]*$' -- \
    srun -n 1 --unbuffered "$colla" train lr --data synthetic:lr:60x8 --steps 2 --no-eval
fi

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
