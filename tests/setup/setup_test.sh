#!/usr/bin/env bash
# setup_test.sh ROOT COLLA: contracts of the two commands at the root, once set-up is done.
set -euo pipefail

root=$1
colla=$2
if [[ $colla != "$root/build/bin/colla" || ! -e $root/.venv/.ready ]]; then
  echo "this is not a tree that ./colla or ./test has set up"
  exit 77  # CTest: skipped.
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect WHAT WANTED GOT
expect() {
  if [[ $2 != "$3" ]]; then
    printf '%s\nwanted: %s\ngot:    %s\n' "$@"
    exit 1
  fi
}

# The second call says nothing of its own, from any directory and through a link.
ln -s "$root/colla" "$work/link"
cd "$work"
wanted=$("$colla" --help)
got=$(./link --help 2>"$work/stderr")
expect "output of ./colla --help" "$wanted" "$got"
expect "standard error of ./colla --help" "" "$(<"$work/stderr")"

# What it starts is brought up to date with it.
expect "programs of ./colla" "bin/colla bin/colla-bench-train bin/colla-train" \
  "$(ninja -C "$root/build" -t commands bin/colla | sed -n 's/.* -o \(bin\/[^ ]*\) .*/\1/p' | sort | xargs)"

# A run that was interrupted offers a command that can be typed as it is: by the name that this one
# was started with.
cd "$root"
./colla train mlp --data synthetic:mnist:600 --batch 50 --steps 1000000 --save-every 5 --threads 1 \
  --no-eval --quiet --checkpoint-dir "$work/run" 2>"$work/stderr" &
training=$!
for _ in $(seq 600); do
  if compgen -G "$work/run/checkpoints/step-*[1-9]*" >"$work/found"; then break; fi
  kill -0 "$training" 2>/dev/null || break
  sleep 0.1
done
kill -INT "$training"
wait "$training" || true
offered=$(sed -n 's/.*; go on with: //p' "$work/stderr")
reached=$(sed -n 's/.*; step \([0-9]*\) is saved in .*/\1/p' "$work/stderr")
expect "the command that is offered" "./colla train" "${offered%% mlp *}"
if ! bash -c "${offered/1000000/$((reached + 1))}" 2>"$work/stderr"; then
  cat "$work/stderr"
  exit 1
fi
expect "the step that it goes on from" 1 "$(grep -c "resuming from step $reached" "$work/stderr")"
cd "$work"

# A wrong flag is one line and exit code 2.
status=0
"$root/test" --no-such-flag 2>"$work/stderr" || status=$?
expect "exit code for a wrong flag" 2 "$status"
expect "lines for a wrong flag" 1 "$(wc -l <"$work/stderr")"

# Who may not install packages gets the line to run and exit code 1.
mkdir "$work/clone"
cp -r "$root/colla" "$root/scripts" "$work/clone"
echo "build colla-no-such-package why" >"$work/clone/scripts/packages.txt"
user=()
if [[ $(id -u) == 0 ]]; then
  user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  chown -R 65534:65534 "$work"
fi
if ! "${user[@]}" sudo -n true 2>/dev/null; then
  status=0
  "${user[@]}" "$work/clone/colla" 2>"$work/stderr" || status=$?
  expect "exit code without packages" 1 "$status"
  expect "line to run" \
    "  sudo apt-get update && sudo apt-get install --no-install-recommends colla-no-such-package" \
    "$(tail -n 1 "$work/stderr")"
fi
