#!/usr/bin/env bash
# DeepFam and the language model on several hosts over ssh: the bits are those of one host, for every
# spread of workers over hosts and every strategy that promises them.
#
#   hosts.sh a b c -- hosts_training_test.sh COLLA
set -euo pipefail
colla=$1
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
      echo "$name: the bits of one host"
    done
  done
done
# As a launcher of such programs, and with servers on a host of their own.
timeout 120 "$colla" run -H a:1,b:1 --server-hosts c:1 -- "$colla" train "${lm[@]}" --strategy ps-sync --slices 4 --threads 1 \
  --seed 3 --no-eval --checkpoint-dir servers >servers.out 2>&1 </dev/null || { cat servers.out && exit 1; }
same one-lm servers
# As docs/clusters.md has it.
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
mkdir bin
ln -s "$colla" bin/colla
while read -r line; do
  echo "docs/clusters.md: $line"
  PATH=$PWD/bin:$PATH timeout 120 bash -c "$line" >docs.out 2>&1 </dev/null || { cat docs.out && exit 1; }
done < <(sed -n '/^## Two hosts/,/^## Slurm/p' "$here/../../docs/clusters.md" | grep '^colla ')
echo passed
