"""Into how many parts a table is cut."""

from typing import Any

import tensorflow as tf


def get_partitioner(min_partitions: int = 1) -> Any:
    """A partitioner for ``get_variable()``: each worker has the whole table, so it is one part."""
    if min_partitions < 1:
        raise ValueError(f"min_partitions is {min_partitions}, but takes 1 or more")
    return tf.compat.v1.fixed_size_partitioner(1)
