"""What every agent in Python does: it speaks the protocol of bench/agent.h.

The arguments of an agent are SOCKET SYSTEM RANK NP, and what it needs beyond them.
"""

import socket
import sys

SOCKET, SYSTEM = sys.argv[1:3]
RANK, NP = int(sys.argv[3]), int(sys.argv[4])

# The linear models of bench/models.cc: inputs, hidden layers, outputs.
WIDTHS = {
    "lr": [10000, 1],
    "softmax": [784, 10],
    "snn": [784, 100, 10],
    "mlp": [784, 100, 100, 10],
}


def serve(make):
    """Answers the coordinator until it hangs up. make(*WORDS), for the words behind "prepare", gives
    an object with verify(iterations) and measure(iterations). Returns the exit code."""
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
            else:
                raise ValueError(f"{verb} means nothing to an agent")
        except Exception as error:  # The coordinator reports it; it knows which rank this is.
            print("error", " ".join(str(error).split())[:500], file=lines)
            return 1
    return 0
