"""Measures Colla, MultiWorkerMirroredStrategy and independent processes in one run, and prints the ratios.

Each system has processes of its own; they take turns, so that what one does to the machine meets all of them.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import select
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from colla.tensorflow.bench.workloads import REDUCTIONS, TRAININGS, Reduction

PARTS = ("allreduce", *(training.name for training in TRAININGS))
SYSTEMS = ("distribute", "colla", "alone")
# For one turn, the first of which makes and traces a model.
_PATIENCE = 600.0


@dataclasses.dataclass
class Result:
    """A median of one system; the fields are those of the JSON file."""

    system: str
    workload: str
    np: int
    batch: int
    seconds: float
    target: float


class Failed(Exception):
    """A worker ended, or said nothing; the text says which."""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options; those that can't be end the program with 2."""
    parser = argparse.ArgumentParser(prog="python -m colla.tensorflow.bench", description=__doc__)
    parser.add_argument("--np", type=int, default=2, help="workers, all on this host (2)")
    parser.add_argument("--parts", default=",".join(PARTS), help="of " + ",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=7, help="turns of each system (7)")
    parser.add_argument("--json", metavar="FILE", help="writes the results there too")
    options = parser.parse_args(arguments)
    options.parts = options.parts.split(",")
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    if options.np < 2 or options.rounds < 1:
        parser.error("two workers and one round are the least")
    return options


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class System:
    """The workers of one system."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        hosts = [f"localhost:{port}" for port in free_ports(size)]
        self._workers: list[subprocess.Popen[str]] = []
        self._outputs: list[int] = []
        self._texts = [""] * size
        for rank in range(size):
            read, write = os.pipe()
            environment = os.environ | {"BENCH_OUTPUT": str(write), "TF_CPP_MIN_LOG_LEVEL": "3"}
            # Keras 3 does not train under MultiWorkerMirroredStrategy: all systems have tf-keras.
            environment["TF_USE_LEGACY_KERAS"] = "1"
            if name == "colla":
                environment |= {"COLLA_WORKER_HOSTS": ",".join(hosts), "COLLA_TASK_INDEX": str(rank)}
            if name == "distribute":
                task = {"type": "worker", "index": rank}
                environment["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": task})
            command = [sys.executable, "-m", "colla.tensorflow.bench.worker", name, str(rank), str(size)]
            self._workers.append(
                subprocess.Popen(
                    command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, pass_fds=[write]
                )
            )
            os.close(write)
            self._outputs.append(read)
        self._said = [""] * size

    def turn(self, number: int) -> float:
        """Seconds per call of the slowest worker."""
        for worker in self._workers:
            assert worker.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                worker.stdin.write(f"{number}\n")
                worker.stdin.flush()
        deadline = time.monotonic() + _PATIENCE
        return max(self._read(rank, deadline) for rank in range(len(self._workers)))

    def _read(self, rank: int, deadline: float) -> float:
        errors = self._workers[rank].stderr
        assert errors is not None
        while "\n" not in self._texts[rank]:
            left = deadline - time.monotonic()
            ready = select.select([self._outputs[rank], errors.fileno()], [], [], max(0.0, left))[0]
            if not ready:
                raise Failed(f"worker {rank} of {self.name} said nothing for {_PATIENCE:.0f} s")
            if errors.fileno() in ready:  # TensorFlow says much; the last lines count if a worker ends.
                self._said[rank] = (self._said[rank] + os.read(errors.fileno(), 65536).decode(errors="replace"))[-4000:]
            if self._outputs[rank] in ready:
                piece = os.read(self._outputs[rank], 4096).decode()
                if not piece:
                    self._said[rank] += errors.read()
                    raise Failed(f"worker {rank} of {self.name} ended; it said:\n{self._said[rank][-4000:]}")
                self._texts[rank] += piece
        line, _, self._texts[rank] = self._texts[rank].partition("\n")
        return float(line)

    def close(self) -> None:
        """Ends the workers."""
        for worker in self._workers:
            worker.kill()
            worker.wait()
        for output in self._outputs:
            os.close(output)


def time_text(seconds: float) -> str:
    """For the table."""
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def measure(options: argparse.Namespace, systems: dict[str, System]) -> list[Result]:
    """A row for each workload and system, printed as soon as it is there."""
    results: list[Result] = []
    for number, what in enumerate([*REDUCTIONS, *TRAININGS]):
        part = "allreduce" if isinstance(what, Reduction) else what.name
        if part not in options.parts:
            continue
        names = [name for name in SYSTEMS if not (part == "allreduce" and name == "alone")]
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(options.rounds + 1):
            for name in names:
                took = systems[name].turn(number)
                if turn > 0:  # The first one warms up.
                    seconds[name].append(took)
        medians = {name: statistics.median(times) for name, times in seconds.items()}
        batch = 0 if isinstance(what, Reduction) else what.batch
        title = what.name if isinstance(what, Reduction) else f"{what.name} batch {batch}"
        results += [Result(name, title, options.np, batch, took, what.target) for name, took in medians.items()]
        limit = f"{medians['alone'] / medians['colla'] * 100:>9.0f} %" if "alone" in medians else ""
        print(
            f"{title:<22} {time_text(medians['distribute']):>12} {time_text(medians['colla']):>12}"
            f" {medians['distribute'] / medians['colla']:>7.2f}x {what.target:>6.2f}x{limit}",
            flush=True,
        )
    return results


def main() -> int:
    """The exit code."""
    options = parse()
    print(f"{options.np} workers of each, one thread each, medians of {options.rounds} rounds in turn; a step or a call each")
    print(f"{'':<22} {'distribute':>12} {'colla':>12} {'ratio':>8} {'target':>7} {'of alone':>10}", flush=True)
    trains = any(part != "allreduce" for part in options.parts)
    systems: dict[str, System] = {}
    try:
        for name in SYSTEMS if trains else SYSTEMS[:2]:
            systems[name] = System(name, options.np)
        results = measure(options, systems)
    except Failed as error:
        print(f"python -m colla.tensorflow.bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        for system in systems.values():
            system.close()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([dataclasses.asdict(result) for result in results], file, indent=1)
    return 0
