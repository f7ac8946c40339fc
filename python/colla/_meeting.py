"""How processes that somebody else started become a job: tasks of Spark, workers of a pool."""

from collections.abc import Callable, Mapping, Sequence

from colla import _core


class Meeting:
    """Where this process meets the others of a job. No environment variable says who they are.

        hvd.init(meeting=colla.Meeting(rank, size, allgather))

    Every process of the job makes one, and joins through it as often as it likes, each time together with
    the others. A process may leave and meet different processes through a different ``Meeting``.

    Args:
        rank: This process's number, from 0.
        size: How many processes there are.
        allgather: Called with a text, it returns the texts of all ranks, in the order of ranks: Spark's
            ``BarrierTaskContext.allGather`` does, and so does mpi4py's ``comm.allgather``. It is called twice
            for each job.
        secret: At least 32 random bytes, the same on all ranks. Needed where they are on several hosts, unless a
            setting names a secret or says that the network is trusted (``transport = "tcp-plain"``).
    """

    def __init__(
        self, rank: int, size: int, allgather: Callable[[str], Sequence[str]], secret: bytes | None = None
    ) -> None:
        self.rank = rank
        self.size = size
        self._allgather = allgather
        self._secret = secret or b""
        _core.Meeting(rank, size, self._secret)  # Refuses what can't be.

    def accept(self, settings: Mapping[str, str]) -> _core.Meeting:
        """Finds out where the ranks meet. For ``World``."""
        meeting = _core.Meeting(self.rank, self.size, self._secret, dict(settings))
        introductions = list(self._allgather(meeting.introduction))
        invitation = meeting.invite(introductions) if self.rank == 0 else ""
        meeting.accept(self._allgather(invitation)[0])
        return meeting
