"""The current job of a program with PyTorch: Horovod's functions about it."""

import os
from collections.abc import Iterable

import colla._world
from colla import _torch
from colla._built import (
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rocm_built,
)
from colla._meeting import Meeting
from colla._process_sets import ProcessSet
from colla._world import (
    cross_rank,
    cross_size,
    current,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from colla.torch import _torchrun

__all__ = [
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "current",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]


def init(
    comm: Iterable[int] | None = None,
    process_sets: Iterable[ProcessSet] | str | None = None,
    *,
    meeting: Meeting | None = None,
) -> None:
    """Joins the job and makes its process sets. Does nothing when that has been done.

    Args:
        comm: All ranks of the job, or None. Operations of some ranks alone are what process sets are for.
        process_sets: Sets to make, by every rank in the same order; ``"dynamic"`` and None make none. More
            can be added at any time with ``add_process_set()``.
        meeting: Where to meet the other ranks, for a process that no launcher started. After ``shutdown()`` the
            process may meet different ones.
    """
    if meeting is None and not is_initialized() and _torchrun.needs_meeting(os.environ):
        meeting = _torchrun.meeting()
    colla._world.init(comm, process_sets, meeting=meeting, torch_version=_torch.torch_version)
