"""`import colla.torch as hvd`: jobs of several ranks, each of which does all checks of a script."""

import pathlib
import subprocess
import sys

import pytest
from conftest import COLLA

RANKS = pathlib.Path(__file__).parent / "ranks"


def succeeded(done):
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]


@pytest.mark.parametrize("np", [2, 3])
def test_operations(run_ranks, np):
    succeeded(run_ranks(RANKS / "hvd_ops.py", np))


@pytest.mark.parametrize("np", [2])
def test_training(run_ranks, np, tmp_path):
    done = run_ranks(RANKS / "hvd_training.py", np, flags=("--env", f"TEST_FILES={tmp_path}"))
    succeeded(done)
    # What Python wrote is what C++ reads; and the way there does not matter.
    for name in ("sgd", "adam"):
        same = subprocess.run(
            [COLLA, "compare", tmp_path / name, tmp_path / f"{name}-again"], capture_output=True, text=True
        )
        assert same.returncode == 0, same.stdout + same.stderr
        other = subprocess.run(
            [COLLA, "compare", f"{tmp_path / name}@2", f"{tmp_path / name}@4"], capture_output=True, text=True
        )
        assert other.returncode == 1, other.stdout + other.stderr
    inspected = subprocess.run([COLLA, "inspect", tmp_path / "adam"], capture_output=True, text=True, check=True)
    assert "exp_avg" in inspected.stdout


def test_alone():
    """Without a launcher it is a job of one; the same checks hold."""
    done = subprocess.run([sys.executable, RANKS / "hvd_ops.py"], capture_output=True, text=True, timeout=100)
    succeeded(done)
