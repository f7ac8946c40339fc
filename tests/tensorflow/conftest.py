"""What the tests of colla.tensorflow share: a Python with TensorFlow, in a cache, and jobs of real processes."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
COLLA = ROOT / "build" / "bin" / "colla"
RANKS = pathlib.Path(__file__).parent / "ranks"

sys.path.insert(0, str(ROOT / "bench" / "peers"))
import environments  # noqa: E402


@pytest.fixture(scope="session")
def python():
    """The extension module is for the Python that these tests run in, so the environment is made of the same."""
    os.environ.setdefault("COLLA_PEER_PYTHON", sys.executable)
    made = environments.python_of("tf", make=True)
    version = "import sys; print(sys.version_info[:2])"
    there = subprocess.run([made, "-c", version], capture_output=True, text=True, check=True).stdout.strip()
    assert there == str(sys.version_info[:2]), f"{made} is Python {there}: remove that environment"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # The kernels are compiled here, once, and not by the first job.
    subprocess.run([made, "-c", "import colla.tensorflow"], check=True, timeout=300)
    return made


@pytest.fixture
def environment():
    """Variables of a process that runs a script of `ranks`."""
    path = os.pathsep.join([os.environ["PYTHONPATH"], str(ROOT / "tests" / "python" / "ranks")])
    return os.environ | {"PYTHONPATH": path}


@pytest.fixture
def run_ranks(python, environment):
    """Runs a script of the folder `ranks` as a job of `np` workers and `ps` servers, and returns the finished process. The job ends by
    itself after `timeout` seconds."""

    def run(script, np=2, *, ps=0, arguments=(), timeout=150, **variables):
        launch = [COLLA, "run", "-np", str(np), "--ps", str(ps), "--timeout", str(timeout), "--"]
        return subprocess.run(
            [*launch, python, RANKS / script, *arguments],
            capture_output=True,
            text=True,
            timeout=timeout + 30,
            env=environment | variables,
        )

    return run
