"""One rank of Gloo, through torch.distributed: the way a PyTorch user meets it.

Speaks the protocol of src/bench/agent.h. Usage: gloo_agent.py SOCKET SYSTEM RANK NP STORE
"""

import socket
import sys
import time
import warnings

import torch
import torch.distributed as dist

SOCKET, SYSTEM, RANK, NP, STORE = sys.argv[1:3] + [int(word) for word in sys.argv[3:5]] + sys.argv[5:]


def inputs(rank, begin, count):
    """Elements [begin, begin + count) of what `rank` brings (see operation.h)."""
    index = torch.arange(begin, begin + count, dtype=torch.int64)
    return (index % 1021 + 1000 * rank).to(torch.float32)


def sums(begin, count):
    return sum(inputs(rank, begin, count) for rank in range(NP))


class Case:
    """Buffers, the call, and the right result for one operation and size."""

    def __init__(self, operation, elements):
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

    def verify(self):
        self.input.copy_(inputs(RANK, 0, len(self.input)))
        self.call()
        wanted = self.wanted()
        if wanted is not None and not torch.equal(self.output, wanted):
            at = int((self.output != wanted).nonzero()[0])
            raise ValueError(
                f"wrong result: element {at} of {len(wanted)} is {self.output[at]}, not {wanted[at]}"
            )
        self.input.zero_()
        self.output.zero_()

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
    dist.init_process_group("gloo", init_method=f"file://{STORE}", rank=RANK, world_size=NP)
    coordinator = socket.socket(socket.AF_UNIX)
    coordinator.connect(SOCKET)
    lines = coordinator.makefile("rw", buffering=1)
    print("hello", SYSTEM, RANK, file=lines)
    case = None
    for line in lines:
        verb, *words = line.split()
        try:
            if verb == "prepare":
                case = None  # The old buffers go before the new ones come.
                case = Case(words[0], int(words[1]))
                print("ok", file=lines)
            elif verb == "verify":
                case.verify()
                print("ok", file=lines)
            elif verb == "measure":
                print("ok", f"{case.measure(int(words[0])):.9f}", file=lines)
            else:
                raise ValueError(f"{verb} means nothing to an agent")
        except Exception as error:  # The coordinator tells it; it knows which rank this is.
            print("error", " ".join(str(error).split()), file=lines)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
