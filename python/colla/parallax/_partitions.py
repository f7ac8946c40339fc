"""Into how many parts a table is cut."""

from typing import Any

import tensorflow as tf

# The most that a program has asked for.
wanted: list[int] = [0]


def get_partitioner(min_partitions: int = 1) -> Any:
    """A partitioner for ``get_variable()``. Servers cut a table into `min_partitions` at least; in the graph it is one."""
    if min_partitions < 1:
        raise ValueError(f"min_partitions is {min_partitions}, but takes 1 or more")
    wanted[0] = max(wanted[0], min_partitions)
    return tf.compat.v1.fixed_size_partitioner(1)
