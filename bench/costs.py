#!/usr/bin/env python3
"""What some of Colla's conveniences cost, each beside the same without it.

  bench/costs.py check     comparing a batch with its data set's fields, as a share of a step of mlp
  bench/costs.py memory    two workers of lr on 305 MiB of data, beside one: proportional set sizes
  bench/costs.py import    `import torch` with and without the entry point that registers the backend

It needs ./test to have built what there is; `check` takes seconds, `memory` and `import` about a minute.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
COLLA = BUILD / "bin" / "colla"
LIMIT = 120  # Seconds until a run trains.


def check() -> None:
    """The check alone, by its own program, and the seconds of a step with it in."""
    said = subprocess.run([BUILD / "tests/data/batch_check_cost"], capture_output=True, text=True, check=True).stdout
    checked = float(re.search(r"([0-9.]+) us to check", said)[1])
    train = [COLLA, "train", "mlp", "--data", "synthetic:mnist:6000", "--batch", "100", "--steps", "600", "--threads", "1",
             "--no-eval", "--json"]
    lines = subprocess.run(train, capture_output=True, text=True, check=True).stdout.splitlines()
    steps = [json.loads(line) for line in lines]
    step = statistics.median(line["seconds"] for line in steps if "step" in line) * 1e6
    print(f"a batch of 100 images: {checked:.3f} us to check, {step:.0f} us for a step of mlp: {100 * checked / step:.3f} %")


def pss(process: int) -> float:
    """MiB of a process, memory that it shares counted in parts."""
    rollup = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text()
    return int(re.search(r"^Pss: +([0-9]+) kB", rollup, re.MULTILINE)[1]) / 1024


def family(process: int) -> list[int]:
    """A process and all that came of it."""
    found = [process]
    for parent in found:
        for task in pathlib.Path(f"/proc/{parent}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    return found


def trained(workers: int) -> float:
    """MiB of a training's workers, once each of them has made steps."""
    with tempfile.TemporaryDirectory() as folder:
        steps = pathlib.Path(folder, "steps.json")
        train = [COLLA, "train", "lr", "--data", "synthetic:lr:8000x10000", "--np", str(workers), "--threads", "1"]
        run = subprocess.Popen([*train, "--epochs", "100000", "--no-eval", "--quiet", "--json", steps],
                               stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + LIMIT
            while not steps.exists() or not steps.stat().st_size:
                if run.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"bench/costs.py: no step of {' '.join(map(str, train))} within {LIMIT} s")
                time.sleep(0.1)
            # Beside the workers there is a front, and a guardian, which hold nothing.
            return sum(sorted(map(pss, family(run.pid)), reverse=True)[:workers])
        finally:
            run.terminate()
            run.wait()


def memory() -> None:
    one, two = trained(1), trained(2)
    print(f"one worker: {one:.0f} MiB; two together: {two:.0f} MiB, {two / one:.2f} of one")


def loaded(python: pathlib.Path, path: pathlib.Path | None) -> tuple[float, float]:
    """Milliseconds of processor time in a fresh Python: `import torch` without the entry points, and these alone."""
    timed = (
        "import time; begin = time.process_time(); import torch; middle = time.process_time();"
        " torch._import_device_backends(); end = time.process_time();"
        " print((middle - begin) * 1000, (end - middle) * 1000)"
    )
    variables = os.environ | {"PYTHONPATH": str(path or ""), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    said = subprocess.run([python, "-c", timed], capture_output=True, text=True, check=True, env=variables).stdout
    whole, entries = map(float, said.split())
    return whole, entries


def imports() -> None:
    """In turns, since the machine changes more than the difference is."""
    python = ROOT / ".venv/bin/python"
    loaded(python, None)  # Into the page cache.
    runs = [(loaded(python, None), loaded(python, BUILD / "python")) for _ in range(15)]
    torch = statistics.median(without[0] for without, _ in runs)
    without = statistics.median(without[1] for without, _ in runs)
    ours = statistics.median(ours[1] for _, ours in runs)
    print(f"import torch: {torch:.0f} ms; its entry points: {without:.2f} ms without Colla's, {ours:.2f} ms with it:"
          f" {ours - without:.2f} ms more (medians of {len(runs)}, processor time)")


if __name__ == "__main__":
    measure = {"check": check, "memory": memory, "import": imports}.get(" ".join(sys.argv[1:]))
    if measure is None:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    measure()
