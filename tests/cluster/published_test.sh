#!/usr/bin/env bash
# What people publish runs as it is: two batch files for Slurm, and two lines of mpirun. Theirs are the
# flags, ours are the modules, `python`, a `horovodrun` that is Colla's, and a training that ends soon.
# Then torchrun in an allocation, and the lines of docs/clusters.md.
#
#   hosts.sh a b -- published_test.sh COLLA PYTHON PYTHONPATH
set -euo pipefail
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
source "$here/../support/slurm.sh"
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
# Nothing of a Slurm around us may reach in.
[[ ${4:-} == alone ]] || exec env -i "PATH=$PATH" "HOSTS_DIR=$HOSTS_DIR" HOME=/ "${BASH_SOURCE[0]}" "$1" "$2" "$3" alone
needs munged slurmctld slurmd sbatch mpirun.openmpi
mkdir -p /run/test/bin
cd /run/test
exec 3>&1
trap 'status=$?; ((status == 0)) || tail -v -n 20 /run/slurm/*.log /run/test/*.out /run/test/*.err >&3 || true' EXIT
cp "$here"/*.sbatch "$here/ResNet50.py" .
printf '#!/bin/sh\nPYTHONPATH=%q exec %q "$@"\n' "$3" "$2" >bin/python
printf '#!/bin/sh\nexec %q horovodrun "$@"\n' "$1" >bin/horovodrun
printf '#!/bin/sh\nexec mpirun.openmpi "$@"\n' >bin/mpirun
ln -s "$1" bin/colla
printf '#!/bin/sh\n[ "$1" = purge ] || echo "module $*"\n' >bin/module
cp bin/python bin/python3
chmod +x bin/*
PATH=/run/test/bin:$PATH
# The profile of a login shell sets a PATH of its own first.
export HOME=/run/test
echo 'PATH=/run/test/bin:$PATH' >.profile

# learned FILE WORKERS: its five epochs, with less loss in the last than in the first.
learned() {
  sed 's/^\[worker 0\] //' "$1" | awk -v workers="$2" '$1 == workers && $2 ~ /^workers?,$/ { loss[$4 + 0] = $6; count++ }
    END { exit !(count == 5 && loss[5] < 0.8 * loss[1]) }' ||
    { echo "$1: wanted five epochs of $2 workers that learn, got:" && cat "$1" && exit 1; }
  echo "$1, $2 workers: fine"
}
ended() { [[ -z $(squeue -h) ]]; }

startMunge
startSlurm a b
expect "the first batch file" 0 "Submitted" -- sbatch gpus.sbatch
expect "the second batch file" 0 "Submitted" -- sbatch -w b horovod.sbatch
deadline=$((SECONDS + 300))
until ended; do ((SECONDS < deadline)) || exit 1; sleep 0.5; done
cat ./*.err >&2
for workers in 1 2 4; do learned ResNet50_1.out "$workers"; done
learned horovod_2.out 4

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LD_LIBRARY_PATH=/usr/lib TMPDIR=/run/test
on a mpirun --mca btl_vader_single_copy_mechanism none --allow-run-as-root -bind-to none -map-by slot \
  -mca orte_base_help_aggregate 0 -x NCCL_DEBUG=INFO -np 2 -H localhost:2 \
  python ResNet50.py --epochs 5 --batch_size 256 >one.out 2>one.err
learned one.out 2
on a mpirun -np 4 -H a:2,b:2 -bind-to none -map-by slot -x LD_LIBRARY_PATH -x PATH \
  -mca pml ob1 -mca btl ^openib python ResNet50.py --epochs 5 --batch_size 256 >two.out 2>two.err
learned two.out 4

srun --nodes 2 --ntasks-per-node 1 python -m torch.distributed.run --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d \
  --rdzv-id 7 --rdzv-endpoint a:29500 ResNet50.py --epochs 5 --batch_size 256 >torchrun.out 2>torchrun.err
learned torchrun.out 4

for launcher in srun mpirun mpiexec.hydra; do
  line=$(grep "^$launcher " "$here/../../docs/clusters.md")
  workers=$([[ $launcher == srun ]] && echo 8 || echo 4)
  expect "docs/clusters.md: $launcher" 0 "strategy allreduce, $workers workers" "^Epoch 5/5" -- \
    on a env COLLA_THREADS=1 bash -c "$line"
done
