#!/usr/bin/env bash
# `colla run` on several hosts over real ssh: how processes find their places, what the user sees of
# them, how they end, and that nothing of them is left anywhere.
#
#   hosts.sh a b c -- hosts_test.sh COLLA MEMBER PROBE
set -euo pipefail
colla=$1 member=$2 probe=$3
mkdir -p "$TMPDIR/work"
cd "$TMPDIR/work"
export COLLA_THREADS=1

fail() {
  echo "$*"
  exit 1
}
# expect WHAT EXIT-CODE PATTERN… -- COMMAND…: it ends with that code, and each pattern is in a line.
expect() {
  local what=$1 wanted=$2 patterns=() status=0 pattern
  shift 2
  while [[ $1 != -- ]]; do
    patterns+=("$1")
    shift
  done
  shift
  timeout -k 5 60 "$@" >said 2>&1 </dev/null || status=$?
  for pattern in "${patterns[@]}"; do
    [[ $status == "$wanted" ]] && grep -q -e "$pattern" said && continue
    echo "$what: wanted exit code $wanted and \"$pattern\", got exit code $status and:"
    cat said
    exit 1
  done
  echo "$what: fine"
}
# await SECONDS WHAT CONDITION…
await() {
  local deadline=$((SECONDS + $1))
  until "${@:3}"; do
    ((SECONDS < deadline)) || fail "waited $1 s for $2$(echo && cat run.out 2>/dev/null)"
    sleep 0.05
  done
}
# Nothing of a job is left on any host: neither its programs, whose command lines have $mark, nor
# what started them.
mark=mark-$$
nothing() { ! pgrep -f "$mark" >/dev/null && ! pgrep -f "[a]gent$" >/dev/null && ! pgrep -x job-guardian >/dev/null; }
# start COMMAND…: in the background; its output is run.out, its process $front.
start() {
  : >run.out
  "$@" >run.out 2>&1 </dev/null &
  front=$!
}
going() { (($(grep -c 'going$' run.out) == $1)); }
ready() { (($(grep -c 'ready$' run.out) == $1)); }
ends() { ! kill -0 "$front" 2>/dev/null; }

place='echo $COLLA_RANK/$COLLA_SIZE $COLLA_LOCAL_RANK/$COLLA_LOCAL_SIZE $COLLA_HOST $(hostname) $PWD $MASTER_ADDR x$COLLA_SECRET'
diff <("$colla" run -np 4 -H a:2,b:1,c:4 -- sh -c "$place" </dev/null | sort) - <<END || fail "places"
[worker 0] 0/4 0/2 a a $PWD 10.234.0.2 x
[worker 1] 1/4 1/2 a a $PWD 10.234.0.2 x
[worker 2] 2/4 0/1 b b $PWD 10.234.0.2 x
[worker 3] 3/4 0/1 c c $PWD 10.234.0.2 x
END
printf 'c slots=1  # the first\nb:1\n' >hostfile
diff <("$colla" run --hostfile hostfile --server-hosts a:1 -- sh -c 'echo $COLLA_ROLE $COLLA_RANK $(hostname)' </dev/null | sort) - <<END || fail "a host file, and servers elsewhere"
[ps 0] ps 0 a
[worker 0] worker 0 c
[worker 1] worker 1 b
END
[[ $(echo "for worker 0" | "$colla" run -H b:1,a:1 --no-prefix -- sh -c '[ $COLLA_RANK = 1 ] || cat') == "for worker 0" ]] ||
  fail "standard input"
expect "this host among others" 0 "worker 0. 0 desk" "worker 1. 1 b" -- \
  "$colla" run -H localhost:1,b:1 -- sh -c 'echo $COLLA_RANK $(hostname)'
expect "a job that meets" 0 "rank 3 of 4" -- "$colla" run -H a:2,b:2 -- "$member" allreduce 5 1000000 20000
expect "a job that meets, this host too" 0 "rank 2 of 3" -- "$colla" run -H localhost:1,b:2 -- "$member" allreduce 5 1000 20000
expect "a network that is named" 0 "rank 1 of 2" -- "$colla" run -H a:1,b:1 --network-interfaces wlan7,eth0 -np 2 -- "$member" allreduce 5 1000 20000
expect "the first failure" 7 "colla run: worker 1 on host b ended with exit code 7; its last lines on standard error" "| broken" -- \
  "$colla" run -H a:1,b:1 -- sh -c '[ $COLLA_RANK = 0 ] && sleep 60; echo broken >&2; exit 7'
expect "the time of each line" 0 "^20..-..-.. ..:..:..\.... .worker 1. x" -- "$colla" run -H a:1,b:1 --prefix-timestamps -- echo x
"$colla" run -H a:1,b:1 --output-dir logs -- sh -c 'echo $COLLA_RANK' >/dev/null </dev/null
[[ $(cat logs/worker-0.out logs/worker-1.out) == $'0\n1' ]] || fail "files of output"
nothing || fail "something is left of jobs that ended"

