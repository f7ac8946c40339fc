"""`colla compare` and `colla inspect` on what TensorFlow and Keras write."""

import json
import math
import subprocess

import pytest
from conftest import COLLA, RANKS


def colla(*arguments):
    return subprocess.run([COLLA, *arguments], capture_output=True, text=True, timeout=60)


def inspect(path):
    done = colla("inspect", path, "--json")
    assert done.returncode == 0, done.stderr
    return {tensor["name"]: tensor for tensor in json.loads(done.stdout)["tensors"]}


@pytest.fixture(scope="session")
def files(python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    done = subprocess.run([python, RANKS / "checkpoints.py", folder], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


def norm(values):
    return pytest.approx(math.sqrt(sum(value * value for value in values)))


def test_a_saver(files):
    tensors = inspect(files / "a" / "model.ckpt-100")
    assert tensors["dense/kernel"] | {"norm": norm(range(12))} == tensors["dense/kernel"]
    assert tensors["dense/kernel"]["type"] == "float32" and tensors["dense/kernel"]["shape"] == [3, 4]
    assert tensors["table0"]["shape"] == [200, 7] and tensors["table0"]["norm"] == norm(range(1400))
    assert tensors["table1"]["shape"] == [200, 7] and tensors["table1"]["norm"] == norm([1] * 1400)
    types = {name.removeprefix("types/"): tensor for name, tensor in tensors.items() if name.startswith("types/")}
    assert len(types) == 15
    for name, tensor in types.items():
        assert tensor["type"] == name
        assert tensor["shape"] == ([3, 2] if "complex" in name else [3])
        assert tensor["norm"] == norm([0, 1, 1] if name == "bool" else [0, 1, 3])
    assert tensors["text"]["type"] == "string"
    assert tensors["global_step"]["type"] == "int64"


def test_compare_savers(files):
    done = colla("compare", "--values", files / "a" / "model.ckpt-100", files / "b" / "model.ckpt-100")
    assert done.returncode == 1, done.stderr
    assert "\ndense/kernel[1, 2]: 6 in A, 6.5 in B\n" in done.stdout
    assert "\ntable0[0, 4]: 4 in A, 4.5 in B\ntable0: 1395 more\n" in done.stdout
    assert done.stdout.endswith("\ndifferent: 2 of 20 tensors; largest difference 0.5 in dense/kernel\n"), done.stdout
    assert colla("compare", files / "a", files / "a" / "model.ckpt-100.index").returncode == 0
    one = colla("compare", "--values=1", files / "a" / "model.ckpt-100", files / "b" / "model.ckpt-100").stdout
    assert "\ntable0[0, 0]: 0 in A, 0.5 in B\ntable0: 1399 more\n" in one


def test_objects(files):
    tensors = inspect(files / "a" / "objects")
    assert tensors["w/.ATTRIBUTES/VARIABLE_VALUE"]["norm"] == norm([1, 2])
    assert tensors["n/.ATTRIBUTES/VARIABLE_VALUE"]["elements"] == 4
    done = colla("compare", files / "a" / "objects", files / "b" / "objects", "--values")
    assert "w/.ATTRIBUTES/VARIABLE_VALUE[1]: 2 in A, 2.5 in B\n" in done.stdout


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("model.weights.h5", "layers/dense/vars/0"),
        ("model.keras", "layers/dense/vars/0"),
        ("model.h5", "model_weights/dense/sequential/dense/kernel"),
        ("half.weights.h5", "layers/dense/vars/0"),
    ],
)
def test_keras(files, name, kernel):
    tensors = inspect(files / "a" / name)
    assert kernel in tensors, list(tensors)
    assert tensors[kernel]["shape"] == [4, 3] and tensors[kernel]["norm"] == norm([1] * 12)
    assert colla("compare", files / "a" / name, files / "a" / name).returncode == 0
    done = colla("compare", files / "a" / name, files / "b" / name, "--values")
    assert done.returncode == 1 and f"\n{kernel}[0, 0]: 1 in A, 1.5 in B\n" in done.stdout, done.stdout
    if name == "half.weights.h5":
        assert tensors[kernel]["type"] == "bfloat16"


@pytest.mark.parametrize(
    "name",
    ["model.ckpt-100.index", "model.ckpt-100.data-00000-of-00001", "model.weights.h5", "model.keras", "model.h5"],
)
def test_damage_is_one_line(files, tmp_path, name):
    """Cut off at any place, no file is taken for a whole one or ends the command otherwise than by a line."""
    for part in ("model.ckpt-100.index", "model.ckpt-100.data-00000-of-00001", name):
        (tmp_path / part).write_bytes((files / "a" / part).read_bytes())
    whole = (tmp_path / name).read_bytes()
    for size in (0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        (tmp_path / name).write_bytes(whole[:size])
        path = tmp_path / (name.split(".index")[0].split(".data")[0])
        done = colla("inspect", path)
        assert done.returncode == 1 and done.stdout == "", (size, done)
        assert len(done.stderr.splitlines()) == 1 and str(path) in done.stderr, done.stderr
        assert colla("compare", path, files / "a" / name).returncode == 2
