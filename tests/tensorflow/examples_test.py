"""The programs in examples/tensorflow, as their first lines say they are started, on little data."""

import os
import subprocess

import numpy as np
import pytest
from conftest import COLLA, ROOT

RESNET = ROOT / "examples" / "tensorflow" / "resnet"


@pytest.fixture
def cifar10(tmp_path):
    """Eight samples in the format of CIFAR-10's files."""
    random = np.random.RandomState(0)
    samples = random.randint(0, 256, (8, 3073)).astype(np.uint8)
    samples[:, 0] %= 10
    samples.tofile(tmp_path / "data_batch_1.bin")
    return tmp_path


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, env=os.environ)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_resnet(python, cifar10):
    flags = ["--epochs", "1", "--batch_size", "2", "--data", cifar10]
    launch = [COLLA, "horovodrun", "-np", "2", "--gloo", python, RESNET / "horovod.py", *flags]
    assert "2 workers, loss " in run(launch, cifar10)
    assert (cifar10 / "checkpoint-1.keras").exists()


def test_resnet_on_devices_of_one_process(python, cifar10):
    flags = ["--epochs", "1", "--batch_size", "4", "--n_gpus", "2", "--data", cifar10]
    assert "2 replicas, loss " in run([python, RESNET / "mirrored.py", *flags], cifar10)
