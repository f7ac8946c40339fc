"""One rank of Gloo, through torch.distributed: the way a PyTorch user meets it.

Usage: gloo_agent.py SOCKET SYSTEM RANK NP STORE
"""

import sys
import time
import warnings

import torch
import torch.distributed as dist
from agent import NP, RANK, serve


def inputs(rank, begin, count):
    """Elements [begin, begin + count) of what `rank` brings (see operation.h)."""
    index = torch.arange(begin, begin + count, dtype=torch.int64)
    return (index % 1021 + 1000 * rank).to(torch.float32)


def sums(begin, count):
    return sum(inputs(rank, begin, count) for rank in range(NP))


class Case:
    """Buffers, the call, and the right result for one operation and size."""

    def __init__(self, operation, elements):
        elements = int(elements)
        part = elements // NP
        mine = RANK * part
        whole = torch.zeros(elements)
        if operation == "allreduce":
            self.input = self.output = whole
            self.call = lambda: dist.all_reduce(whole)
            self.wanted = lambda: sums(0, elements)
        elif operation == "broadcast":
            self.input = self.output = whole
            self.call = lambda: dist.broadcast(whole, 0)
            self.wanted = lambda: inputs(0, 0, elements)
        elif operation == "reduce":
            self.input = self.output = whole
            self.call = lambda: dist.reduce(whole, 0)
            self.wanted = lambda: sums(0, elements) if RANK == 0 else None
        elif operation == "reduce_scatter":
            self.input, self.output = whole, torch.zeros(part)
            self.call = lambda: dist.reduce_scatter_tensor(self.output, whole)
            self.wanted = lambda: sums(mine, part)
        elif operation == "allgather":
            self.input, self.output = torch.zeros(part), whole
            self.call = lambda: dist.all_gather_into_tensor(whole, self.input)
            self.wanted = lambda: torch.cat([inputs(rank, 0, part) for rank in range(NP)])
        elif operation == "alltoall":
            self.input, self.output = whole, torch.zeros(elements)
            self.call = lambda: dist.all_to_all_single(self.output, whole)
            self.wanted = lambda: torch.cat([inputs(rank, mine, part) for rank in range(NP)])
        elif operation == "barrier":
            self.input = self.output = whole
            self.call = dist.barrier
            self.wanted = lambda: None
        else:
            raise ValueError(f"there is no operation {operation}")

    def verify(self, iterations):
        self.input.copy_(inputs(RANK, 0, len(self.input)))
        for _ in range(iterations):
            self.call()
        wanted = self.wanted()
        if wanted is not None and not torch.equal(self.output, wanted):
            at = int((self.output != wanted).nonzero()[0])
            raise ValueError(
                f"wrong result: element {at} of {len(wanted)} is {self.output[at]}, not {wanted[at]}"
            )
        self.input.zero_()
        self.output.zero_()
        return 0

    def measure(self, iterations):
        call = self.call
        dist.barrier()
        start = time.perf_counter()
        for _ in range(iterations):
            call()
        return time.perf_counter() - start


def main():
    warnings.simplefilter("ignore", FutureWarning)  # Newer names are not in older versions.
    torch.set_num_threads(1)
    store = f"file://{sys.argv[5]}"
    dist.init_process_group("gloo", init_method=store, rank=RANK, world_size=NP)
    return serve(Case)


if __name__ == "__main__":
    sys.exit(main())
