"""Arrays of any framework: what `colla._core` takes, what it gives, and what it refuses."""

import array

import numpy
import pytest
import torch

import colla
from colla import _core
from colla._core import Kind

TYPES = [
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.bool,
]


class Lent:
    """A tensor that is known by its ``__dlpack__()`` alone, as other frameworks' are."""

    def __init__(self, tensor, legacy=False):
        self.tensor = tensor
        if legacy:
            self.__class__ = OldLent

    def __dlpack__(self, max_version=None):
        return self.tensor.__dlpack__(max_version=max_version)


class OldLent(Lent):
    """From the time before DLPack had versions."""

    def __dlpack__(self):
        return self.tensor.__dlpack__()


@pytest.fixture(scope="module")
def exchange():
    """Of a job of one."""
    world = colla.World()
    yield world.exchange
    world.close()


def gathered(exchange, value):
    """What comes back is a new array."""
    handle = exchange.submit(Kind.ALLGATHER, None, [value], [], 0, lambda results, _: results[0])
    return exchange.synchronize(handle)


def reduced(exchange, value, result):
    handle = exchange.submit(Kind.ALLREDUCE, None, [value], [result], 0, lambda results, _: results[0])
    return exchange.synchronize(handle)


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(3, 2), (0, 4), (1,)], ids=str)
@pytest.mark.parametrize("lend", [lambda t: t, Lent, lambda t: Lent(t, legacy=True)], ids=["C", "dlpack", "legacy"])
def test_tensors(exchange, kind, shape, lend):
    tensor = (torch.arange(6) % 2).to(kind).repeat(4)[: torch.Size(shape).numel()].reshape(shape)
    back = gathered(exchange, lend(tensor))
    assert back.shape == shape and f"torch.{back.dtype}" == str(kind)
    assert torch.equal(torch.from_dlpack(back), tensor)
    result = torch.empty_like(tensor)
    assert reduced(exchange, tensor, result) is result and torch.equal(result, tensor)


@pytest.mark.parametrize("kind", ["u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "?"])
def test_numpy(exchange, kind):
    values = (numpy.arange(6) % 2).astype(kind).reshape(2, 3)
    back = gathered(exchange, values)
    for copy in (numpy.asarray(back), numpy.from_dlpack(back)):
        assert copy.dtype == values.dtype and numpy.array_equal(copy, values) and copy.flags.writeable
    result = numpy.empty_like(values)
    assert reduced(exchange, values, result) is result and numpy.array_equal(result, values)


def test_plain_python(exchange):
    assert bytes(memoryview(gathered(exchange, b"read only"))) == b"read only"
    result = bytearray(3)
    reduced(exchange, b"abc", result)
    assert result == b"abc"
    assert memoryview(gathered(exchange, array.array("d", [1.5, 2.5]))).tolist() == [1.5, 2.5]


def test_a_number_is_an_array_without_dimensions(exchange):
    result = torch.zeros(())
    assert reduced(exchange, torch.tensor(7.0), result).item() == 7


def test_an_array_outlives_what_it_came_from(exchange):
    tensor = torch.from_dlpack(gathered(exchange, torch.arange(100_000)))
    view = numpy.asarray(gathered(exchange, torch.arange(100_000)))
    assert tensor.sum() == view.sum() == 4_999_950_000


def test_bfloat16_needs_dlpack(exchange):
    back = gathered(exchange, torch.ones(2, dtype=torch.bfloat16))
    with pytest.raises(BufferError):
        memoryview(back)


def test_an_array_that_nobody_takes_over_is_freed(exchange):
    back = gathered(exchange, torch.ones(4))
    back.__dlpack__(max_version=(1, 0))  # The capsules die without a consumer.
    back.__dlpack__()
    with pytest.raises(BufferError):
        back.__dlpack__(copy=True)
    with pytest.raises(BufferError):
        back.__dlpack__(dl_device=(2, 0))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (torch.ones(4, 4).t(), "must be a contiguous tensor in this machine's memory"),
        (numpy.ones((4, 4))[:, 1], "must be a contiguous tensor in this machine's memory"),
        (torch.ones(2, dtype=torch.complex64), "allgather.x is of type complex64, which Colla does not move"),
        (numpy.ones(2, dtype="u4"), "which Colla does not move"),
        ([1, 2], "a list, which offers neither DLPack nor the buffer protocol"),
    ],
    ids=["gaps", "numpy gaps", "complex", "unsigned", "list"],
)
def test_refuses(exchange, value, says):
    with pytest.raises(ValueError, match=says):
        exchange.submit(Kind.ALLGATHER, "x", [value], [], 0, lambda results, _: results)


def test_refuses_results_that_do_not_fit(exchange):
    with pytest.raises(ValueError, match="read-only"):
        reduced(exchange, b"abc", b"abc")
    fixed = numpy.zeros(3, dtype="u1")
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        reduced(exchange, b"abc", fixed)
    with pytest.raises(ValueError, match=r"has the shape \[3\], but the array for it has \[4\]"):
        reduced(exchange, b"abc", bytearray(4))
    with pytest.raises(ValueError, match="of float32, but the array for it is of float64"):
        reduced(exchange, torch.ones(3), torch.ones(3, dtype=torch.float64))


def test_checkpoints_take_any_array(tmp_path):
    manifest = _core.Manifest()
    manifest.step = 3
    values = {"a": numpy.arange(6, dtype="f4").reshape(2, 3), "b": torch.ones(2, dtype=torch.bfloat16)}
    _core.save_checkpoint(str(tmp_path), manifest, list(values.items()), [("c", b"bytes")], [], 0)
    loaded = _core.load_checkpoint(str(tmp_path))
    model = dict(loaded.model)
    assert numpy.array_equal(numpy.asarray(model["a"]), values["a"])
    assert torch.equal(torch.from_dlpack(model["b"]), values["b"])
    assert bytes(memoryview(model["c"])) == b"bytes"
    with pytest.raises(ValueError, match="complex64, which Colla does not move"):
        _core.save_checkpoint(str(tmp_path), manifest, [("d", torch.ones(2, dtype=torch.complex64))], [], [], 0)
