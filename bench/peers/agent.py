"""What every agent in Python does: it speaks the protocol of bench/agent.h.

The arguments of an agent are SOCKET SYSTEM RANK NP, and what it needs beyond them.
"""

import os
import socket
import sys
import time

SOCKET, SYSTEM = sys.argv[1:3]
RANK, NP = int(sys.argv[3]), int(sys.argv[4])
# Servers apply each worker's gradients as they come. The benchmarks measure synchronous training alone.
ASYNC = SYSTEM.endswith("-async")
THREADS = int(os.environ.get("COLLA_PEER_THREADS", "1"))

# The linear models of bench/models.cc: inputs, hidden layers, outputs.
WIDTHS = {
    "lr": [10000, 1],
    "softmax": [784, 10],
    "snn": [784, 100, 10],
    "mlp": [784, 100, 100, 10],
}
if inputs := os.environ.get("COLLA_PEER_INPUTS"):  # Of each sample, where the data has others.
    for widths in WIDTHS.values():
        widths[0] = int(inputs)


def serve(make):
    """Answers the coordinator until it hangs up. make(*WORDS), for the words behind "prepare", gives
    an object with verify(iterations), measure(iterations) and train(iterations), which returns the last
    loss. Returns the exit code."""
    coordinator = socket.socket(socket.AF_UNIX)
    coordinator.connect(SOCKET)
    lines = coordinator.makefile("rw", buffering=1)
    print("hello", SYSTEM, RANK, file=lines)
    work = None
    for line in lines:
        verb, _, rest = line.strip().partition(" ")
        try:
            if verb == "prepare":
                if hasattr(work, "close"):
                    work.close()
                work = None  # The old data goes before the new comes.
                work = make(*rest.split(" ", 5))
                print("ok", file=lines)
            elif verb == "verify":
                print("ok", f"{work.verify(int(rest)):.9g}", file=lines)
            elif verb == "measure":
                print("ok", f"{work.measure(int(rest)):.9f}", file=lines)
            elif verb == "train":  # As a study asks: for the time and the loss.
                start = time.perf_counter()
                loss = work.train(int(rest)).mean()
                loss = float(loss.asscalar() if hasattr(loss, "asscalar") else loss)  # MXNet's own arrays.
                print("ok", f"{time.perf_counter() - start:.9f} {loss:.9g}", file=lines)
            else:
                raise ValueError(f"{verb} means nothing to an agent")
        except Exception as error:  # The coordinator reports it; it knows which rank this is.
            print("error", " ".join(str(error).split())[:500], file=lines)
            return 1
    return 0
