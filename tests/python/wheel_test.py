"""`pip install .`, as docs/python.md says it, into an environment of its own."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).parents[2]

SCRIPT = """
import torch
import colla.torch as hvd
hvd.init()
print("sum", hvd.allreduce(torch.ones(3), op=hvd.Sum).tolist())
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A venv that sees torch where the tests have it, with the wheel installed."""
    where = tmp_path_factory.mktemp("wheel") / "venv"
    subprocess.run([sys.executable, "-m", "venv", where], check=True)
    packages = next((where / "lib").glob("python*/site-packages"))
    (packages / "torch_of_the_tests.pth").write_text(str(pathlib.Path(torch.__file__).parents[1]))
    # What was compiled for the tests need not be compiled again, if it is by the same compiler.
    variables = {
        "CXX": "c++",
        "CCACHE_BASEDIR": str(ROOT),
        "CCACHE_SLOPPINESS": "pch_defines,time_macros,locale",
        "CMAKE_CXX_COMPILER_LAUNCHER": shutil.which("ccache") or "",
    }
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(
        [where / "bin" / "pip", "install", "."], cwd=ROOT, env=clean, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return where, clean


def test_gives_the_package_and_the_command(environment, tmp_path):
    where, variables = environment
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [where / "bin" / "colla", "run", "-np", "2", "--timeout", "120", "--", where / "bin" / "python", script],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("sum [2.0, 2.0, 2.0]") == 2


def test_the_command_trains(environment, tmp_path):
    where, variables = environment
    done = subprocess.run(
        [where / "bin" / "colla", "train", "softmax", "--data", "synthetic:mnist:200", "--steps", "2"],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "loss" in done.stdout
