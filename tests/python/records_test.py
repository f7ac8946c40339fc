"""TFRecord files and tf.Examples by colla._records; tests/tensorflow compares them with TensorFlow's."""

import array
import subprocess
import sys

import numpy as np
import pytest

from colla import _records


def test_records_come_back(tmp_path):
    records = [b"first", b"", bytes(range(256)) * 1000, bytearray(b"last")]
    assert _records.write_records(tmp_path / "x.tfrecord", iter(records)) == 4
    assert list(_records.read_records(tmp_path / "x.tfrecord")) == [bytes(one) for one in records]
    assert _records.write_records(str(tmp_path / "none"), []) == 0
    assert list(_records.read_records(str(tmp_path / "none"))) == []


def test_the_format_is_tensorflows(tmp_path):
    _records.write_records(tmp_path / "x", [b"hello"])
    assert (tmp_path / "x").read_bytes() == b"\x05\0\0\0\0\0\0\0\xea\xb2\x04\x3ehello\xbb\x1f\x1c\x19"


def test_damage_names_the_file_and_the_record(tmp_path):
    file = tmp_path / "x.tfrecord"
    _records.write_records(file, [b"hello", b"world"])
    whole = file.read_bytes()

    def error(contents):
        file.write_bytes(contents)
        read = _records.read_records(file)
        seen = []
        with pytest.raises(OSError) as raised:
            for record in read:
                seen.append(record)
        with pytest.raises(OSError, match="record"):  # It does not go on behind the damage.
            next(read)
        message = str(raised.value)
        assert message.startswith(f"{file}: record {len(seen)}: "), message
        return message.removeprefix(f"{file}: ")

    flipped = bytearray(whole)
    flipped[21 + 13] ^= 1
    assert error(flipped) == "record 1: its data is damaged (CRC)"
    flipped = bytearray(whole)
    flipped[21 + 3] ^= 1
    assert error(flipped) == "record 1: its length is damaged (CRC)"
    assert "no TFRecord file" in error(b"PK\3\4 something else")
    for size in range(1, len(whole)):
        if size != 21:
            assert error(whole[:size]) == f"record {size // 21}: the file ends inside of it"
    with pytest.raises(FileNotFoundError, match="nowhere"):
        _records.read_records(tmp_path / "nowhere")
    with pytest.raises(OSError, match=str(tmp_path)):
        _records.read_records(tmp_path)


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    def some():
        yield b"one"
        assert not (tmp_path / "x").exists()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        _records.write_records(tmp_path / "x", some())
    with pytest.raises(TypeError, match="record 1 of .* is of type str, not bytes"):
        _records.write_records(tmp_path / "x", [b"one", "two"])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="cannot write /none/x"):
        _records.write_records("/none/x", [])


def test_examples_come_back():
    features = {
        "image": ("bytes", [b"abc", b""]),
        "number": ("int64", [-1, 1 << 40, -(1 << 63), (1 << 63) - 1]),
        "share": ("float", [0.5, -2.0, float("inf")]),
        "é": ("bytes", []),
        "no floats": ("float", []),
        "no numbers": ("int64", []),
    }
    assert _records.decode_example(_records.encode_example(features)) == features
    assert _records.encode_example({}) == b"" and _records.decode_example(b"") == {}
    assert _records.encode_example(features) == _records.encode_example(dict(reversed(features.items())))


def test_values_of_every_kind_of_sequence():
    as_lists = {"f": ("float", [1.0, 2.0, 3.0]), "i": ("int64", [1, 2, 3]), "b": ("bytes", [b"x"])}
    expected = _records.encode_example(as_lists)
    for make in (tuple, lambda values: array.array("f" if isinstance(values[0], float) else "q", values), np.array):
        for kind in (np.float32, np.float64):
            other = {"f": ("float", make(as_lists["f"][1])), "i": ("int64", make([1, 2, 3])), "b": ["bytes", (bytearray(b"x"),)]}
            assert _records.encode_example(other) == expected
            strided = np.arange(7, dtype=kind)[1::2] / 2 + 0.5
            assert _records.encode_example(as_lists | {"f": ("float", strided)}) == expected
    for kind in (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64):
        assert _records.encode_example(as_lists | {"i": ("int64", np.array([1, 2, 3], kind))}) == expected
    assert _records.decode_example(_records.encode_example({"i": ("int64", [True, np.int64(2)])})) == {"i": ("int64", [1, 2])}
    assert _records.decode_example(_records.encode_example({"f": ("float", [1, np.float32(0.1)])})) == {
        "f": ("float", [1.0, float(np.float32(0.1))])
    }


@pytest.mark.parametrize(
    ("features", "kind", "message"),
    [
        ({"x": ("float", ["a"])}, TypeError, "value 0 of feature x is of type str, not float"),
        ({"x": ("int64", [1, 2.0])}, TypeError, "value 1 of feature x is of type float, not int64"),
        ({"x": ("int64", np.array([1.5]))}, TypeError, "value 0 of feature x is of type numpy.float64, not int64"),
        ({"x": ("int64", [1 << 63])}, ValueError, "value 0 of feature x does not fit into int64"),
        ({"x": ("bytes", ["a"])}, TypeError, "value 0 of feature x is of type str, not bytes"),
        ({"x": ("bytes", b"a")}, TypeError, "the values of feature x are one bytes, not a list"),
        ({"x": ("float", 1.0)}, TypeError, "the values of feature x are of type float, not a list"),
        ({"x": ("float", np.ones([2, 2]))}, ValueError, "the values of feature x have 2 dimensions, not one"),
        ({"x": ("double", [1.0])}, ValueError, 'feature x is of the kind "double"; there are "bytes", "float" and "int64"'),
        ({"x": [1.0]}, TypeError, "feature x is not a pair"),
        ({"x": 1.0}, TypeError, "feature x is not a pair"),
        ({1: ("float", [1.0])}, TypeError, "a feature's name is of type int, not str"),
        ([1], TypeError, "the features are of type list, not a dict"),
    ],
)
def test_what_no_example_can_hold(features, kind, message):
    with pytest.raises(kind) as raised:
        _records.encode_example(features)
    assert str(raised.value).startswith(message)


def test_bytes_that_are_no_example():
    whole = _records.encode_example({"a": ("int64", [1, 2, 3]), "b": ("bytes", [b"x"])})
    for size in range(1, len(whole)):
        with pytest.raises(ValueError, match=r"is no tf\.Example"):
            _records.decode_example(whole[:size])
    with pytest.raises(ValueError, match="not UTF-8"):
        _records.decode_example(whole.replace(b"\x01a", b"\x01\xff"))
    with pytest.raises(TypeError, match="not of type str"):
        _records.decode_example("text")


def test_memory_stays(tmp_path):
    """Ten passes over a file of 20 MB, as examples, take no more memory than one."""
    program = """
import resource, sys
from colla import _records
def passes(count):
    for _ in range(count):
        for record in _records.read_records(sys.argv[1]):
            _records.encode_example(_records.decode_example(record))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
first = passes(2)
assert passes(8) - first < 4096, "kB"
"""
    example = _records.encode_example({"x": ("float", [0.5] * 5000), "name": ("bytes", [b"y" * 1000])})
    _records.write_records(tmp_path / "x", [example] * 200)
    subprocess.run([sys.executable, "-c", program, tmp_path / "x"], check=True, timeout=120)
