"""``python -m colla.pool.bench``: colla.Pool and multiprocessing.Pool in turns, in one run, and the ratios."""

import argparse
import json
import multiprocessing
import pathlib
import statistics
import time
from collections.abc import Callable
from typing import Any

from colla.pool import Pool

_MEGABYTE = 1 << 20
_SYSTEMS: dict[str, Callable[..., Any]] = {"multiprocessing": multiprocessing.Pool, "colla": Pool}


def same(x: Any) -> Any:
    return x


def length(x: Any) -> int:
    return len(x)


def made(size: int) -> Any:
    import numpy

    return numpy.ones(size, numpy.uint8)


def asynchronous(pool: Any, tasks: int, _: int) -> None:
    for result in [pool.apply_async(same, (number,)) for number in range(tasks)]:
        result.get()


def one_by_one(pool: Any, tasks: int, _: int) -> None:
    for number in range(tasks // 4):
        pool.apply(same, (number,))


def iterated(pool: Any, tasks: int, _: int) -> None:
    for _ in pool.imap(same, range(tasks)):
        pass


def unordered(pool: Any, tasks: int, _: int) -> None:
    for _ in pool.imap_unordered(same, range(tasks)):
        pass


def mapped(pool: Any, tasks: int, _: int) -> None:
    pool.map(same, range(10 * tasks))


def sent(pool: Any, _: int, size: int) -> None:
    pool.map(length, [made(size)] * 4, 1)


def received(pool: Any, _: int, size: int) -> None:
    for array in pool.imap_unordered(made, [size] * 4):
        assert array[-1] == 1


def both_ways(pool: Any, _: int, size: int) -> None:
    for array in pool.imap_unordered(same, [made(size)] * 4):
        assert array[-1] == 1


_TINY = {
    "apply_async": asynchronous,
    "apply": one_by_one,
    "imap": iterated,
    "imap_unordered": unordered,
    "map": mapped,
}
_ARRAYS = {"arrays sent": sent, "arrays received": received, "arrays both ways": both_ways}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m colla.pool.bench", description=__doc__)
    parser.add_argument("--processes", type=int, default=2, help="of each pool (2)")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each pool (7)")
    parser.add_argument("--tasks", type=int, default=10_000, help="tiny tasks in a turn (10000)")
    parser.add_argument("--megabytes", type=int, default=100, help="of each array (100)")
    parser.add_argument("--json", metavar="FILE", help="writes the results there too")
    options = parser.parse_args()
    size = options.megabytes * _MEGABYTE

    rows = []
    print(f"{'':>18} {'multiprocessing':>16} {'colla':>12}   times as fast (medians of {options.rounds})", flush=True)
    for name, work in {**_TINY, **_ARRAYS}.items():
        seconds: dict[str, list[float]] = {system: [] for system in _SYSTEMS}
        for _ in range(options.rounds):
            for system, make in _SYSTEMS.items():
                with make(options.processes) as pool:
                    pool.map(same, range(options.processes))  # It is up.
                    begin = time.perf_counter()
                    work(pool, options.tasks, size)
                    seconds[system].append(time.perf_counter() - begin)
        median = {system: statistics.median(values) for system, values in seconds.items()}
        ratio = median["multiprocessing"] / median["colla"]
        print(f"{name:>18} {median['multiprocessing']:>15.3f}s {median['colla']:>11.3f}s   {ratio:.2f}", flush=True)
        rows.append({"workload": name, "seconds": seconds, "ratio": ratio})
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({**vars(options), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
