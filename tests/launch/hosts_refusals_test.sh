#!/usr/bin/env bash
# Everything that can be wrong with the hosts of a job: one clear line each, before anything starts.
#
#   hosts.sh a b -- hosts_refusals_test.sh COLLA
set -euo pipefail
colla=$1
mkdir -p "$TMPDIR/work" "$TMPDIR/bin"
cd "$TMPDIR/work"
export COLLA_START_TIMEOUT=20

# refuse WHAT EXIT-CODE LINE -- ARGUMENTS…: all that is said is this line, and nothing was started.
refuse() {
  local what=$1 wanted=$2 pattern=$3 status=0
  shift 4
  timeout -k 5 40 "$colla" run "$@" -- touch started >said 2>&1 </dev/null || status=$?
  if [[ $status != "$wanted" || $(wc -l <said) != 1 || -e started ]] || ! grep -q -e "^colla run: $pattern" said; then
    echo "$what: wanted exit code $wanted and one line, \"$pattern\"; got exit code $status and:"
    cat said
    exit 1
  fi
  echo "$what: $(cut -c1-150 said)"
}

refuse "user@host" 2 '-H ann@b:1: "ann@b" names a user: say so to ssh' -- -H ann@b:1
refuse "a host twice" 2 '-H a:1,b:1,a:2 names host a twice' -- -H a:1,b:1,a:2
refuse "a host under two names" 1 'host 10.234.0.2: it is the same host as a' -- -H a:1,10.234.0.2:1
refuse "more ranks than slots" 2 '-np is 5, but the hosts have 4 slots' -- -np 5 -H a:2,b:2
refuse "an IPv6 literal" 2 '-H fd00::7:2: an IPv6 address needs brackets, as in \[fd00::7:2\]:2' -- -H fd00::7:2
refuse "an IPv6 address that nobody has" 1 'host fd00::7: it does not answer' -- -H '[fd00::7]:2'
refuse "something else than slots" 2 '-H a:x: a host has a number of slots' -- -H a:x
refuse "flags in a name" 2 '-H -oProxyCommand=x:1: hosts are HOST' -- --hosts=-oProxyCommand=x:1
refuse "a host file that is not there" 2 "can't read the host file none" -- --hostfile none
refuse "both" 2 '-H and --hostfile say the same' -- -H a --hostfile none
refuse "neither" 2 '--np is required, or hosts' --
refuse "a port" 2 '--ssh-port is 99999' -- -H b:1 -p 99999
refuse "a key that is not there" 2 'there is no key that can be read in none' -- -H b:1 -i none
refuse "servers without workers' hosts" 2 "--server-hosts needs the workers' hosts" -- -np 1 --server-hosts a:1
refuse "more servers than slots" 2 '--ps is 3, but --server-hosts has 2 slots' -- -H a:1 --ps 3 --server-hosts b:2

echo "10.234.0.77 silent" >>/etc/hosts
echo "10.234.0.2 newname" >>/etc/hosts
refuse "an unknown host" 1 'host nowhere: there is no host of that name' -- -H a:1,nowhere:1
refuse "an unknown host key" 1 'host newname: its key is not in known_hosts: connect once by hand (`ssh newname`)' -- -H newname:1
refuse "a refused port" 1 'host b: it refuses connections at port 9' -- -H b:1 -p 9
COLLA_START_TIMEOUT=2 refuse "a host that is not there" 1 'host silent: it does not answer' -- -H silent:1
ssh-keygen -q -t ed25519 -N "" -f stranger
refuse "a refused key" 1 'host b: it wants a password, which `colla run` never asks for: copy a key there (`ssh-copy-id b`)' -- \
  -H b:1 -i stranger --ssh-arg=-F/dev/null --ssh-arg=-oUserKnownHostsFile="$HOSTS_DIR/known_hosts" --ssh-arg=-oIdentitiesOnly=yes
on b /usr/sbin/sshd -f "$HOSTS_DIR/sshd_config" -p 2222 -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no
sed 's/^b,/[b]:2222,/' "$HOSTS_DIR/known_hosts" >known_2222
refuse "a refused key where there are no passwords" 1 'host b: it refused the key: copy one there (`ssh-copy-id b`)' -- \
  -H b:1 -p 2222 -i stranger --ssh-arg=-F/dev/null --ssh-arg=-oUserKnownHostsFile="$PWD/known_2222" --ssh-arg=-oIdentitiesOnly=yes
ssh-keygen -q -t ed25519 -N "" -f changed
echo "b $(cut -d' ' -f1,2 changed.pub)" >known_changed
refuse "a changed host key" 1 'host b: its key is not the one in known_hosts' -- -H b:1 --ssh-arg=-oUserKnownHostsFile="$PWD/known_changed"

# Hosts that do not reach each other: the loopback of each is its own.
status=0
timeout 40 "$colla" run -H a:1,b:1 --network-interfaces lo -- touch started >said 2>&1 </dev/null || status=$?
[[ $status == 1 && ! -e started ]] && grep -q "host b: it can't reach host a at 127.0.0.1:[0-9]* (Connection refused): open the ports" said || {
  cat said
  exit 1
}
echo "hosts that don't reach each other: fine"
# Others need no name for this host, which only it calls localhost.
timeout 40 "$colla" run -H localhost:1,b:1 -- sh -c 'echo $MASTER_ADDR' >said 2>&1 </dev/null || { cat said && exit 1; }
[[ $(sort said) == $'[worker 0] 10.234.0.1\n[worker 1] 10.234.0.1' ]] || { cat said && exit 1; }
echo "localhost and a name: fine"

mkdir only-here
on b mount -t tmpfs -o size=64k tmpfs "$TMPDIR/work/only-here"
refuse "no such interface" 1 'host a: there is no network interface eth7: there are lo (127.0.0.1), .*eth0 (10.234.0.2)' -- -H a:1 --network-interfaces eth7
(
  cd only-here
  mkdir deeper
  cd deeper
  refuse "a folder that is not there" 1 "host b: the working directory $PWD can't be entered (No such file or directory)" -- -H a:1,b:1
)
on b dd if=/dev/zero of=only-here/full bs=1k count=128 2>/dev/null || true
(cd only-here && refuse "a full disk" 1 "host b: the disk with $PWD is full: make room on it" -- -H a:1,b:1)

status=0
"$colla" run -H a:1,b:1 -- no-such-program >said 2>&1 || status=$?
[[ $status != 0 && $(sort said) == *'host a: there is no program "no-such-program" in PATH'* ]] || { cat said; exit 1; }

# The same binary, but for its version: this one's is made longer than what is there.
version=$("$colla" version | sed -n 's/^colla //p')
other=$(tr 0-9 1-90 <<<"$version")
sed "s/$version/$other/g" "$colla" >"$TMPDIR/bin/colla"
chmod +x "$TMPDIR/bin/colla"
on b mount --bind "$TMPDIR/bin/colla" "$colla"
refuse "a different version" 1 "host b: it has Colla $other, but this is $version: install the same version" -- -H a:1,b:1
on b umount "$colla"
on b mount -t tmpfs tmpfs "$(dirname "$colla")"
refuse "no Colla" 1 'host b: there is no Colla: install it there as it is here' -- -H a:1,b:1

echo passed
