"""The current job of a program with TensorFlow."""

from collections.abc import Iterable

import colla._world
from colla._meeting import Meeting
from colla._process_sets import ProcessSet
from colla.tensorflow import _library


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
    colla._world.init(comm, process_sets, meeting=meeting)
    world = colla._world.current()
    if world is not _using[0]:
        table = world.exchange.core.table
        _library.use(table)
        _using[:] = [world, table]
        world.at_close(_leave)


# The world that the kernels work in, and the capsule that they have from it.
_using: list[object] = [None, None]


def _leave() -> None:
    _library.use(None)
    _using[:] = [None, None]
