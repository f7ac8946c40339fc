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


WITHOUT_TORCH = """
import array, pathlib, sys
import colla
from colla._core import Kind

world = colla.World()
total = array.array("f", [0, 0])
handle = world.exchange.submit(
    Kind.ALLREDUCE, None, [array.array("f", [1, 2])], [total], 0, lambda results, numbers: results[0]
)
print("sum", world.exchange.synchronize(handle).tolist())
try:
    import colla.torch
except ImportError as error:
    print("said", error)
assert "torch" not in sys.modules
assert "libtorch" not in pathlib.Path("/proc/self/maps").read_text()
world.close()
"""


def install(where, *options):
    """A venv with the wheel installed, and the variables to use it with."""
    # What was compiled for the tests need not be compiled again, if it is by the same compiler.
    variables = {
        "CXX": "c++",
        "CCACHE_BASEDIR": str(ROOT),
        "CCACHE_SLOPPINESS": "pch_defines,time_macros,locale",
        "CMAKE_CXX_COMPILER_LAUNCHER": shutil.which("ccache") or "",
    }
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(
        [where / "bin" / "pip", "install", *options, "."], cwd=ROOT, env=clean, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return where, clean


def make_venv(where):
    subprocess.run([sys.executable, "-m", "venv", where], check=True)
    return next((where / "lib").glob("python*/site-packages"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """One that sees torch where the tests have it."""
    where = tmp_path_factory.mktemp("wheel") / "venv"
    packages = make_venv(where)
    (packages / "torch_of_the_tests.pth").write_text(str(pathlib.Path(torch.__file__).parents[1]))
    return install(where)


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory):
    """One that has no torch. A build folder of its own keeps what the other one was configured with."""
    where = tmp_path_factory.mktemp("wheel-without-torch") / "venv"
    make_venv(where)
    return install(where, "--config-settings=build-dir=build-wheel-core")


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


def test_a_program_for_horovod(environment, tmp_path):
    where, variables = environment
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("import colla.torch as hvd", "import horovod.torch as hvd"))
    done = subprocess.run(
        [where / "bin" / "colla", "horovodrun", "-np", "2", where / "bin" / "python", script],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("sum [2.0, 2.0, 2.0]") == 2
    assert "horovod is not installed: import horovod means Colla" in done.stderr


def test_has_no_benchmarks_of_the_command(environment):
    where, variables = environment
    done = subprocess.run([where / "bin" / "colla", "bench"], env=variables, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert "not in this build" in done.stderr and "python -m colla.bench" in done.stderr


def test_torch_alone_knows_the_backend(environment, tmp_path):
    where, variables = environment
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch\n"
        "print([name for name in sys.modules if name.startswith('colla')])\n"
        "torch.distributed.init_process_group('colla', store=torch.distributed.HashStore(), rank=0, world_size=1)\n"
        "print(torch.distributed.get_backend())\n"
    )
    done = subprocess.run(
        [where / "bin" / "python", script], env=variables, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['colla', 'colla._registration']\ncolla\n"


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


def test_without_torch(without_torch, tmp_path):
    where, variables = without_torch
    assert not list(where.glob("lib/python*/site-packages/torch*"))
    assert not list(where.glob("lib/python*/site-packages/colla/_torch.*.so"))
    script = tmp_path / "script.py"
    script.write_text(WITHOUT_TORCH)
    done = subprocess.run(
        [where / "bin" / "colla", "run", "-np", "2", "--timeout", "120", "--", where / "bin" / "python", script],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("sum [2.0, 4.0]") == 2
    assert done.stdout.count("said colla.torch needs PyTorch: install torch==2.13.0") == 2


def test_without_torch_the_command_says_what_is_missing(without_torch, tmp_path):
    where, variables = without_torch
    done = subprocess.run(
        [where / "bin" / "colla", "train", "softmax", "--data", "synthetic:mnist:200"],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0 and done.stderr.count("\n") == 1 and "not in this build" in done.stderr, done.stderr
