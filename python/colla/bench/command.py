"""Measures torch.distributed on ``colla`` and on ``gloo``, in one run, and prints the ratios."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from colla.bench.worker import SYSTEMS, Rank, Result
from colla.bench.workloads import REDUCTIONS, TRAININGS

PARTS = ("all_reduce", *(training.name for training in TRAININGS))


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m colla.bench", description=__doc__)
    parser.add_argument("--np", type=int, default=2, help="ranks, all on this host (2)")
    parser.add_argument("--parts", default=",".join(PARTS), help="of " + ",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=15, help="turns of each system (15)")
    parser.add_argument("--threads", type=int, default=0, help="of each rank (cores / ranks)")
    parser.add_argument("--json", metavar="FILE", help="writes the results there too")
    options = parser.parse_args(arguments)
    options.parts = options.parts.split(",")
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    if options.np < 2 or options.rounds < 1 or options.threads < 0:
        parser.error("two ranks and one round are the least, and threads a count")
    return options


def run_rank(number: int, port: int, options: argparse.Namespace, results: multiprocessing.SimpleQueue) -> None:
    system, rank = SYSTEMS[number // options.np], number % options.np
    torch.set_num_threads(options.threads or max(1, len(os.sched_getaffinity(0)) // options.np))
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    me = Rank(store, system, rank, options.np)

    def tell(measured: list[Result], loss: float) -> None:
        if rank == 0:
            results.put((measured, loss))

    if "all_reduce" in options.parts:
        for reduction in REDUCTIONS:
            tell(me.reduce(reduction, options.rounds), 0.0)
    for training in TRAININGS:
        if training.name in options.parts:
            tell(*me.train(training, options.rounds))
    me.close()


class Report:
    """Prints a line as soon as all systems have told what they measured."""

    def __init__(self) -> None:
        self.rows: list[Result] = []
        self._waiting: dict[tuple[str, int], tuple[list[Result], float]] = {}

    def add(self, measured: list[Result], loss: float) -> None:
        key = (measured[0].workload, measured[0].bytes)
        if key not in self._waiting:
            self._waiting[key] = (measured, loss)
            return
        others, their_loss = self._waiting.pop(key)
        if not math.isclose(loss, their_loss, rel_tol=1e-3, abs_tol=1e-4):
            raise ValueError(f"{key[0]} ends with a loss of {loss} and, on the other backend, of {their_loss}")
        rows = others + measured
        self.rows += rows
        by_system = {row.system: row for row in rows}
        gloo, colla = by_system["gloo"], by_system["colla"]
        what = gloo.workload + (f" {size(gloo.bytes)}" if gloo.bytes else f" batch {gloo.batch}")
        limit = f" {gloo.seconds / by_system['none'].seconds:>7.2f}x" if "none" in by_system else ""
        print(
            f"{what:<28} {time_text(gloo.seconds):>11} {time_text(colla.seconds):>11}"
            f" {gloo.seconds / colla.seconds:>7.2f}x {gloo.target:>7.2f}x" + limit,
            flush=True,
        )


def size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def time_text(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def main() -> int:
    options = parse()
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    results = multiprocessing.get_context("spawn").SimpleQueue()
    print(f"{options.np} ranks of each, medians of {options.rounds} rounds in turn; a step or a call each")
    print(f"{'':<28} {'gloo':>11} {'colla':>11} {'ratio':>8} {'target':>8} {'limit':>8}", flush=True)
    report = Report()
    count = len(SYSTEMS) * options.np
    ranks = multiprocessing.spawn(run_rank, (store.port, options, results), nprocs=count, join=False)
    try:
        over = False
        while not over:
            over = ranks.join(timeout=0.5)
            while not results.empty():
                report.add(*results.get())
    except KeyboardInterrupt:
        return 130
    except ValueError as error:
        for process in ranks.processes:
            process.terminate()
        print(f"python -m colla.bench: {error}", file=sys.stderr)
        return 1
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([dataclasses.asdict(row) for row in report.rows], file, indent=1)
    return 0
