"""What the benchmarks in Python have in common: systems that take turns, medians, a table, JSON.

A system is a process per rank, ``python -m MODULE SYSTEM RANK SIZE``, which calls :func:`serve`. What one system does to
its processes does not reach the others, and only one of them computes at a time. No framework is imported here.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

# For one turn, the first of which makes and traces a model.
_PATIENCE = 600.0


class Failed(Exception):
    """A measurement came to nothing; the text says why."""


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


@dataclasses.dataclass(frozen=True)
class Turn:
    """What a worker did when it was its turn: how long a call or a step took, and what can be compared."""

    seconds: float
    loss: float = 0.0


# What a worker does in a turn.
Block = Callable[[], Turn]


def serve(make: Callable[[int, str], Block]) -> None:
    """The life of a worker, until its input ends; `make` gives the block for a workload's number and a contender.

    Each line of standard input names both; the answer goes to the descriptor that BENCH_OUTPUT names.
    """
    number, blocks = -1, dict[str, Block]()
    with os.fdopen(int(os.environ["BENCH_OUTPUT"]), "w") as output:
        for line in sys.stdin:
            workload, contender = line.split()
            if int(workload) != number:
                number, blocks = int(workload), {}
            if contender not in blocks:
                blocks[contender] = make(number, contender)
            print(json.dumps(dataclasses.asdict(blocks[contender]())), file=output, flush=True)


class System:
    """The workers of one system."""

    def __init__(self, name: str, module: str, environments: Sequence[Mapping[str, str]]) -> None:
        """`environments`: what each worker gets beside this process's own."""
        self.name = name
        self._workers: list[subprocess.Popen[str]] = []
        self._outputs: list[int] = []
        self._texts = [""] * len(environments)
        self._said = [""] * len(environments)
        for rank, environment in enumerate(environments):
            read, write = os.pipe()
            command = [sys.executable, "-m", module, name, str(rank), str(len(environments))]
            whole = os.environ | environment | {"BENCH_OUTPUT": str(write)}
            self._workers.append(
                subprocess.Popen(
                    command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=whole, pass_fds=[write]
                )
            )
            os.close(write)
            self._outputs.append(read)

    def turn(self, workload: int, contender: str) -> Turn:
        """The slowest worker's time, and the first one's loss."""
        for worker in self._workers:
            assert worker.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                worker.stdin.write(f"{workload} {contender}\n")
                worker.stdin.flush()
        deadline = time.monotonic() + _PATIENCE
        turns = [self._read(rank, deadline) for rank in range(len(self._workers))]
        return Turn(max(turn.seconds for turn in turns), turns[0].loss)

    def _read(self, rank: int, deadline: float) -> Turn:
        errors = self._workers[rank].stderr
        assert errors is not None
        while "\n" not in self._texts[rank]:
            left = deadline - time.monotonic()
            ready = select.select([self._outputs[rank], errors.fileno()], [], [], max(0.0, left))[0]
            if not ready:
                raise Failed(f"worker {rank} of {self.name} said nothing for {_PATIENCE:.0f} s")
            if errors.fileno() in ready:  # Frameworks say much; the last lines count if a worker ends.
                self._said[rank] = (self._said[rank] + os.read(errors.fileno(), 65536).decode(errors="replace"))[-4000:]
            if self._outputs[rank] in ready:
                piece = os.read(self._outputs[rank], 4096).decode()
                if not piece:
                    self._said[rank] += errors.read()
                    raise Failed(f"worker {rank} of {self.name} ended; it said:\n{self._said[rank][-4000:]}")
                self._texts[rank] += piece
        line, _, self._texts[rank] = self._texts[rank].partition("\n")
        return Turn(**json.loads(line))

    def close(self) -> None:
        """Ends the workers."""
        for worker in self._workers:
            worker.kill()
            worker.wait()
        for output in self._outputs:
            os.close(output)


def interleaved(contenders: Mapping[str, System], workload: int, rounds: int) -> dict[str, Turn]:
    """The median of the rounds in which each contender had its turn, and its last loss."""
    turns: dict[str, list[Turn]] = {name: [] for name in contenders}
    for _ in range(rounds + 1):
        for name, system in contenders.items():
            turns[name].append(system.turn(workload, name))
    # The first round warms up.
    return {name: Turn(statistics.median(turn.seconds for turn in all_[1:]), all_[-1].loss) for name, all_ in turns.items()}


def parser(program: str, description: str | None, parts: Sequence[str], rounds: int) -> argparse.ArgumentParser:
    """With the options that all benchmarks have."""
    made = argparse.ArgumentParser(prog=program, description=description)
    made.add_argument("--np", type=int, default=2, help="workers, all on this host (2)")
    made.add_argument("--parts", default=",".join(parts), help="of " + ",".join(parts))
    made.add_argument("--rounds", type=int, default=rounds, help=f"turns of each system ({rounds})")
    made.add_argument("--json", metavar="FILE", help="writes the results there too")
    return made


def parse(made: argparse.ArgumentParser, parts: Sequence[str], arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options; those that can't be end the program with 2."""
    options = made.parse_args(arguments)
    options.parts = options.parts.split(",")
    unknown = [part for part in options.parts if part not in parts]
    if unknown:
        made.error(f"there is no part {', '.join(unknown)}: choose from {', '.join(parts)}")
    if options.np < 2 or options.rounds < 1:
        made.error("two workers and one round are the least")
    return options


def run(
    program: str,
    options: argparse.Namespace,
    start: Mapping[str, Callable[[], System]],
    measure: Callable[[Mapping[str, System]], list[Result]],
) -> int:
    """Starts the systems, measures, writes the JSON and leaves no worker; the exit code."""
    systems: dict[str, System] = {}
    try:
        for name, begin in start.items():
            systems[name] = begin()
        results = measure(systems)
    except Failed as error:
        print(f"{program}: {error}", file=sys.stderr)
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


def size_text(count: int) -> str:
    """For the table."""
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def time_text(seconds: float) -> str:
    """For the table."""
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"
