"""Measures torch.distributed on ``colla`` and on ``gloo``, in one run, and prints the ratios."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from colla.bench.worker import Rank, Result
from colla.bench.workloads import REDUCTIONS, TRAININGS

PARTS = ("all_reduce", *(training.name for training in TRAININGS))


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m colla.bench", description=__doc__)
    parser.add_argument("--np", type=int, default=2, help="ranks, all on this host (2)")
    parser.add_argument("--parts", default=",".join(PARTS), help="of " + ",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=5, help="turns of each system (5)")
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


def run_rank(rank: int, port: int, options: argparse.Namespace, results: multiprocessing.SimpleQueue) -> None:
    torch.set_num_threads(options.threads or max(1, len(os.sched_getaffinity(0)) // options.np))
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    me = Rank(store, rank, options.np)
    if "all_reduce" in options.parts:
        for reduction in REDUCTIONS:
            _report(rank, me.reduce(reduction, options.rounds), results)
    for training in TRAININGS:
        if training.name in options.parts:
            _report(rank, me.train(training, options.rounds), results)
    me.close()


def _report(rank: int, measured: list[Result], results: multiprocessing.SimpleQueue) -> None:
    if rank != 0:
        return
    gloo, colla, *limit = measured
    what = gloo.workload + (f" {size(gloo.bytes)}" if gloo.bytes else f" batch {gloo.batch}")
    print(
        f"{what:<28} {time_text(gloo.seconds):>11} {time_text(colla.seconds):>11}"
        f" {gloo.seconds / colla.seconds:>7.2f}x {gloo.asked:>7.2f}x"
        + "".join(f" {gloo.seconds / none.seconds:>7.2f}x" for none in limit),
        flush=True,
    )
    results.put([dataclasses.asdict(result) for result in measured])


def size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def time_text(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def main() -> int:
    options = parse()
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    results = multiprocessing.get_context("spawn").SimpleQueue()
    print(f"{options.np} ranks, medians of {options.rounds} rounds in turn; a step or a call each")
    print(f"{'':<28} {'gloo':>11} {'colla':>11} {'ratio':>8} {'asked':>8} {'limit':>8}", flush=True)
    try:
        multiprocessing.spawn(run_rank, (store.port, options, results), nprocs=options.np)
    except KeyboardInterrupt:
        return 130
    rows = []
    while not results.empty():
        rows += results.get()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 0
