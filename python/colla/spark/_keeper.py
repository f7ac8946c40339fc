"""``python -m colla.spark._keeper``: starts a process of a job on an executor, watches it, and ends it.

The process must not outlive its executor nor the driver, but it may outlive the task of Spark that started it. So it
has a keeper, which is in neither's process group. The keeper reports to the driver how the process ended, and ends it
with all that it has started when the driver says so or is gone, when the executor is gone, or when the task is that
waits for it.
"""

import collections
import json
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from typing import Any

from colla.spark import _control, _feeding, _processes

GRACE = 3.0  # Seconds for a process to end itself.
_LINES = 20  # Of its output, for the driver.


class _Keeper:
    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._rank: int = order["rank"]
        self._lines: collections.deque[str] = collections.deque(maxlen=_LINES)
        self._rest = b""
        self._end: dict[str, Any] = {}
        self._result: Any = None
        self._stopping = False
        self._lost = False
        self._over = False  # The feed was ended by the program.
        self._executor = _processes.open_process(order["executor"]) if order["executor"] else None

    def keep(self) -> None:
        """Returns when the process and all that it has started are gone, and everybody knows."""
        order = self._order
        self._channel = _control.call(tuple(order["driver"]), order["secret"])
        name = f"colla-spark-{os.urandom(16).hex()}"
        listener = _feeding.listen(name)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        fds = [listener.fileno(), theirs.fileno(), *order["ports"]]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "colla.spark._node"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=fds,
        )
        for descriptor in order["ports"]:
            os.close(descriptor)
        listener.close()
        theirs.close()
        assert self._process.stdin is not None and self._process.stdout is not None
        self._exit = os.pidfd_open(self._process.pid)
        self._channel.send(
            {"kind": "started", "rank": self._rank, "feed": name, "executor": order["executor"]}
            | {"machine": _processes.machine(), "host": order["host"], "process": self._process.pid}
        )
        threading.Thread(target=self._listen, daemon=True).start()
        self._follower = threading.Thread(target=self._follow, daemon=True)
        self._follower.start()
        try:
            _processes.write_value(self._process.stdin, order["node"] | {"keeper": os.getpid(), "fds": fds})
        except BrokenPipeError:
            pass  # Its output says why it ended.
        self._watch()
        codes = _processes.end_all(GRACE if self._stopping else 0)
        self._read_output()
        self._report(codes[self._process.pid])

    def _listen(self) -> None:
        """What the driver says."""
        while (message := self._channel.receive()) is not None:
            if message["kind"] == "stop":
                break
            self._tell(message)
        self._stop()

    def _stop(self) -> None:
        self._stopping = True
        try:
            self._process.terminate()
        except OSError:
            pass

    def _tell(self, message: dict[str, Any]) -> None:
        try:
            self._control.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            if message["kind"] == "taken":
                self._channel.send({"kind": "taken", "id": message["id"], "rows": 0})

    def _follow(self) -> None:
        """What the process says, apart from its output."""
        with self._control.makefile("rb") as stream:
            for line in stream:
                message = json.loads(line)
                if message["kind"] == "result":
                    self._result = stream.read(message["size"])
                elif message["kind"] == "error":
                    self._end["error"] = message["error"]
                else:
                    self._over = self._over or message["kind"] == "over"
                    self._channel.send(message | {"rank": self._rank})

    def _watch(self) -> None:
        """Returns when the process has ended, or must."""
        output = self._process.stdout
        assert output is not None
        os.set_blocking(output.fileno(), False)
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            selector.register(self._exit, selectors.EVENT_READ)
            if self._executor is not None:
                selector.register(self._executor, selectors.EVENT_READ)
            if self._order["attached"]:
                selector.register(sys.stdin, selectors.EVENT_READ)
            limit = None
            while True:
                for key, _ in selector.select(0.2):
                    if key.fileobj is output:
                        if not self._read_output():
                            selector.unregister(output)
                    elif key.fileobj == self._exit:
                        return
                    else:  # The executor or the task has gone.
                        self._lost = not self._stopping
                        return self._stop()
                if self._stopping:
                    limit = limit or time.monotonic() + GRACE
                    if time.monotonic() > limit:
                        return

    def _read_output(self) -> bool:
        """Whether there may be more."""
        assert self._process.stdout is not None
        while True:
            try:
                content = os.read(self._process.stdout.fileno(), 1 << 16)
            except BlockingIOError:
                return True
            if not content:
                if self._rest:
                    self._lines.append(self._rest.decode(errors="replace"))
                    self._rest = b""
                return False
            try:
                os.write(2, content)
            except OSError:
                pass  # The executor's log is gone.
            *lines, self._rest = (self._rest + content).split(b"\n")
            self._lines.extend(line.decode(errors="replace") for line in lines)

    def _report(self, code: int) -> None:
        self._process.returncode = code
        self._follower.join()  # All that the process has said is here.
        ended = {"kind": "ended", "rank": self._rank, "code": code, "lines": list(self._lines)} | self._end
        ended |= {"stopped": self._stopping and not self._lost, "over": self._over}
        if self._lost:
            ended["code"] = None
        try:
            self._channel.send(ended)
        except OSError:
            pass
        if self._order["attached"]:
            try:
                _processes.write_value(sys.stdout.buffer, self._result)
            except OSError:
                pass


def main() -> None:
    order = _processes.read_value(sys.stdin.buffer)
    if os.fork():
        os._exit(0)  # The task has no child that it would have to wait for.
    _processes.adopt_orphans()
    try:
        _Keeper(order).keep()
    except OSError as error:
        host, port = order["driver"]
        sys.exit(f"colla: rank {order['rank']} on {order['host']} can't work with the driver at {host}:{port}: {error}")


if __name__ == "__main__":
    main()
