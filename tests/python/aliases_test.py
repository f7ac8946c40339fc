"""Programs of other systems without a changed line: `import horovod` means Colla where Horovod is not installed."""

import os
import shutil
import subprocess
import sys

import pytest
from conftest import COLLA

SCRIPT = """
import sys
import horovod
import horovod.torch as hvd
from horovod.common.exceptions import HorovodInternalError
from horovod.runner import run
from horovod.torch.mpi_ops import allreduce_async
import horovod.torch.elastic
import torch
import colla.torch

hvd.init()
total = hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist()
assert hvd is colla.torch and hvd.__name__ == hvd.__spec__.name == "colla.torch"
assert HorovodInternalError is hvd.HorovodInternalError and run is horovod.run
try:
    import horovod.nothing
except ModuleNotFoundError as error:
    assert error.name == "horovod.nothing"
print("rank", hvd.rank(), "sum", total, sys.argv[1:])
"""

LINE = "colla: horovod is not installed: import horovod means Colla 0.1.0\n"


def python(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, env=os.environ | environment
    )


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_horovodrun(script):
    done = python("-m", "colla", "horovodrun", "-np", "2", sys.executable, script, "--epochs", "2")
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert f"rank {rank} sum [2.0, 2.0] ['--epochs', '2']" in done.stdout
    # Rank 0 alone says it, and nothing else is said.
    assert done.stderr.count(LINE.strip()) == 1 and done.stderr.count("\n") == 1, done.stderr


def test_horovodrun_of_a_clone(script):
    """The command itself, as ./colla starts it, with nothing of the package on the way to it."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COLLA_ALIASES")}
    done = subprocess.run(
        [COLLA, "horovodrun", "-np", "2", sys.executable, script], capture_output=True, text=True, timeout=120, env=clean
    )
    assert done.returncode == 0 and done.stdout.count("sum [2.0, 2.0]") == 2, done.stdout + done.stderr
    assert done.stderr == f"[worker 0] {LINE}", done.stderr


def test_horovodrun_where_the_package_is_not(script, tmp_path):
    (tmp_path / "bin").mkdir()
    command = shutil.copy(COLLA, tmp_path / "bin" / "colla")
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COLLA_ALIASES")}
    done = subprocess.run(
        [command, "horovodrun", "-np", "1", sys.executable, script], capture_output=True, text=True, timeout=120, env=clean
    )
    assert done.returncode != 0 and "start this with `python -m colla horovodrun`" in done.stderr, done.stderr


def test_without_a_launcher(script):
    done = python("-m", "colla.aliases", "horovod", script, "more")
    assert (done.returncode, done.stdout) == (0, "rank 0 sum [1.0, 1.0] ['more']\n"), done.stderr
    assert done.stderr == LINE


def test_horovod_run_calls_a_function_of_an_unchanged_program(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("""
import horovod

def train(rate):
    import horovod.common.exceptions
    import colla
    world = colla.World()
    return rate * (world.job.rank + 1)

if __name__ == "__main__":
    print("results", horovod.run(train, args=(0.5,), np=2))
""")
    done = python("-m", "colla.aliases", "horovod", script)
    assert done.returncode == 0 and "results [0.5, 1.0]" in done.stdout, done.stdout + done.stderr


def test_an_installed_one_comes_first(tmp_path):
    (tmp_path / "horovod").mkdir()
    (tmp_path / "horovod" / "__init__.py").write_text("mine = 'their own'")
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.customized = 'yes'")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    show = "import horovod; print(horovod.mine, customized)"
    done = python("-m", "colla.aliases", "horovod", "-c", show, PYTHONPATH=path)
    assert (done.returncode, done.stdout) == (0, "their own yes\n"), done.stderr
    assert done.stderr.startswith("colla: horovod is installed: import horovod means") and done.stderr.count("\n") == 1


def test_a_sitecustomize_of_the_user_still_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.customized = 'yes'")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    show = "import sitecustomize, sys; print(customized, sitecustomize.__file__, 'colla' in sys.modules)"
    done = python("-m", "colla.aliases", "horovod", "-c", show, PYTHONPATH=path)
    assert done.stdout == f"yes {tmp_path / 'sitecustomize.py'} False\n", done.stderr


def test_unknown_systems_are_refused():
    done = python("-m", "colla.aliases", "vertical", "script.py")
    assert done.returncode == 2
    assert done.stderr == (
        "colla: usage: python -m colla.aliases horovod or parallax or tensorflowonspark SCRIPT [ARGUMENTS]\n"
    )
