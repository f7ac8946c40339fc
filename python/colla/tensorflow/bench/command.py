"""Measures Colla, MultiWorkerMirroredStrategy and independent processes in one run, and prints the ratios.

Each system has processes of its own; they take turns, so that what one does to the machine meets all of them.
"""

import argparse
import contextlib
import json
import socket
from collections.abc import Mapping, Sequence

from colla.bench.runner import Result, System, interleaved, parser, run, time_text
from colla.bench.runner import parse as parse_common
from colla.tensorflow.bench.workloads import REDUCTIONS, TRAININGS, Reduction

PROGRAM = "python -m colla.tensorflow.bench"
PARTS = ("allreduce", *(training.name for training in TRAININGS))
SYSTEMS = ("distribute", "colla", "alone")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options; those that can't be end the program with 2."""
    return parse_common(parser(PROGRAM, __doc__, PARTS, rounds=7), PARTS, arguments)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def start(name: str, size: int) -> System:
    """The workers of one system."""
    hosts = [f"localhost:{port}" for port in free_ports(size)]
    environments = []
    for rank in range(size):
        # Keras 3 does not train under MultiWorkerMirroredStrategy: all systems have tf-keras.
        environment = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_USE_LEGACY_KERAS": "1"}
        if name == "colla":
            environment |= {"COLLA_WORKER_HOSTS": ",".join(hosts), "COLLA_TASK_INDEX": str(rank)}
        if name == "distribute":
            task = {"type": "worker", "index": rank}
            environment["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": task})
        environments.append(environment)
    return System(name, "colla.tensorflow.bench.worker", environments)


def measure(options: argparse.Namespace, systems: Mapping[str, System]) -> list[Result]:
    """A row for each workload and system, printed as soon as it is there."""
    results: list[Result] = []
    for number, what in enumerate([*REDUCTIONS, *TRAININGS]):
        reduces = isinstance(what, Reduction)
        if ("allreduce" if reduces else what.name) not in options.parts:
            continue
        contenders = {name: system for name, system in systems.items() if not (reduces and name == "alone")}
        turns = interleaved(contenders, number, options.rounds)
        medians = {name: turn.seconds for name, turn in turns.items()}
        batch, count = (0, what.bytes) if reduces else (what.batch, 0)
        title = what.name if reduces else f"{what.name} batch {batch}"
        results += [Result(name, title, options.np, count, batch, took, what.target) for name, took in medians.items()]
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
    systems = {name: lambda name=name: start(name, options.np) for name in (SYSTEMS if trains else SYSTEMS[:2])}
    return run(PROGRAM, options, systems, lambda started: measure(options, started))