# A host that lacks Colla, the program or the script gets copies of them, once; what is there is used.
home=$PWD/home
mkdir "$home" only-here
sed "s|^\(root:[^:]*:[^:]*:[^:]*:[^:]*:\)[^:]*|\1$home|" /etc/passwd >passwd
on b mount --bind "$PWD/passwd" /etc/passwd
expect "nothing to copy" 0 "rank 1 of 2" -- "$colla" run -H a:1,b:1 --copy -- "$member" allreduce 5 1000 20000
[[ ! -e $home/.cache/colla ]] || fail "copies of what is there"
cp "$member" only-here/program
echo 'echo "the script is $0"' >only-here/script
on b mount -t tmpfs tmpfs "$PWD/only-here"
on b mount -t tmpfs tmpfs "$(dirname "$colla")"
expect "a host without Colla" 1 "host b: there is no Colla" -- "$colla" run -H a:1,b:1 -- true
expect "copies of Colla and of the program" 0 "rank 1 of 2" -- \
  "$colla" run -H a:1,b:1 --copy -- "$PWD/only-here/program" allreduce 5 1000 20000
copied() { stat -c '%n %i' "$home/.cache/colla/copies/"*; }
before=$(copied)
expect "copies that are there" 0 "rank 1 of 2" -- \
  "$colla" run -H a:1,b:1 --copy -- "$PWD/only-here/program" allreduce 5 1000 20000
[[ $(copied) == "$before" && $(wc -l <<<"$before") == 1 ]] || fail "copied twice: $before, then $(copied)"
expect "a copy of the script" 0 "worker 1. the script is $home/.cache/colla/copies/.*/script" "worker 0. the script is only-here/script" -- \
  "$colla" run -H a:1,b:1 --copy -- sh only-here/script
on b mount -t tmpfs -o size=64k tmpfs "$home"
expect "no room for copies" 1 "host b: the copies can't be written to ~/.cache/colla/copies there (.*No space left" -- \
  "$colla" run -H a:1,b:1 --copy -- true
for place in "$home" "$PWD/only-here" "$(dirname "$colla")" /etc/passwd; do on b umount "$place"; done

# Neither the command lines nor the environments of all processes have the secret, whatever it is.
start "$colla" run -H a:1,b:1 --output-dir "$mark" -- sh -c 'f=/proc/$$/fd/$COLLA_SECRET_FD; od -An -tx1 -w64 $f | tr -d " \n"; echo " ready"; exec sleep 600.1'
await 20 "a job to look at" ready 2
secret=$(grep -o '[0-9a-f]\{64\}' run.out | head -1)
[[ -n $secret ]] || fail "processes have no secret"
grep -lis "$secret" /proc/[0-9]*/environ /proc/[0-9]*/cmdline && fail "the secret can be seen"
kill "$front"
await 10 "the end after SIGTERM" ends
await 10 "the end of everything" nothing

# Whatever ends the launcher or the connection, nothing is left after ten seconds.
network() { readlink "/proc/$1/ns/net"; }
for how in "kill -9 the launcher" "kill -9 every ssh" "kill -9 every agent" "kill -9 every guardian" \
  "kill -9 the guardian of b" "interrupt"; do
  start "$colla" run -H a:2,b:2 -- "$probe" signals $mark
  await 20 "a job to end" ready 4
  kill -USR1 "$front"
  await 10 "a signal that is passed on" grep -q 'worker 3. got USR1' run.out
  case $how in
    *launcher) kill -9 "$front" ;;
    *ssh) pkill -9 -x ssh ;;
    *agent) pkill -9 -f '[a]gent$' ;;
    *guardian) pkill -9 -x job-guardian ;;
    *"of b")
      for process in $(pgrep -x job-guardian); do
        [[ $(network "$process") != "$(network "$(cat "$HOSTS_DIR/b.pid")")" ]] || kill -9 "$process"
      done
      ;;
    interrupt) kill -INT "$front" ;;
  esac
  await 10 "nothing to be left after: $how" nothing
  await 10 "the launcher's end after: $how" ends
  echo "$how: nothing is left"
done

# A host that is lost: its own processes end as well, and the others are ended with its name.
lose() {
  local what=$1
  start "$colla" run -H a:1,b:1,c:1 -- "$member" allreduce 1000000000 40000 60000
  await 20 "a job that is going" going 3
  "${@:2}"
  await 10 "the end after: $what" ends
  grep -q "host b is lost: \|on host b was lost with its host\|rank 1 on host b" run.out || fail "$what: nobody says who was lost: $(cat run.out)"
  await 10 "nothing to be left after: $what" eval "! pgrep -f 'allreduce [1]000000000' >/dev/null"
  echo "$what: $(grep '^colla run: ' run.out | head -1)"
}
lose "a link that is cut" ip link set to-b down
ip link set to-b up
expect "the host is back" 0 "b$" -- timeout 10 bash -c 'until ssh -o ConnectTimeout=1 b hostname; do :; done'
lose "a host without power" unhost b

echo "passed"
