"""Starts a worker in a process of this host, and tells what became of it."""

import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from colla.pool import worker
from colla.pool.channel import Channel


@dataclass(frozen=True)
class Plan:
    """How each worker of a pool is started."""

    context: Any  # Of multiprocessing.
    initializer: Callable[..., object] | None = None
    initargs: Sequence[Any] = ()
    most_tasks: int | None = None


class LocalWorker:
    """A process that this one started, which ends with it. Thread safety: none."""

    most_ahead = 128
    is_replaced = True

    def __init__(self, plan: Plan, name: str) -> None:
        ours, theirs = Channel.pair()
        ended, self._lifeline = multiprocessing.Pipe(duplex=False)
        self.channel = Channel(ours)
        # The worker's end, too: what the worker has not read can be taken back there.
        self.unread = Channel(theirs)
        given = theirs.dup()
        self.name = name
        remember(self)
        try:
            self._process = plan.context.Process(
                target=worker.main,
                args=(given, ended, plan.initializer, plan.initargs, plan.most_tasks),
                name=name,
                daemon=True,
            )
            self._process.start()
        except BaseException:
            self.close()
            raise
        finally:
            given.close()
            ended.close()
        self._descriptor = -1

    def fileno(self) -> int:
        """Is readable when the process has ended, even if processes of its own have not."""
        if self._descriptor < 0:
            try:
                self._descriptor = os.pidfd_open(self._process.pid)
            except ProcessLookupError:  # multiprocessing has reaped it, as it does whenever it starts another.
                self._descriptor = os.dup(self._process.sentinel)
        return self._descriptor

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        """Has it end after its present task."""
        try:
            self.channel.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # It is gone.

    def join(self) -> str:
        """Waits for the end of the process, and says how it ended."""
        self._process.join()
        code = self._process.exitcode
        self.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if code is not None and code < 0:
            return f"was killed by {_signal_name(-code)}"
        return f"ended with exit code {code}"

    def __str__(self) -> str:
        return f"{self.name} (process {self.pid})"

    def close(self) -> None:
        forget(self)
        self.channel.close()
        self.unread.close()
        self._lifeline.close()


def start_all(plan: Plan, names: Sequence[str]) -> list[LocalWorker]:
    """One worker for each name, or none."""
    started: list[LocalWorker] = []
    # A worker begins with Ctrl-C blocked, until it has a handler.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        for name in names:
            started.append(LocalWorker(plan, name))
    except BaseException:
        for one in started:
            one.terminate()
        for one in started:
            one.join()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return started


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# Workers of this process. A process that it forks, a worker or any other, must not keep their connections open.
_here: dict[int, Any] = {}


def remember(one: Any) -> None:
    """Has `one` closed in processes that this one forks."""
    _here[id(one)] = one


def forget(one: Any) -> None:
    _here.pop(id(one), None)


def _close_all() -> None:
    for one in list(_here.values()):
        one.close()


os.register_at_fork(after_in_child=_close_all)
