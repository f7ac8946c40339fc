"""Workers on other hosts: an agent for each host, behind ssh, and a relay beside the pool.

ssh says who may start what where, and encrypts; nothing of the pool listens anywhere.
"""

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence

from colla.pool import local
from colla.pool.channel import Channel, Kind
from colla.pool.local import Plan
from colla.pool.parcel import Parcel, pack
from colla.pool.pickling import Pickling

_SSH = (
    *("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=2"),
    *("-o", "ServerAliveCountMax=5", "-o", "ClearAllForwardings=yes", "-o", "ForwardX11=no", "-o", "ControlMaster=no"),
)


def parse_hosts(hosts: str | Iterable[str]) -> list[tuple[str, int]]:
    """``"a:4,b"`` or ``["a:4", "b"]``: names, and how many workers are there."""
    found = []
    for text in hosts.split(",") if isinstance(hosts, str) else hosts:
        name, _, count = text.strip().partition(":")
        if not name or name.startswith("-") or not (count or "1").isdecimal() or int(count or 1) < 1:
            raise ValueError(f"hosts has {text!r}, but takes a name, or a name and a number: a:4")
        found.append((name, int(count or 1)))
    if not found:
        raise ValueError("hosts is empty")
    return found


class RemoteWorker:
    """A worker at the other end of a relay. Thread safety: none."""

    # What is under way to a host can't be taken back.
    most_ahead = 1
    # Its agent does that.
    is_replaced = False

    def __init__(self, host: str, name: str, ours: socket.socket, theirs: socket.socket) -> None:
        self.channel = Channel(ours)
        self.unread = Channel(theirs)
        self.name = name
        self._host = host
        self._relay: subprocess.Popen[bytes] | None = None
        self._descriptor = -1
        local.remember(self)

    def attach(self, relay: "subprocess.Popen[bytes]") -> None:
        self._relay = relay
        self._descriptor = os.pidfd_open(relay.pid)

    def fileno(self) -> int:
        """Is readable when the connection to the host has ended."""
        return self._descriptor

    def __str__(self) -> str:
        return f"{self.name} on host {self._host}"

    def stop(self) -> None:
        """Has its agent end, when all workers of the host are stopped."""
        try:
            self.channel.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # It is gone.

    terminate = stop

    def kill(self) -> None:
        assert self._relay is not None
        self._relay.kill()

    def join(self) -> str:
        """Waits for the end of the connection."""
        if self._relay is not None:
            self._relay.wait()
        self.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        return "was lost: the connection to its host has ended"

    def close(self) -> None:
        local.forget(self)
        self.channel.close()
        self.unread.close()


def start_hosts(plan: Plan, hosts: Sequence[tuple[str, int]], python: str, names: Sequence[str]) -> list[RemoteWorker]:
    """All workers of all hosts, named in their order."""
    paths = [path or os.getcwd() for path in sys.path]
    code = f"import sys; sys.path += {paths!r}; from colla.pool.agent import main; main()"
    started: list[RemoteWorker] = []
    left = iter(names)
    try:
        for host, count in hosts:
            of_host = [RemoteWorker(host, next(left), *Channel.pair()) for _ in range(count)]
            started += of_host
            files = [worker.unread.fileno() for worker in of_host]
            agent = [*_SSH, "--", host, f"exec {shlex.quote(python)} -P -c {shlex.quote(code)}"]
            relay = subprocess.Popen(
                [sys.executable, "-P", "-c", f"import sys; sys.path = {paths!r}; import runpy;"
                 " runpy.run_module('colla.pool.relay', run_name='__main__', alter_sys=True)",
                 *map(str, files), "--", *agent],
                pass_fds=files,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is the pool's affair.
            )
            for worker in of_host:
                worker.attach(relay)
            of_host[0].channel.send(Kind.PLAN, 0, _plan(plan, [worker.name for worker in of_host]))
    except BaseException:
        for worker in started:
            worker.stop()
        for worker in started:
            worker.join()
        raise
    return started


def _plan(plan: Plan, names: list[str]) -> Parcel:
    """What an agent must know. Its host has no main script, so what is from there goes by value."""
    pickling = Pickling.without_main()
    initialization = pickling.dumps((plan.initializer, tuple(plan.initargs)), None)
    return pack((os.getcwd(), names, plan.most_tasks, initialization), pickling)
