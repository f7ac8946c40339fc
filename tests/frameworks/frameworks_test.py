"""Programs that frameworks start and run: with the backend colla they end with Gloo's weights.

`./test --frameworks` runs this. The frameworks are in an environment of their own (bench/peers/environments.py).
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).parents[2]
PROGRAMS = pathlib.Path(__file__).parent / "programs"
SECONDS = 180  # For one program, which takes 10 to 25 s on a quiet machine.

sys.path.insert(0, str(ROOT / "bench" / "peers"))
import environments  # noqa: E402


@pytest.fixture(scope="session")
def python(tmp_path_factory):
    # The extension modules are for this Python and this build of torch: pip takes no other, such as one with CUDA.
    constraint = tmp_path_factory.mktemp("pip") / "constraint.txt"
    constraint.write_text(f"torch=={torch.__version__}\n")
    os.environ["PIP_CONSTRAINT"] = " ".join([str(constraint), *os.environ.get("PIP_CONSTRAINT", "").split()])
    os.environ.setdefault("COLLA_PEER_PYTHON", sys.executable)
    made = environments.python_of("frameworks", make=True)
    # Spark's workers do not look beside the program for net.py.
    os.environ["PYTHONPATH"] = os.pathsep.join([os.environ["PYTHONPATH"], str(PROGRAMS)])
    version = "from importlib.metadata import version; print(version('torch'))"
    there = subprocess.run([made, "-c", version], capture_output=True, text=True, check=True).stdout.strip()
    assert there == torch.__version__, f"{made} has torch {there}, not {torch.__version__}: remove that environment"
    return made


def run(command, **variables):
    """The program's output. It and all that it started end after SECONDS."""
    variables |= {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1", "PYSPARK_PYTHON": command[0]}
    with subprocess.Popen(
        command,
        cwd=PROGRAMS,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            pytest.fail(f"{command} did not end within {SECONDS} s: {output[-4000:]}")
    assert process.returncode == 0, output[-6000:]
    return output


@pytest.mark.parametrize(
    ("program", "launcher", "more"),
    [
        ("use_lightning.py", [], []),
        ("use_accelerate.py", ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"], []),
        ("use_transformers.py", ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"], []),
        ("use_ray.py", [], []),
        ("use_spark.py", [], ["local"]),
        ("use_spark.py", [], ["tasks"]),
    ],
)
def test_the_weights_are_gloos(python, program, launcher, more, tmp_path):
    if program == "use_spark.py" and shutil.which("java") is None:
        pytest.skip("no Java here")
    weights = []
    for backend in ("colla", "gloo"):
        run([python, *launcher, program, *more], TEST_BACKEND=backend, TEST_FILE=str(tmp_path / backend))
        weights += [torch.load(tmp_path / f"{backend}.{rank}") for rank in range(2)]
    # A sum of two has the same bits in any order.
    for other in weights[1:]:
        for name, value in weights[0].items():
            assert torch.equal(value, other[name]), name


def test_run_with_cloudpickle(python, tmp_path):
    """colla.run() sends what pickle can't, and what is in a main script that starts the job as it is read."""
    script = tmp_path / "script.py"
    script.write_text("""
import colla

class Result:
    def __init__(self, value):
        self.value = value

rate = 3
def work(number):
    return Result(number * rate + colla.World().job.rank)

print([one.value for one in colla.run(work, (2,), np=2)], colla.run(lambda: rate, np=2))
""")
    assert "[6, 7] [3, 3]" in run([python, script])
