#!/bin/sh
# Runs a command on a host of bench/network.h, which is a network namespace: what ssh is between machines.
# mpirun and mpiexec start their daemons by it.
#
#   COLLA_BENCH_HOSTS="ADDRESS=FILE …" enter_host.sh [-x] ADDRESS COMMAND…
[ "$1" = -x ] && shift # What mpiexec says to ssh.
address=$1
shift
for host in $COLLA_BENCH_HOSTS; do
  [ "${host%%=*}" = "$address" ] || continue
  # The devices in /sys are those of the namespace that mounted it.
  # Open MPI cuts a name at its first dot, and what hosts of one name share in memory crashes.
  exec nsenter --net="${host#*=}" unshare --uts --mount \
    sh -c "mount -t sysfs sysfs /sys && hostname 'bench-$(echo "$address" | tr . -)' && exec $*"
done
echo "there is no host $address" >&2
exit 1
