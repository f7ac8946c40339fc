"""The jobs that this process is in, and the current one: from ``init()`` to ``shutdown()``."""

import atexit
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NoReturn

from colla import _core
from colla._exchange import Exchange
from colla._meeting import Meeting

if TYPE_CHECKING:
    from colla._process_sets import ProcessSet

# What Horovod's variables mean here: the setting, and how many of its units there are in one of theirs.
_HOROVOD_VARIABLES: Mapping[str, tuple[str, float]] = {
    "HOROVOD_FUSION_THRESHOLD": ("fusion_mb", 2**-20),
    "HOROVOD_CYCLE_TIME": ("cycle_us", 1000),
    "HOROVOD_STALL_CHECK_TIME_SECONDS": ("stall_warning", 1),
    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": ("stall_shutdown", 1),
}


def horovod_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings that Horovod's environment variables ask for, where Colla's own say nothing."""
    settings = {}
    for variable, (setting, factor) in _HOROVOD_VARIABLES.items():
        text = environment.get(variable)
        if text is None or "COLLA_" + setting.upper() in environment:
            continue
        try:
            settings[setting] = str(round(float(text) * factor))
        except ValueError:
            raise ValueError(f"{variable} is {text!r}, but takes a number") from None
    if environment.get("HOROVOD_STALL_CHECK_DISABLE", "0") not in ("0", ""):
        settings["stall_warning"] = "0"
    timeline = environment.get("HOROVOD_TIMELINE", "DYNAMIC")
    if timeline != "DYNAMIC" and "COLLA_TIMELINE" not in environment:
        settings["timeline"] = timeline
    return settings


# The job that a launcher has started this process for. It lasts as long as the process, whatever worlds come
# and go: its peers can't be met a second time.
_launched: _core.Job | None = None


class World:
    """One job that this process is in: its place there, and the operations that it has started.

    A process may be in several, one after another or at the same time. ``colla.torch`` and its like work in
    the current one, which ``init()`` makes.

    Args:
        meeting: Where to meet the others. None: the launcher's variables say it, and a process that nobody
            launched is a job of one.
        torch_version: The version of PyTorch that the program uses, which is the same on all ranks; empty if
            it uses none.
    """

    def __init__(self, meeting: Meeting | None = None, torch_version: str = "") -> None:
        global _launched
        self.settings = horovod_settings(os.environ)
        self._met = meeting is not None
        if meeting is not None:
            self.job = _core.Job(self.settings, torch_version, meeting.accept(self.settings))
        else:
            if _launched is None:
                _launched = _core.Job(self.settings, torch_version)
                if _launched.is_server:
                    _serve(_launched)
            self.job = _launched
        self.exchange = Exchange(self.job, self.settings)
        self._closing: list[Callable[[], None]] = []

    def at_close(self, action: Callable[[], None]) -> None:
        """Has `action` called before this process leaves."""
        self._closing.append(action)

    def close(self) -> None:
        """Leaves. Operations that are still under way fail, on this rank and on all others."""
        while self._closing:
            self._closing.pop()()
        self.exchange.close()
        if self._met:
            self.job.close()


def _serve(job: _core.Job) -> NoReturn:
    """What a parameter server does instead of the rest of the script, which is for workers."""
    try:
        job.serve()
    except RuntimeError as error:
        sys.exit(f"colla: {error}")
    sys.exit(0)


_current: World | None = None


def current() -> World:
    """The world between ``init()`` and ``shutdown()``; ValueError elsewhere."""
    if _current is None:
        raise ValueError("colla has not been initialized: call init() first")
    return _current


def init(
    comm: Iterable[int] | None = None,
    process_sets: "Iterable[ProcessSet] | str | None" = None,
    *,
    meeting: Meeting | None = None,
    torch_version: str = "",
) -> None:
    """Joins a job and makes it the current one; then makes its process sets. ``colla.torch.init`` says more."""
    global _current
    from colla import _process_sets as sets

    if _current is not None:
        if meeting is not None:
            raise ValueError("this process is in a job: call shutdown() before it meets others")
        return
    wanted: list[ProcessSet] = []
    if process_sets is not None and process_sets != "dynamic":
        for entry in process_sets:
            if not isinstance(entry, sets.ProcessSet):
                raise ValueError('process_sets takes ProcessSet objects, or "dynamic"')
            wanted.append(entry)
    if comm is not None and not isinstance(comm, Iterable):
        raise ValueError("comm takes a list of ranks: Colla does not use MPI, and has no communicators")
    world = World(meeting, torch_version)
    everybody = list(range(world.job.size))
    if comm is not None and sorted(comm) not in ([], everybody):
        world.close()
        raise NotImplementedError(
            f"comm is {list(comm)}, but init() takes all {len(everybody)} ranks of the job: use process sets"
            " for operations of some of them"
        )
    _current = world
    atexit.unregister(shutdown)
    atexit.register(shutdown)
    sets.global_process_set.ranks = everybody
    try:
        for entry in wanted:
            sets.add_process_set(entry)
    except BaseException:
        shutdown()
        raise


def shutdown() -> None:
    """Leaves. Operations that are still under way fail, on this rank and on all others. ``init()`` may
    follow. A program that ends does this by itself."""
    global _current
    from colla import _process_sets

    if _current is None:
        return
    world = _current
    try:
        world.close()
    finally:
        _current = None
        _process_sets.forget_all()


def is_initialized() -> bool:
    """Whether ``init()`` was called, and ``shutdown()`` not yet."""
    return _current is not None


def rank() -> int:
    """This process's number in the job, from 0."""
    return current().job.rank


def size() -> int:
    """How many processes the job has."""
    return current().job.size


def local_rank() -> int:
    """This process's number among those on its host."""
    return current().job.local_rank


def local_size() -> int:
    """How many processes are on this host."""
    return current().job.local_size


def cross_rank() -> int:
    """The number of this host among those that have a process with this ``local_rank()``."""
    return current().job.cross_rank


def cross_size() -> int:
    """How many hosts have a process with this ``local_rank()``."""
    return current().job.cross_size


def is_homogeneous() -> bool:
    """Whether every host has the same number of processes."""
    return current().job.is_homogeneous


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Writes what happens from now on to ``file_path``, for chrome://tracing or Perfetto.

    Rank 0 does; on other ranks it does nothing. ``mark_cycles`` marks each round of decisions.
    """
    current().exchange.core.start_timeline(os.fspath(file_path), mark_cycles)


def stop_timeline() -> None:
    """Completes the timeline's file."""
    current().exchange.core.stop_timeline()
