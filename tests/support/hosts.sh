#!/usr/bin/env bash
# Runs a command among several hosts on this machine: each is a network namespace, which Colla takes
# for a host, with a name, an address and an sshd of its own; a bridge joins them.
#
#   hosts.sh NAME… -- COMMAND…    (77: hosts can't be made here)
#
# COMMAND runs on a machine of its own, called desk, at 10.234.0.1; the hosts have 10.234.0.2 and so
# on, on the interface eth0. `ssh NAME` reaches them by key, without questions. COMMAND finds:
#
#   HOSTS_DIR        key, known_hosts, ssh_config, NAME.pid: what ssh uses here, and sshd's process
#   on NAME CMD…     runs a command on host NAME, or on desk, without ssh
#   to-NAME          the end on desk of the link to host NAME: `ip link set to-NAME down` cuts it
#   host NAME        makes one more host; a name that ends with - has no sshd
#   unhost NAME      takes host NAME away, as a power failure would: link, processes and all
#
# Everything is in namespaces that belong to processes of a process namespace, and the files are in
# its memory: all of it goes with COMMAND, or with this script, whoever kills it.
set -euo pipefail

skip() {
  echo "skipped: $*"
  exit 77
}

if [[ ${1:-} != --inside ]]; then
  [[ $(id -u) == 0 ]] || skip "only root can make hosts of network namespaces"
  for tool in ip unshare nsenter ssh ssh-keygen /usr/sbin/sshd; do
    command -v "$tool" >/dev/null || skip "there is no $tool (packages iproute2, openssh-client, openssh-server)"
  done
  reason=$(unshare --mount --net --uts --pid --fork true 2>&1) || skip "no namespaces here ($reason)"
  reason=$(unshare --net ip link add va type veth peer name vb 2>&1) || skip "no veth pairs here ($reason)"
  # The process namespace ends with its first process, and that with this one.
  exec unshare --mount --net --uts --ipc --pid --fork --kill-child --mount-proc \
    bash "$(realpath "${BASH_SOURCE[0]}")" --inside "$@"
fi
shift

names=()
while (($# > 0)) && [[ $1 != -- ]]; do
  names+=("$1")
  shift
done
[[ ${1:-} == -- ]] || {
  echo "usage: hosts.sh NAME… -- COMMAND…" >&2
  exit 2
}
shift

mount -t tmpfs -o mode=755 tmpfs /run  # sshd wants a folder there; the machine's own stays as it is.
mkdir -p /run/sshd /run/hosts/bin /run/hosts/tmp
export HOSTS_DIR=/run/hosts TMPDIR=/run/hosts/tmp PATH=/run/hosts/bin:$PATH
hostname desk
ip link set lo up
ip link add desk type bridge
ip addr add 10.234.0.1/24 dev desk
ip link set desk up

for key in key host_key; do ssh-keygen -q -t ed25519 -N "" -C "$key" -f "$HOSTS_DIR/$key"; done
cp "$HOSTS_DIR/key.pub" "$HOSTS_DIR/authorized_keys"
cat >"$HOSTS_DIR/sshd_config" <<END
HostKey $HOSTS_DIR/host_key
AuthorizedKeysFile $HOSTS_DIR/authorized_keys
PidFile none
UsePAM no
PermitRootLogin yes
PasswordAuthentication yes
StrictModes no
MaxStartups 100
Subsystem sftp internal-sftp
END
cat >"$HOSTS_DIR/ssh_config" <<END
IdentityFile $HOSTS_DIR/key
IdentitiesOnly yes
UserKnownHostsFile $HOSTS_DIR/known_hosts
GlobalKnownHostsFile /dev/null
END
printf '127.0.0.1 localhost\n::1 localhost ip6-localhost\n10.234.0.1 desk\n' >"$HOSTS_DIR/hosts"
mount --bind "$HOSTS_DIR/hosts" /etc/hosts
mount --bind "$HOSTS_DIR/ssh_config" /etc/ssh/ssh_config
echo 1 >"$HOSTS_DIR/last"
echo $$ >"$HOSTS_DIR/desk.pid"

cat >"$HOSTS_DIR/bin/on" <<'END'
#!/usr/bin/env bash
name=$1 folder=$PWD
shift
exec nsenter --target "$(cat "$HOSTS_DIR/$name.pid")" --net --uts --mount -- \
  bash -c 'cd "$0" && exec "$@"' "$folder" "$@"
END
cat >"$HOSTS_DIR/bin/host" <<'END'
#!/usr/bin/env bash
set -euo pipefail
name=${1%-}
number=$(($(cat "$HOSTS_DIR/last") + 1))
echo "$number" >"$HOSTS_DIR/last"
address=10.234.0.$number
echo "$address $name" >>"$HOSTS_DIR/hosts"
echo "$name,$address $(cut -d' ' -f1,2 "$HOSTS_DIR/host_key.pub")" >>"$HOSTS_DIR/known_hosts"
# One process stands for the host; its children are what runs there. It waits for its network.
mkfifo "$HOSTS_DIR/$name.go"
server=(/usr/sbin/sshd -D -e -f "$HOSTS_DIR/sshd_config")
[[ $1 == "$name" ]] || server=(sleep infinity)
unshare --net --uts --mount bash -c 'hostname "$0" && echo $$ >"$HOSTS_DIR/$0.pid" && read -r go <"$HOSTS_DIR/$0.go" && exec "$@"' \
  "$name" "${server[@]}" >"$HOSTS_DIR/$name.log" 2>&1 </dev/null &
until [[ -s $HOSTS_DIR/$name.pid ]]; do sleep 0.01; done
pid=$(cat "$HOSTS_DIR/$name.pid")
ip link add name "to-$name" type veth peer name eth0 netns "$pid"
ip link set dev "to-$name" master desk up
nsenter --target "$pid" --net sh -c "ip link set lo up && ip addr add $address/24 dev eth0 && ip link set eth0 up"
echo go >"$HOSTS_DIR/$name.go"
[[ $1 == "$name" ]] || exit 0
until nsenter --target "$pid" --net bash -c "exec 3<>/dev/tcp/$address/22" 2>/dev/null; do sleep 0.02; done
END
cat >"$HOSTS_DIR/bin/unhost" <<'END'
#!/usr/bin/env bash
set -euo pipefail
ip link del dev "to-$1"
here=$(readlink "/proc/$(cat "$HOSTS_DIR/$1.pid")/ns/net")
for process in /proc/[0-9]*; do
  if [[ $(readlink "$process/ns/net" 2>/dev/null) == "$here" ]]; then kill -9 "${process#/proc/}" 2>/dev/null || true; fi
done
END
chmod +x "$HOSTS_DIR/bin/"*

for name in "${names[@]}"; do host "$name"; done
"$@"
