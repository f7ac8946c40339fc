"""One rank of the benchmark, on one of the backends: measures when it is its turn.

    python -m colla.bench.worker SYSTEM RANK SIZE

BENCH_STORE is a file in which the ranks of the system meet, BENCH_THREADS how many threads each has.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import colla.torch  # noqa: F401  (registers the backend)
from colla.bench.runner import Block, Turn, serve
from colla.bench.workloads import REDUCTIONS, TRAININGS, Reduction, Training


def reduction_block(what: Reduction) -> Block:
    """Calls all_reduce."""
    tensor = torch.empty(what.bytes // 4)
    _check_reduction(tensor)

    def block() -> Turn:
        dist.barrier()
        start = time.perf_counter()
        tensor.fill_(1.0)
        for _ in range(what.calls):
            dist.all_reduce(tensor)
        seconds = time.perf_counter() - start
        dist.barrier()
        return Turn(seconds / what.calls)

    return block


def _check_reduction(tensor: torch.Tensor) -> None:
    """The first use is checked against a sum of its own."""
    expected = torch.zeros_like(tensor)
    for rank in range(dist.get_world_size()):
        part = torch.empty_like(tensor).normal_(generator=torch.Generator().manual_seed(rank))
        expected += part
        if rank == dist.get_rank():
            tensor.copy_(part)
    dist.all_reduce(tensor)
    torch.testing.assert_close(tensor, expected)


def training_block(what: Training, exchanges: bool) -> Block:
    """Trains; the loss is that of the last step, the same with every backend."""
    torch.manual_seed(0)
    model = what.model()
    if exchanges:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(1 + dist.get_rank())
    inputs, labels = what.data(what.batch)

    def block() -> Turn:
        dist.barrier()
        start = time.perf_counter()
        for _ in range(what.steps):
            optimizer.zero_grad()
            loss = cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        last = loss.item()
        seconds = time.perf_counter() - start
        dist.barrier()
        return Turn(seconds / what.steps, last)

    return block


def main() -> None:
    """Serves turns until its input ends."""
    system, rank, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(int(os.environ["BENCH_THREADS"]))
    dist.init_process_group(system, init_method="file://" + os.environ["BENCH_STORE"], rank=rank, world_size=size)
    workloads = [*REDUCTIONS, *TRAININGS]

    def make(number: int, contender: str) -> Block:
        what = workloads[number]
        return reduction_block(what) if isinstance(what, Reduction) else training_block(what, contender == system)

    serve(make)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
