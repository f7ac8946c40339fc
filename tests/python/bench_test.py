"""``python -m colla.bench`` as users call it. Checks what comes out, never how fast."""

import json
import subprocess
import sys

import pytest

from colla.bench.runner import Failed, System, Turn, interleaved


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "colla.bench", *arguments], capture_output=True, text=True, timeout=280
    )


def test_measures_both_backends(tmp_path):
    done = bench("--parts", "all_reduce,mlp", "--rounds", "1", "--json", str(tmp_path / "out.json"))
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "out.json").read_text())
    assert {row["system"] for row in rows if row["workload"] == "mlp"} == {"gloo", "colla", "none"}
    sizes = {row["bytes"] for row in rows if row["workload"] == "all_reduce"}
    assert sizes == {1 << 10, 4 << 20, 32 << 20, 100 << 20}
    assert all(row["seconds"] > 0 and row["np"] == 2 for row in rows)
    assert "all_reduce 32 MiB" in done.stdout and "mlp batch 100" in done.stdout


def test_wrong_arguments_are_told():
    done = bench("--parts", "some")
    assert done.returncode == 2
    assert "there is no part some: choose from all_reduce, mlp" in done.stderr


def test_a_worker_that_ends_is_named_with_what_it_said():
    system = System("gloo", "json.tool", [{}])
    try:
        with pytest.raises(Failed, match=r"worker 0 of gloo ended; it said:[\s\S]*No such file"):
            system.turn(0, "gloo")
    finally:
        system.close()


class Scripted:
    """A system that takes as long as it is told, and says whose turn it is."""

    def __init__(self, seconds, order):
        self._seconds = iter(seconds)
        self._order = order

    def turn(self, _workload, contender):
        self._order.append(contender)
        return Turn(next(self._seconds), loss=float(len(self._order)))


def test_rounds_are_interleaved_and_the_first_one_warms_up():
    order = []
    systems = {"gloo": Scripted([90.0, 3.0, 1.0, 2.0], order), "colla": Scripted([80.0, 5.0, 5.0, 7.0], order)}
    medians = interleaved(systems, workload=0, rounds=3)
    assert order == ["gloo", "colla"] * 4
    assert medians == {"gloo": Turn(2.0, loss=7.0), "colla": Turn(5.0, loss=8.0)}
