"""What ranks do with colla.tensorflow; each script of the folder `ranks` does all checks of one kind."""

import subprocess

import pytest
from conftest import COLLA, RANKS


def succeeded(done):
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]


@pytest.mark.parametrize("np", [2, 3])
def test_operations(run_ranks, np):
    succeeded(run_ranks("operations.py", np))


def test_alone(python, environment):
    """Without a launcher it is a job of one; the same checks hold."""
    succeeded(
        subprocess.run([python, RANKS / "operations.py"], capture_output=True, text=True, timeout=120, env=environment)
    )


def test_graphs_of_tensorflow_1(run_ranks, tmp_path):
    succeeded(run_ranks("graph.py", arguments=[tmp_path]))


def test_training(run_ranks, tmp_path):
    succeeded(run_ranks("training.py", arguments=[tmp_path]))
    # What goes on from a checkpoint ends with the same bits, and the command reads what TensorFlow wrote.
    same = subprocess.run([COLLA, "compare", tmp_path / "net", tmp_path / "net-again"], capture_output=True, text=True)
    assert same.returncode == 0, same.stdout + same.stderr
    other = subprocess.run(
        [COLLA, "compare", f"{tmp_path / 'net'}@2", f"{tmp_path / 'net'}@4"], capture_output=True, text=True
    )
    assert other.returncode == 1, other.stdout + other.stderr
    inspected = subprocess.run([COLLA, "inspect", tmp_path / "net"], capture_output=True, text=True, check=True)
    assert "kernel" in inspected.stdout and "momentum" in inspected.stdout


@pytest.mark.parametrize("which", ["keras 3", "keras 3 by its own name", "tf-keras"])
def test_keras(run_ranks, tmp_path, which):
    arguments = [tmp_path, "keras"] if "name" in which else [tmp_path]
    succeeded(run_ranks("keras_fit.py", arguments=arguments, TF_USE_LEGACY_KERAS=str(int(which == "tf-keras"))))


@pytest.mark.parametrize("servers", [1, 2])
def test_strategies(run_ranks, servers):
    only = [] if servers == 1 else ["check_bits", "check_asynchronous_servers_train"]
    succeeded(run_ranks("strategies.py", ps=servers, arguments=only))


def test_strategies_with_tf_keras(run_ranks):
    succeeded(run_ranks("strategies.py", ps=1, arguments=["check_fit"], TF_USE_LEGACY_KERAS="1"))
