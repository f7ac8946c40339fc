"""The job that this process is in, from ``init()`` to ``shutdown()``."""

import atexit
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NoReturn

from colla import _core

if TYPE_CHECKING:
    from colla.torch.process_sets import ProcessSet

# What Horovod's variables mean here: the setting, and how many of its units there are in one of theirs.
_HOROVOD_VARIABLES: Mapping[str, tuple[str, float]] = {
    "HOROVOD_FUSION_THRESHOLD": ("fusion_mb", 2**-20),
    "HOROVOD_CYCLE_TIME": ("cycle_us", 1000),
    "HOROVOD_STALL_CHECK_TIME_SECONDS": ("stall_warning", 1),
    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": ("stall_shutdown", 1),
}


class _World:
    """What there is between ``init()`` and ``shutdown()``."""

    def __init__(self) -> None:
        # Lasts as long as the process: its peers can't be met a second time.
        self.job: _core.Job | None = None
        self.exchange: _core.Exchange | None = None
        self.closing: list[Callable[[], None]] = []


_world = _World()


def job() -> _core.Job:
    """This process's place in the job; ValueError before ``init()``."""
    if _world.job is None or _world.exchange is None:
        raise ValueError("colla.torch has not been initialized: call init() first")
    return _world.job


def exchange() -> _core.Exchange:
    """What carries out collectives; ValueError before ``init()``."""
    if _world.exchange is None:
        raise ValueError("colla.torch has not been initialized: call init() first")
    return _world.exchange


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


def _serve(job: _core.Job) -> NoReturn:
    """What a parameter server does instead of the rest of the script, which is for workers."""
    try:
        job.serve()
    except RuntimeError as error:
        sys.exit(f"colla: {error}")
    sys.exit(0)


def init(
    comm: Iterable[int] | None = None,
    process_sets: "Iterable[ProcessSet] | str | None" = None,
) -> None:
    """Joins the job and makes its process sets. Does nothing when that has been done.

    Args:
        comm: All ranks of the job, or None. Operations of some ranks alone are what process sets are for.
        process_sets: Sets to make, by every rank in the same order; ``"dynamic"`` and None make none. More
            can be added at any time with ``add_process_set()``.
    """
    from colla.torch import process_sets as sets

    if _world.exchange is not None:
        return
    wanted: list[ProcessSet] = []
    if process_sets is not None and process_sets != "dynamic":
        for entry in process_sets:
            if not isinstance(entry, sets.ProcessSet):
                raise ValueError('process_sets takes ProcessSet objects, or "dynamic"')
            wanted.append(entry)
    if comm is not None and not isinstance(comm, Iterable):
        raise ValueError("comm takes a list of ranks: Colla does not use MPI, and has no communicators")
    settings = horovod_settings(os.environ)
    if _world.job is None:
        _world.job = _core.Job(settings)
        if _world.job.is_server:
            _serve(_world.job)
        atexit.register(shutdown)
    everybody = list(range(_world.job.size))
    if comm is not None and sorted(comm) not in ([], everybody):
        raise NotImplementedError(
            f"comm is {list(comm)}, but init() takes all {len(everybody)} ranks of the job: use process sets"
            " for operations of some of them"
        )
    _world.exchange = _core.Exchange(_world.job, settings)
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
    from colla.torch import ops, process_sets

    if _world.exchange is None:
        return
    while _world.closing:
        _world.closing.pop()()
    leaving, _world.exchange = _world.exchange, None
    leaving.close()
    ops.forget_all()
    process_sets.forget_all()


def at_shutdown(action: Callable[[], None]) -> None:
    """Has `action` called before this process leaves."""
    _world.closing.append(action)


def is_initialized() -> bool:
    """Whether ``init()`` was called, and ``shutdown()`` not yet."""
    return _world.exchange is not None


def rank() -> int:
    """This process's number, from 0."""
    return job().rank


def size() -> int:
    """How many processes there are."""
    return job().size


def local_rank() -> int:
    """This process's number among those on its host."""
    return job().local_rank


def local_size() -> int:
    """How many processes are on this host."""
    return job().local_size


def cross_rank() -> int:
    """The number of this host among those that have a process with this ``local_rank()``."""
    return job().cross_rank


def cross_size() -> int:
    """How many hosts have a process with this ``local_rank()``."""
    return job().cross_size


def is_homogeneous() -> bool:
    """Whether every host has the same number of processes."""
    return job().is_homogeneous


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Writes what happens from now on to ``file_path``, for chrome://tracing or Perfetto.

    Rank 0 does; on other ranks it does nothing. ``mark_cycles`` marks each round of decisions.
    """
    exchange().start_timeline(os.fspath(file_path), mark_cycles)


def stop_timeline() -> None:
    """Completes the timeline's file."""
    exchange().stop_timeline()


def mpi_built() -> bool:
    """False: Colla has a transport of its own."""
    return False


def mpi_enabled() -> bool:
    """False: Colla has a transport of its own."""
    return False


def mpi_threads_supported() -> bool:
    """Raises ValueError: there is no MPI to ask about."""
    raise ValueError("Colla does not use MPI: programs may use it beside Colla as they like")


def gloo_built() -> bool:
    """False: Colla has a transport of its own."""
    return False


def gloo_enabled() -> bool:
    """False: Colla has a transport of its own."""
    return False


def nccl_built() -> int:
    """0: there is no version of NCCL."""
    return 0


def ddl_built() -> bool:
    """False."""
    return False


def ccl_built() -> bool:
    """False."""
    return False


def cuda_built() -> bool:
    """False: tensors in this machine's memory only."""
    return False


def rocm_built() -> bool:
    """False: tensors in this machine's memory only."""
    return False
