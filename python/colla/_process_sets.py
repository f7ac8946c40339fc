"""Sets of ranks that do collectives among themselves."""

import weakref
from collections.abc import Iterable

from colla import _world


class ProcessSet:
    """Some ranks of the job. It can be used once it went through ``init()`` or ``add_process_set()``,
    which set ``process_set_id``."""

    process_set_id: int | None = None
    ranks: list[int] | None = None

    def __init__(self, ranks: Iterable[int]) -> None:
        if not isinstance(ranks, Iterable):
            raise ValueError("a ProcessSet takes a list of ranks: Colla has no MPI communicators")
        ranks = list(ranks)
        if any(not isinstance(rank, int) for rank in ranks):
            raise ValueError(f"a ProcessSet takes ranks, which are whole numbers, not {ranks}")
        self.ranks = sorted(ranks)

    def size(self) -> int | None:
        """How many ranks are in it; None before it can be used."""
        if self.process_set_id is None:
            return None
        return len(_members(self.process_set_id))

    def rank(self) -> int | None:
        """This process's number among them; None before it can be used, ValueError if it is none of them.

        Operations such as ``broadcast()`` take a rank in the job all the same.
        """
        if self.process_set_id is None:
            return None
        members = _members(self.process_set_id)
        mine = _world.rank()
        if mine not in members:
            raise ValueError(f"rank {mine} is not in process set {self.process_set_id}, which has {members}")
        return members.index(mine)

    def included(self) -> bool | None:
        """Whether this process is one of them; None for one without ranks."""
        if self.ranks is None:
            return None
        return _world.rank() in self.ranks

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"

    __repr__ = __str__


def _members(number: int) -> list[int]:
    members = _world.current().exchange.core.sets().get(number)
    if members is None:
        raise ValueError(f"there is no process set {number}: it was removed")
    return members


global_process_set = ProcessSet([])
"""All ranks."""
global_process_set.process_set_id = 0

# Those that are in use, so that shutdown() can tell them.
_live: "weakref.WeakSet[ProcessSet]" = weakref.WeakSet()


def number_of(process_set: ProcessSet) -> int:
    """The number under which operations know it; ValueError before it can be used."""
    number = process_set.process_set_id
    if number is None:
        raise ValueError(f"{process_set} can't be used: give it to init() or add_process_set() first")
    return number


def add_process_set(process_set: ProcessSet | Iterable[int]) -> ProcessSet:
    """Makes a process set and returns it. Every rank of the job calls it with the same ranks, and it
    returns when all have. ValueError when there is a set with those ranks."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    assert process_set.ranks is not None
    process_set.process_set_id = _world.current().exchange.core.add_set(process_set.ranks)
    _live.add(process_set)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a process set, by every rank of the job, and tells whether there was one. The set of all
    ranks stays."""
    number = process_set.process_set_id
    if number is None or number == 0:
        return False
    process_set.process_set_id = None
    _live.discard(process_set)
    return _world.current().exchange.core.remove_set(number)


def forget_all() -> None:
    """After ``shutdown()``, process sets are ranks on paper again."""
    for process_set in _live:
        process_set.process_set_id = None
    _live.clear()
