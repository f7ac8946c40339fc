"""The programs in examples/tensorflow, as their first lines say they are started, on little data."""

import json
import os
import random
import subprocess

import numpy as np
import pytest
from conftest import COLLA, ROOT

RESNET = ROOT / "examples" / "tensorflow" / "resnet"
DEEPFAM = ROOT / "examples" / "tensorflow" / "deepfam"


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


# Prints the values of checkpoints in hexadecimal digits, by name.
READ = """
import json, sys, tensorflow as tf
checkpoints = {}
for path in sys.argv[1:]:
    reader = tf.train.load_checkpoint(path)
    names = reader.get_variable_to_shape_map()
    checkpoints[path] = {name: reader.get_tensor(name).tobytes().hex() for name in names}
print(json.dumps(checkpoints))
"""


def test_deepfam_in_three_systems(python, tmp_path):
    """200 steps: TensorFlow's servers, Horovod's collectives and Parallax give the same checkpoints in every bit."""
    letters = random.Random(1)
    lines = ["".join(letters.choices("ACDEFGHIKLMNPQRSTVWYX", k=letters.randint(30, 60))) for _ in range(70)]
    (tmp_path / "data.tsv").write_text("".join(f"{i % 4}\t{line}\n" for i, line in enumerate(lines)))
    (tmp_path / "resource_info").write_text("localhost: 0,1\n")
    sizes = ["--batch", "8", "--length", "50", "--windows", "4,6", "--filters", "4", "--hidden", "8"]
    flags = ["--data", "data.tsv", *sizes]
    run([COLLA, "horovodrun", "-np", "2", "-H", "localhost:2", python, DEEPFAM / "run_horovod.py", *flags], tmp_path)
    run([python, DEEPFAM / "run_parallax.py", "--resource_info", "resource_info", *flags], tmp_path)
    port = 20000 + os.getpid() % 20000
    lists = ["--ps_hosts", f"localhost:{port}", "--worker_hosts", f"localhost:{port + 1},localhost:{port + 2}"]
    processes = [
        subprocess.Popen(
            [python, DEEPFAM / "run_tf.py", *lists, "--job_name", job, "--task_index", str(task), *flags],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        for job, task in (("ps", 0), ("worker", 0), ("worker", 1))
    ]
    try:
        errors = [process.communicate(timeout=240)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0, 0, 0], "".join(errors)[-4000:]

    paths = [f"{system}_ckpt/model.ckpt-{step}" for system in ("tf", "horovod", "parallax") for step in (0, 100, 200)]
    found = json.loads(run([python, "-c", READ, *paths], tmp_path).splitlines()[-1])
    for step in (0, 100, 200):
        ours, horovod, parallax = (found[f"{system}_ckpt/model.ckpt-{step}"] for system in ("tf", "horovod", "parallax"))
        assert ours.keys() == horovod.keys() == parallax.keys()
        different = [name for name in ours if not ours[name] == horovod[name] == parallax[name]]
        assert not different, (step, different)
    assert found["tf_ckpt/model.ckpt-100"] != found["tf_ckpt/model.ckpt-200"]
    logs = {(tmp_path / f"{system}_ckpt" / "log.txt").read_text() for system in ("tf", "horovod", "parallax")}
    assert len(logs) == 1 and logs.pop().count("accuracy") == 200
