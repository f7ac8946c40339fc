"""Measures torch.distributed on ``colla`` and on ``gloo``, in one run, and prints the ratios."""

import argparse
import math
import os
import tempfile
from collections.abc import Mapping, Sequence

from colla.bench.runner import Failed, Result, System, interleaved, parser, run, size_text, time_text
from colla.bench.runner import parse as parse_common
from colla.bench.workloads import REDUCTIONS, TRAININGS, Reduction, Training

PROGRAM = "python -m colla.bench"
PARTS = ("all_reduce", *(training.name for training in TRAININGS))
SYSTEMS = ("gloo", "colla")
# A rank's own work, without any exchange, in the processes of colla: no backend can make a step shorter.
LIMIT = "none"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options; those that can't be end the program with 2."""
    made = parser(PROGRAM, __doc__, PARTS, rounds=15)
    made.add_argument("--threads", type=int, default=0, help="of each rank (cores / ranks)")
    options = parse_common(made, PARTS, arguments)
    if options.threads < 0:
        made.error("threads are a count")
    options.threads = options.threads or max(1, len(os.sched_getaffinity(0)) // options.np)
    return options


def measure(options: argparse.Namespace, systems: Mapping[str, System]) -> list[Result]:
    """A row for each workload and system, printed as soon as it is there."""
    results: list[Result] = []
    for number, what in enumerate([*REDUCTIONS, *TRAININGS]):
        reduces = isinstance(what, Reduction)
        if ("all_reduce" if reduces else what.name) not in options.parts:
            continue
        contenders = dict(systems) if reduces else {**systems, LIMIT: systems["colla"]}
        turns = interleaved(contenders, number, options.rounds)
        gloo, colla = turns["gloo"], turns["colla"]
        if not math.isclose(gloo.loss, colla.loss, rel_tol=1e-3, abs_tol=1e-4):
            name = "all_reduce" if reduces else what.name
            raise Failed(f"{name} ends with a loss of {colla.loss} and, on the other backend, of {gloo.loss}")
        results += [result(what, name, options.np, turn.seconds) for name, turn in turns.items()]
        title = f"all_reduce {size_text(what.bytes)}" if reduces else f"{what.name} batch {what.batch * options.np}"
        limit = f" {gloo.seconds / turns[LIMIT].seconds:>7.2f}x" if LIMIT in turns else ""
        print(
            f"{title:<28} {time_text(gloo.seconds):>11} {time_text(colla.seconds):>11}"
            f" {gloo.seconds / colla.seconds:>7.2f}x {what.target:>7.2f}x" + limit,
            flush=True,
        )
    return results


def result(what: Reduction | Training, system: str, size: int, seconds: float) -> Result:
    if isinstance(what, Reduction):
        return Result(system, "all_reduce", size, what.bytes, 0, seconds, what.target)
    return Result(system, what.name, size, 0, what.batch * size, seconds, what.target)


def main() -> int:
    """The exit code."""
    options = parse()
    print(f"{options.np} ranks of each, medians of {options.rounds} rounds in turn; a step or a call each")
    print(f"{'':<28} {'gloo':>11} {'colla':>11} {'ratio':>8} {'target':>8} {'limit':>8}", flush=True)
    with tempfile.TemporaryDirectory(prefix="colla-bench-") as folder:

        def start(name: str) -> System:
            environment = {"BENCH_STORE": f"{folder}/{name}", "BENCH_THREADS": str(options.threads)}
            return System(name, "colla.bench.worker", [environment] * options.np)

        systems = {name: lambda name=name: start(name) for name in SYSTEMS}
        return run(PROGRAM, options, systems, lambda started: measure(options, started))
