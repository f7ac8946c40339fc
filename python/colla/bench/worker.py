"""One rank of the benchmark: has a process group of each backend and takes turns with them."""

from __future__ import annotations

import dataclasses
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
# A rank's own work, without any exchange: no backend can make a step shorter.
LIMIT = "none"


@dataclasses.dataclass
class Result:
    """A median of one system; the fields are those of the JSON file."""

    system: str
    workload: str
    np: int
    bytes: int
    batch: int
    seconds: float
    asked: float


def _interleaved(rounds: int, blocks: dict[str, Callable[[], None]], calls: int) -> dict[str, float]:
    """Seconds per call of each system: the median of rounds in which each has its turn."""
    seconds: dict[str, list[float]] = {system: [] for system in blocks}
    for turn in range(rounds + 1):
        for system, block in blocks.items():
            dist.barrier()
            start = time.perf_counter()
            block()
            if turn > 0:  # The first one warms up.
                seconds[system].append((time.perf_counter() - start) / calls)
    return {system: statistics.median(list_) for system, list_ in seconds.items()}


class Rank:
    """A rank with one group per backend; call everything on all ranks in the same order."""

    def __init__(self, store: dist.Store, rank: int, size: int):
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
        self.size = size
        self.groups = {"gloo": dist.group.WORLD, "colla": dist.new_group(backend="colla")}

    def close(self) -> None:
        dist.destroy_process_group()

    def reduce(self, what: Reduction, rounds: int) -> list[Result]:
        tensors = {system: torch.empty(what.bytes // 4) for system in SYSTEMS}
        self._check_reduction(tensors)

        def block(system: str) -> None:
            tensors[system].fill_(1.0)
            for _ in range(what.calls):
                dist.all_reduce(tensors[system], group=self.groups[system])

        blocks = {system: lambda system=system: block(system) for system in SYSTEMS}
        medians = _interleaved(rounds, blocks, what.calls)
        return [
            Result(system, "all_reduce", self.size, what.bytes, 0, seconds, what.asked)
            for system, seconds in medians.items()
        ]

    def _check_reduction(self, tensors: dict[str, torch.Tensor]) -> None:
        generator = torch.Generator().manual_seed(dist.get_rank())
        tensors["gloo"].normal_(generator=generator)
        tensors["colla"].copy_(tensors["gloo"])
        for system in SYSTEMS:
            dist.all_reduce(tensors[system], group=self.groups[system])
        torch.testing.assert_close(tensors["colla"], tensors["gloo"])

    def train(self, what: Training, rounds: int) -> list[Result]:
        losses: dict[str, float] = {}
        blocks = {}
        for system in (*SYSTEMS, LIMIT):
            torch.manual_seed(0)
            model = what.model()
            if system != LIMIT:
                model = DistributedDataParallel(model, process_group=self.groups[system])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            torch.manual_seed(1 + dist.get_rank())
            blocks[system] = self._steps(what, system, model, optimizer, what.data(what.batch), losses)
        medians = _interleaved(rounds, blocks, what.steps)
        torch.testing.assert_close(losses["colla"], losses["gloo"], rtol=1e-3, atol=1e-4)
        return [
            Result(system, what.name, self.size, 0, what.batch * self.size, seconds, what.asked)
            for system, seconds in medians.items()
        ]

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
