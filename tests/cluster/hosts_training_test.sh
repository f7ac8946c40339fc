#!/usr/bin/env bash
# DeepFam and the language model on several hosts over ssh: the bits are those of one host, for every
# spread of workers over hosts and every strategy that promises them.
#
#   hosts.sh a b c -- hosts_training_test.sh COLLA
set -euo pipefail
colla=$1
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
mkdir -p "$TMPDIR/work"
cd "$TMPDIR/work"
deepfam=(deepfam --data synthetic:gpcr:120 --length 60 --windows 5,8 --filters 8 --hidden 16 --epochs 1 --batch 40)
lm=(lm --data synthetic:text:600x200 --steps 3 --batch 30 --embedding 8 --units 12 --projection 8 --candidates 20)

# run NAME FLAGS…: a training, whose checkpoint is NAME.
run() {
  local name=$1
  shift
  timeout -k 5 120 "$colla" train "$@" --slices 4 --threads 1 --seed 3 --no-eval --checkpoint-dir "$name" >"$name.out" 2>&1 </dev/null || {
    echo "$name: exit code $?"
    cat "$name.out"
    exit 1
  }
}
same() {
  "$colla" compare "$1" "$2" >compared || {
    echo "$2 is different from $1"
    cat compared
    exit 1
  }
}
run one-deepfam "${deepfam[@]}" --np 1
run one-lm "${lm[@]}" --np 1
for hosts in a:2,b:2 a:1,b:1,c:1 a:2,b:1; do
  for strategy in allreduce ps-sync hybrid; do
    for model in deepfam lm; do
      declare -n flags=$model
      name=$model-$strategy-$hosts
      run "$name" "${flags[@]}" -H "$hosts" --strategy "$strategy"
      same "one-$model" "$name"
      workers=4
      [[ $hosts == a:2,b:2 ]] || workers=3
      grep -q "strategy $strategy, $workers workers" "$name.out" || { cat "$name.out" && exit 1; }
      echo "$name: the bits of one host"
    done
  done
done
# As a launcher of such programs, and with servers on a host of their own.
timeout 120 "$colla" run -H a:1,b:1 --server-hosts c:1 -- "$colla" train "${lm[@]}" --strategy ps-sync --slices 4 --threads 1 \
  --seed 3 --no-eval --checkpoint-dir servers >servers.out 2>&1 </dev/null || { cat servers.out && exit 1; }
same one-lm servers
# Slow links change no bits.
on b tc qdisc add dev eth0 root tbf rate 20mbit burst 64kb latency 100ms
run slow "${deepfam[@]}" -H a:2,b:2
same one-deepfam slow
on b tc qdisc del dev eth0 root
# Every strategy of the demo, with workers on two hosts, and a training that horovodrun starts.
timeout 120 "$colla" demo -H a:1,b:1 --epochs 1 >demo.out 2>&1 </dev/null && grep -q "^equal: every strategy" demo.out || { cat demo.out && exit 1; }
timeout 120 "$colla" horovodrun -np 2 -H a:1,b:1 --output-filename said --prefix-output-with-timestamp --mpi-args="-mca btl tcp" \
  "$colla" train "${lm[@]}" --slices 4 --threads 1 --seed 3 --no-eval --checkpoint-dir horovod >horovod.out 2>&1 </dev/null || { cat horovod.out && exit 1; }
same one-lm horovod
[[ -s said/worker-0.out ]]
# As docs/clusters.md has it.
printf "a slots=2\nb slots=2\n" >hosts
mkdir bin
ln -s "$colla" bin/colla
while read -r line; do
  echo "docs/clusters.md: $line"
  PATH=$PWD/bin:$PATH timeout 120 bash -c "$line" >docs.out 2>&1 </dev/null || { cat docs.out && exit 1; }
done < <(sed -n '/^## Two hosts/,/^## Slurm/p' "$here/../../docs/clusters.md" | grep '^colla ')
# A host that goes away in the middle of a step.
timeout 100 "$colla" train lr --data synthetic:lr:4000x50 --batch 40 --steps 100000000 --no-eval -H a:1,b:1,c:1 --checkpoint-dir lost \
  >lost.out 2>&1 </dev/null &
training=$!
deadline=$((SECONDS + 30))
until grep -q 'Step ' lost.out; do ((SECONDS < deadline)) || { cat lost.out && exit 1; }; sleep 0.1; done
unhost c
begin=$SECONDS
wait $training && exit 1
((SECONDS - begin <= 11)) || { echo "it took $((SECONDS - begin)) s to end without host c" && cat lost.out && exit 1; }
grep 'host c is lost\|rank 2 on host c' lost.out || { cat lost.out && exit 1; }
echo passed
