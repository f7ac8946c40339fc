"""TFRecord files and the tf.Examples in them, without TensorFlow: Colla's C++ reader and writer do the work."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from colla import _core


def write_records(path: str | os.PathLike[str], records: Iterable[bytes | bytearray]) -> int:
    """Writes a TFRecord file and returns how many records it has.

    The file gets its name when it is complete and on the disk: until then, and if `records` raises, there is only
    `path` with ``.unfinished`` behind it, which an exception removes.

    Raises:
        TypeError: a record is not bytes; the message has its number.
        OSError: the file cannot be written.
    """
    return _core.write_records(os.fspath(path), records)


def read_records(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """The records of a TFRecord file, in order. The file is read as the iterator advances, and may have no record.

    Raises:
        FileNotFoundError: there is no such file; raised here, not by the iterator.
        OSError: the file is damaged, cut off or not a TFRecord file; raised when the iterator comes to that place. The
            message has the file and the number of the record, counted from 0.
    """
    return _core.RecordReader(os.fspath(path))


def encode_example(features: Mapping[str, tuple[str, Any]]) -> bytes:
    """The bytes of a tf.Example, with its features sorted by name, so that the same features give the same bytes.

    Args:
        features: Of each name the kind, ``"bytes"``, ``"float"`` or ``"int64"``, and the values: a list, a tuple or,
            which is fastest for numbers, an array with the buffer protocol in one dimension. Values of ``"bytes"`` are
            bytes or bytearrays. A list without values keeps its kind.

    Raises:
        TypeError: a value is not of its feature's kind.
        ValueError: a kind is unknown, or an integer does not fit into 64 bits.
    """
    return _core.encode_example(features)


def decode_example(example: bytes | bytearray) -> dict[str, tuple[str, list[Any]]]:
    """The features of a tf.Example, as ``encode_example()`` takes them, with their values in lists.

    Floats were rounded to 32 bits by the one who wrote them. A feature for which no kind was written, which has no
    values either, is ``("bytes", [])``.

    Raises:
        ValueError: these bytes are not a tf.Example.
    """
    return _core.decode_example(example)
