"""The same model (an MLP with given first weights, SGD, two ranks) in C++, PyTorch and TensorFlow: after 20 steps the weights
agree within 1e-5, relative. All three read the same samples in the same order, and start from C++'s checkpoint of step 0."""

import subprocess
import sys

import numpy as np
import pytest
from conftest import COLLA, RANKS
from safetensors.numpy import load_file

STEPS, BATCH = 20, 32


@pytest.fixture
def data(tmp_path):
    """A folder with images and labels as MNIST's files have them."""
    random = np.random.RandomState(5)
    folder = tmp_path / "data"
    folder.mkdir()
    for part, count in (("train", STEPS * BATCH), ("t10k", 20)):
        labels = random.randint(0, 10, count).astype(np.uint8)
        images = (random.randint(0, 128, (count, 28, 28)) + 12 * labels[:, None, None]).astype(np.uint8)
        shape = np.array([2051, count, 28, 28], ">u4").tobytes()
        (folder / f"{part}-images-idx3-ubyte").write_bytes(shape + images.tobytes())
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(np.array([2049, count], ">u4").tobytes() + labels.tobytes())
    return folder


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, **options)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def weights(folder, step):
    """With PyTorch's names and shapes."""
    tensors = load_file(folder / f"step-{step:08d}" / "model.safetensors")
    return dict(as_pytorch(name, value) for name, value in tensors.items())


def as_pytorch(name, value):
    """Keras calls it sequential/fc1/kernel, and keeps kernels the other way round."""
    if "/" not in name:
        return name, value
    layer, part = name.split("/")[-2:]
    return f"{layer}.{'weight' if part == 'kernel' else part}", value.T


def test_the_same_in_three_languages(python, environment, data, tmp_path):
    cpp = tmp_path / "cpp"
    run(
        *(COLLA, "train", "mlp", "--hidden", "16", "--data", f"mnist:{data}", "--no-shuffle", "--batch", str(BATCH)),
        *("--np", "2", "--strategy", "allreduce", "--steps", str(STEPS), "--lr", "0.1", "--no-eval", "--checkpoint-dir", cpp),
    )
    first, last = (weights(cpp / "checkpoints", step) for step in (0, STEPS))
    for interpreter, script in ((sys.executable, "same_torch.py"), (python, "same_tensorflow.py")):
        out = tmp_path / script
        run(
            *(COLLA, "run", "-np", "2", "--timeout", "150", "--", interpreter, RANKS / script),
            *(data, cpp / "checkpoints" / "step-00000000", out, str(STEPS), str(BATCH)),
            env=environment,
        )
        theirs = weights(out, STEPS)
        assert theirs.keys() == last.keys()
        for name, value in last.items():
            moved = np.abs(value - first[name]).max()
            assert moved > 1e-3, f"{name} was not trained"
            difference = np.abs(theirs[name] - value).max() / np.abs(value).max()
            assert difference < 1e-5, f"{script}: {name} is {difference} away"
