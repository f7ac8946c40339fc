"""Named operations and their handles, for the API of any framework.

Ranks may start operations in any order: they are matched by name. What has no name is matched by the order
in which a rank started operations of its kind in its process set.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from colla import _core
from colla._core import Kind, Op

# Makes what the caller gets of the arrays with the results, and of the numbers that came with them.
Finish: TypeAlias = Callable[[list[Any], list[int]], Any]

class Exchange:
    """The operations of one job that this process has started.

    Arrays are objects that offer DLPack or the buffer protocol: contiguous, in this machine's memory.
    """

    def __init__(self, job: _core.Job, settings: Mapping[str, str]) -> None:
        self.core = _core.Exchange(job, dict(settings))
        self._finishes: dict[int, Finish] = {}

    def submit(
        self,
        kind: Kind,
        name: str | None,
        inputs: Sequence[Any],
        results: Sequence[Any],
        process_set: int,
        finish: Finish,
        op: Op = Op.SUM,
        prescale: float = 1.0,
        postscale: float = 1.0,
        root: int = 0,
        splits: Sequence[int] = (),
    ) -> int:
        """Starts an operation on one array, or on several that are carried out together; returns its handle.

        `results` are the arrays for the results, or empty: then each result is a new ``_core.Array``. Neither
        inputs nor results may be changed before ``synchronize()``.
        """
        handle = self.core.submit(
            kind, name or "", inputs, results, process_set, op, prescale, postscale, root, splits
        )
        self._finishes[handle] = finish
        return handle

    def poll(self, handle: int) -> bool:
        """Whether an operation has ended, so that ``synchronize()`` would return at once."""
        return self.core.poll(handle)

    def end_of(self, handle: int) -> float | None:
        """Waits for an operation, which ``synchronize()`` must still be called for: when it ended, by
        ``time.monotonic()``. None for a handle that was waited for before."""
        return self.core.end_of(handle) if handle in self._finishes else None

    def synchronize(self, handle: int) -> Any:
        """Waits for an operation and returns what `finish` makes of it. HorovodInternalError when it failed;
        None for a handle that was waited for before."""
        finish = self._finishes.pop(handle, None)
        if finish is None:
            return None
        return finish(*self.core.wait(handle))

    def join(self) -> int:
        """Says that this rank has no more data, and waits for all others to say so. Returns the rank that came
        last."""
        _, numbers = self.core.wait(self.core.join())
        return numbers[0]

    def barrier(self, process_set: int) -> None:
        """Returns when all ranks of the set have called it."""
        self.synchronize(self.submit(Kind.BARRIER, None, [], [], process_set, lambda results, numbers: None))

    def close(self) -> None:
        """Operations that are still under way fail, on this rank and on all others."""
        self.core.close()
        self._finishes.clear()
