"""Rows of an RDD as batches of Arrow, and back.

A batch has a column for each element of its rows where all of them have the same shape, as tuples of numbers, texts,
lists of numbers and NumPy arrays do. Rows of any other kind travel as one pickle of the whole batch. What comes out
is of the types that went in, except that the numbers of one list become of one type.
"""

import json
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

_KEY = b"colla"
_TYPES = {float: pa.float64(), int: pa.int64(), bool: pa.bool_(), str: pa.string(), bytes: pa.binary()}


class _Irregular(Exception):
    """These rows have no common shape."""


def encode(rows: Sequence[Any]) -> pa.RecordBatch:
    """At least one row, as a batch."""
    try:
        shape, names, columns = _split(rows)
        made = [_encode_column(column) for column in columns]
    except (_Irregular, pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError):
        shape, names, made = "pickle", None, [(pa.array([pickle.dumps(list(rows), 5)], pa.large_binary()), {})]
    note = {"shape": shape, "names": names, "columns": [kind for _, kind in made]}
    arrays = [array for array, _ in made]
    fields = [pa.field(str(i), array.type) for i, array in enumerate(arrays)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, {_KEY: json.dumps(note).encode()}))


def _split(rows: Sequence[Any]) -> tuple[str, list[str] | None, list[Sequence[Any]]]:
    """The rows' shape, names of their elements if they have some, and the columns."""
    first = rows[0]
    kind = type(first)
    if any(type(row) is not kind for row in rows):
        raise _Irregular
    names = None
    if isinstance(first, tuple) and kind is not tuple:
        names = getattr(first, "__fields__", None)  # A Row of Spark's.
        if names is None or any(row.__fields__ != names for row in rows):
            raise _Irregular
    elif kind is not tuple and not (kind is list and any(isinstance(value, (list, np.ndarray, str)) for value in first)):
        return "value", None, [rows]
    if not first or any(len(row) != len(first) for row in rows):
        raise _Irregular
    shape = "row" if names is not None else kind.__name__
    return shape, names, list(zip(*rows))


def _encode_column(values: Sequence[Any]) -> tuple[pa.Array, dict[str, Any]]:
    kind = type(values[0])
    if any(type(value) is not kind for value in values):
        raise _Irregular
    if kind in _TYPES:
        return pa.array(values, _TYPES[kind]), {}
    if kind is list:
        element = next((type(value[0]) for value in values if value), None)
        if element not in (float, int, str):
            raise _Irregular
        # Told to make whole numbers, Arrow would cut off what is behind the point.
        array = pa.array(values, None if element is int else pa.list_(_TYPES[element]))
        if array.type not in (pa.list_(pa.int64()), pa.list_(pa.float64()), pa.list_(pa.string())):
            raise _Irregular
        return array, {}
    if kind is np.ndarray or issubclass(kind, np.generic):
        first = values[0]
        if first.dtype.hasobject or any(v.dtype != first.dtype or v.shape != first.shape for v in values):
            raise _Irregular
        content = np.ascontiguousarray(np.stack(values))
        width = content.nbytes // len(values)
        if width == 0:
            raise _Irregular
        array = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(values), [None, pa.py_buffer(content)])
        return array, {"dtype": content.dtype.str, "shape": list(first.shape), "scalar": kind is not np.ndarray}
    raise _Irregular


class Batch:
    """What `encode()` made, or a batch of a DataFrame, on the side that reads it."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        note = json.loads((batch.schema.metadata or {}).get(_KEY, b"null"))
        self._batch = batch
        self._names = note["names"] if note else batch.schema.names
        self._shape = note["shape"] if note else "row"
        self._notes = note["columns"] if note else [{} for _ in batch.schema.names]
        self._pickled = pickle.loads(batch.column(0)[0].as_buffer()) if self._shape == "pickle" else None
        self._rows: list[Any] | None = self._pickled

    def __len__(self) -> int:
        return len(self._pickled) if self._pickled is not None else self._batch.num_rows

    def rows(self, begin: int, end: int) -> list[Any]:
        """Some rows, as they were."""
        if self._rows is None:
            columns = [self._values(i) for i in range(len(self._notes))]
            if self._shape == "value":
                self._rows = columns[0]
            elif self._shape == "list":
                self._rows = [list(row) for row in zip(*columns)]
            elif self._shape == "tuple":
                self._rows = list(zip(*columns))
            else:
                from pyspark.sql import Row

                make = Row(*self._names)
                self._rows = [make(*row) for row in zip(*columns)]
        return self._rows[begin:end]

    def column(self, number: int, begin: int, end: int) -> Any:
        """Some values of one column: a NumPy array where they are numbers, a list otherwise."""
        if self._pickled is not None:
            return [row[number] for row in self._pickled[begin:end]]
        numbers = self._numbers(number)
        if numbers is not None:
            return np.array(numbers[begin:end])
        return self._values(number)[begin:end]

    def width(self) -> int:
        """How many columns a row has."""
        if self._pickled is not None:
            return len(self._pickled[0]) if isinstance(self._pickled[0], (tuple, list)) else 1
        return len(self._notes)

    def _numbers(self, number: int) -> "np.ndarray[Any, Any] | None":
        """A column in the batch's memory; None if it is not one of numbers, or of lists of different lengths."""
        column, note = self._batch.column(number), self._notes[number]
        length = len(column)
        if "dtype" in note:
            _, content = column.buffers()
            values = np.frombuffer(content, note["dtype"])
            per_row = int(np.prod(note["shape"]))
            begin = column.offset * per_row
            return values[begin : begin + length * per_row].reshape([length, *note["shape"]])
        kind = column.type
        if column.null_count == 0 and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            return column.to_numpy(zero_copy_only=True)
        if column.null_count or not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            return None
        values = column.flatten()
        whole = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
        if length == 0 or values.null_count or not whole or len(values) % length:
            return None
        offsets = column.offsets.to_numpy()
        if np.any(np.diff(offsets) != len(values) // length):
            return None
        return values.to_numpy(zero_copy_only=True).reshape(length, -1)

    def _values(self, number: int) -> list[Any]:
        """A column as Python's own values, or as the arrays that it was made from."""
        note, numbers = self._notes[number], self._numbers(number)
        if numbers is None:
            values: list[Any] = self._batch.column(number).to_pylist()
            return values
        if "dtype" in note:
            return list(numbers.copy())
        return numbers.tolist()
