#!/usr/bin/env bash
# What a link of 1 Gbit/s leaves of a training: a model with one worker on each of two hosts, which are
# network namespaces joined by a link, first free, then limited by tc's tbf. The time of a step on the
# limited link is compared with what the link allows: the bytes of a step at the link's payload rate,
# beside backward, which is two thirds of a step, but not beside forward.
#
#   sudo bench/link_training.sh [MODEL FLAG…]
#
# ./colla has to be built. By default: resnet50v2 --data synthetic:cifar10:320 --batch 16.
# COLLA_BENCH_STEPS (12) are measured, as a run of twice as many less one of as many.
set -euo pipefail
root=$(dirname "$(dirname "$(realpath "${BASH_SOURCE[0]}")")")
if [[ -z ${HOSTS_DIR:-} ]]; then exec "$root/tests/support/hosts.sh" a- b- -- "${BASH_SOURCE[0]}" "$@"; fi
colla=${COLLA:-$root/build/bin/colla}
[[ -x $colla ]] || { echo "link_training.sh: build Colla first: ./colla --version" >&2; exit 1; }
(($# > 0)) || set -- resnet50v2 --data synthetic:cifar10:320 --batch 16
steps=${COLLA_BENCH_STEPS:-12}
cd "$TMPDIR"
(umask 077; head -c 32 /dev/urandom | base64 >secret)

# train STEPS FLAG…: seconds of both workers' steps, as worker 0 counts them.
train() {
  local steps=$1 rank host run=link-$RANDOM-$1 processes=()
  shift
  for rank in 0 1; do
    host=$([[ $rank == 0 ]] && echo a || echo b)
    env WORLD_SIZE=2 RANK=$rank LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.234.0.2 MASTER_PORT=29418 \
      COLLA_SECRET_FILE="$PWD/secret" COLLA_THREADS=1 COLLA_TRANSPORT=tcp-plain TORCHELASTIC_RUN_ID="$run" \
      on $host "$colla" train "$@" --steps "$steps" --no-eval --quiet --json "$PWD/json$rank" >"out$rank" 2>&1 &
    processes+=($!)
  done
  for rank in 0 1; do
    wait "${processes[$rank]}" || { cat out0 out1 >&2; exit 1; }
  done
}
seconds() { tail -n 1 json0 | python3 -c 'import json, sys; print(json.loads(sys.stdin.read())["seconds"])'; }
sent() { on a cat /proc/net/dev | awk '$1 == "eth0:" { print $10 }'; }
# Seconds and bytes of one step.
step() {
  local first second before middle after
  before=$(sent)
  train "$steps" "$@"
  first=$(seconds)
  middle=$(sent)
  train $((2 * steps)) "$@"
  second=$(seconds)
  after=$(sent)
  python3 -c "print(($second - $first) / $steps, ($after - 2 * $middle + $before) / $steps)"
}

read -r free bytes < <(step "$@")
for host in a b; do on $host tc qdisc add dev eth0 root tbf rate 1gbit burst 256kb latency 50ms; done
read -r limited _ < <(step "$@")
python3 - "$free" "$bytes" "$limited" <<'END'
import sys

free, sent, limited = map(float, sys.argv[1:])
link = sent / (1e9 / 8)  # The counters have headers too, as the filter does.
allowed = max(free, free / 3 + link)
print(f"bytes of a step that leave a host: {sent / 1e6:.1f} MB, {link:.3f} s at 1 Gbit/s")
print(f"step on a free link: {free:.3f} s; on 1 Gbit/s: {limited:.3f} s; the link allows {allowed:.3f} s: {allowed / limited:.0%} of that")
END
