"""One rank of the benchmark, on one of the backends: measures when it is its turn."""

from __future__ import annotations

import dataclasses
import datetime
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import colla.torch  # noqa: F401  (registers the backend)
from colla.bench.workloads import Reduction, Training

SYSTEMS = ("gloo", "colla")
# A rank's own work, without any exchange, in the processes of colla: no backend can make a step shorter.
LIMIT = "none"

# Longer than any turn takes.
_LONG = datetime.timedelta(minutes=30)


@dataclasses.dataclass
class Result:
    """A median of one system; the fields are those of the JSON file."""

    system: str
    workload: str
    np: int
    bytes: int
    batch: int
    seconds: float
    target: float


class Rank:
    """A rank of one system; call everything on all ranks of all systems in the same order.

    Systems have processes of their own, as in a program that uses one of them: what one does to its process
    does not reach the other. Only one of them computes at a time.
    """

    def __init__(self, store: dist.Store, system: str, rank: int, size: int):
        dist.init_process_group(system, store=dist.PrefixStore(system, store), rank=rank, world_size=size)
        self._store = dist.PrefixStore("turns", store)
        self._system = system
        self._turns = 0
        self.size = size

    def close(self) -> None:
        dist.destroy_process_group()

    def reduce(self, what: Reduction, rounds: int) -> list[Result]:
        tensor = torch.empty(what.bytes // 4)
        self._check_reduction(tensor)

        def block() -> None:
            tensor.fill_(1.0)
            for _ in range(what.calls):
                dist.all_reduce(tensor)

        medians = self._interleaved(rounds, SYSTEMS, {self._system: block}, what.calls)
        return [
            Result(system, "all_reduce", self.size, what.bytes, 0, seconds, what.target)
            for system, seconds in medians.items()
        ]

    def _check_reduction(self, tensor: torch.Tensor) -> None:
        """The first use is checked against a sum of its own."""
        expected = torch.zeros_like(tensor)
        for rank in range(self.size):
            part = torch.empty_like(tensor).normal_(generator=torch.Generator().manual_seed(rank))
            expected += part
            if rank == dist.get_rank():
                tensor.copy_(part)
        dist.all_reduce(tensor)
        torch.testing.assert_close(tensor, expected)

    def train(self, what: Training, rounds: int) -> tuple[list[Result], float]:
        """Also the loss at the end, which is the same with every backend."""
        losses: dict[str, float] = {}
        blocks = {}
        for system in (self._system,) if self._system == "gloo" else (self._system, LIMIT):
            torch.manual_seed(0)
            model = what.model()
            if system != LIMIT:
                model = DistributedDataParallel(model)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            torch.manual_seed(1 + dist.get_rank())
            blocks[system] = self._steps(what, system, model, optimizer, what.data(what.batch), losses)
        medians = self._interleaved(rounds, (*SYSTEMS, LIMIT), blocks, what.steps)
        results = [
            Result(system, what.name, self.size, 0, what.batch * self.size, seconds, what.target)
            for system, seconds in medians.items()
        ]
        return results, losses[self._system]

    def _interleaved(
        self, rounds: int, order: tuple[str, ...], blocks: dict[str, Callable[[], None]], calls: int
    ) -> dict[str, float]:
        """Seconds per call of this rank's systems: the median of rounds in which each has its turn."""
        seconds: dict[str, list[float]] = {system: [] for system in blocks}
        for turn in range(rounds + 1):
            for system in order:
                self._turns += 1
                if system in blocks:
                    dist.barrier()
                    start = time.perf_counter()
                    blocks[system]()
                    if turn > 0:  # The first one warms up.
                        seconds[system].append((time.perf_counter() - start) / calls)
                    dist.barrier()
                    self._store.set(str(self._turns), "over")
                else:
                    self._store.wait([str(self._turns)], _LONG)
        return {system: statistics.median(list_) for system, list_ in seconds.items()}

    @staticmethod
    def _steps(what, system, model, optimizer, batch, losses) -> Callable[[], None]:
        inputs, labels = batch

        def steps() -> None:
            for _ in range(what.steps):
                optimizer.zero_grad()
                loss = cross_entropy(model(inputs), labels)
                loss.backward()
                optimizer.step()
            losses[system] = loss.item()

        return steps
