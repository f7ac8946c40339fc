#!/usr/bin/env bash
# A program that real mpiruns start, Open MPI's and MPICH's, on one host or two, joins its peers.
# MEMBER does collectives, JOBS is in several jobs, one after the other.
#
#   hosts.sh a b -- mpi_test.sh MEMBER JOBS
set -euo pipefail
source "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../support/slurm.sh"
needs mpirun.openmpi mpiexec.hydra
mkdir /run/test
cd /run/test
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 COLLA_THREADS=1
# Daemons of Open MPI keep their sockets here.
export TMPDIR=/run/test
command=("$1" allreduce 5 100000 20000)
four=("rank 0 of 4," "rank 1 of 4," "rank 2 of 4," "rank 3 of 4,")
open=(on a mpirun.openmpi -x COLLA_THREADS)
hydra=(on a mpiexec.hydra)

expect "Open MPI on two hosts" 0 "${four[@]}" -- "${open[@]}" -np 4 -H a:2,b:2 "${command[@]}"
expect "MPICH on two hosts" 0 "${four[@]}" -- "${hydra[@]}" -n 4 -hosts a:2,b:2 "${command[@]}"
expect "Open MPI, rank by rank" 0 "${four[@]}" -- \
  "${open[@]}" -np 4 -H a:2,b:2 -map-by node "${command[@]}"
expect "MPICH on three uneven places" 0 "rank 2 of 3," -- \
  "${hydra[@]}" -n 3 -hosts a:2,b:1 "${command[@]}"
expect "MPICH on one host" 0 "${four[@]}" -- "${hydra[@]}" -n 4 "${command[@]}"
done=(0 "done.*done.*done.*done")
expect "Open MPI, three jobs one after the other" "${done[@]}" -- \
  bash -c '"$@" | paste -sd " "' bash "${open[@]}" -np 4 -H a:2,b:2 "$2" after
expect "MPICH, three jobs one after the other" "${done[@]}" -- \
  bash -c '"$@" | paste -sd " "' bash "${hydra[@]}" -n 4 -hosts a:2,b:2 "$2" after

# A secret in a file comes first.
(umask 077 && head -c 32 /dev/urandom | base64 >secret)
file=(env COLLA_SECRET_FILE=/run/test/secret "${open[@]}" -x COLLA_SECRET_FILE)
expect "Open MPI with a file" 0 "${four[@]}" -- "${file[@]}" -np 4 -H a:2,b:2 "${command[@]}"
echo short >secret
expect "Open MPI with a bad file" 1 "/run/test/secret has 5 bytes" -- \
  bash -c '"$@" | sort -u; exit "${PIPESTATUS[0]}"' bash "${file[@]}" -np 4 -H a:2,b:2 "${command[@]}"
