"""Processes on an executor: whose they are, and how they end together."""

import ctypes
import os
import pathlib
import pickle
import select
import signal
import struct
import time
from typing import Any, BinaryIO

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LENGTH = struct.Struct(">Q")
_libc = ctypes.CDLL(None)


def executor() -> int:
    """The process id of the Java machine that runs this Spark task; 0 if there is none."""
    process = os.getpid()
    while process > 1:
        try:
            fields = pathlib.Path(f"/proc/{process}/stat").read_text()
        except OSError:
            return 0
        name = fields[fields.index("(") + 1 : fields.rindex(")")]
        if name == "java":
            return process
        process = int(fields[fields.rindex(")") + 2 :].split()[1])
    return 0


def machine() -> str:
    """The same text for all processes that can share memory."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/net')} {os.readlink('/proc/self/ns/pid')}"


def end_with_parent(parent: int) -> None:
    """Has the kernel kill this process as soon as `parent`, which started it, ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Makes this process the parent of what its children leave behind."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _children(process: int) -> list[int]:
    found = []
    for task in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except OSError:
            pass
    return found


def _descendants() -> list[int]:
    found = _children(os.getpid())
    for process in found:
        found += _children(process)
    return found


def end_all(grace: float) -> dict[int, int]:
    """Ends everything below this process: asks first, kills what is there after `grace` seconds.

    Returns the exit codes of those that were its children in the end, or minus the signals that killed them.
    """
    codes: dict[int, int] = {}
    limit = time.monotonic() + grace
    sent = signal.SIGTERM if grace > 0 else signal.SIGKILL
    asked: set[int] = set()
    while True:
        if sent == signal.SIGTERM and time.monotonic() > limit:
            sent, asked = signal.SIGKILL, set()
        for process in _descendants():
            if process not in asked:
                asked.add(process)
                try:
                    os.kill(process, sent)
                except ProcessLookupError:
                    pass
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                codes[ended[0]] = os.waitstatus_to_exitcode(ended[1])
        except ChildProcessError:
            return codes
        time.sleep(0.01)


def open_process(process: int) -> int | None:
    """A descriptor that becomes readable when `process`, which need not be a child, has ended."""
    try:
        return os.pidfd_open(process)
    except OSError:
        return None


def has_ended(descriptor: int) -> bool:
    """Whether the process of `open_process()` has."""
    return bool(select.select([descriptor], [], [], 0)[0])


def write_value(stream: BinaryIO, value: Any) -> None:
    """For `read_value()` in a process that this one has started, or that has started this one."""
    content = pickle.dumps(value, 5)
    stream.write(_LENGTH.pack(len(content)) + content)
    stream.flush()


def read_value(stream: BinaryIO) -> Any:
    """EOFError if the writer has gone."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    content = stream.read(length)
    if len(content) < length:
        raise EOFError
    return pickle.loads(content)
