"""A worker's part of a data set."""

import os
from typing import Any

import tensorflow as tf


def _place() -> tuple[int, int]:
    """How many workers there are, and which this is. The process that starts them, and servers, count as one."""
    if os.environ.get("COLLA_ROLE") != "worker":
        return 1, 0
    return int(os.environ["COLLA_SIZE"]), int(os.environ["COLLA_RANK"])


def create_num_shards_and_shard_id() -> tuple[Any, Any]:
    """How many workers there are, and which this is, as tensors of the graph."""
    number, mine = _place()
    return tf.constant(number, tf.int64, name="num_shards"), tf.constant(mine, tf.int64, name="shard_id")


def shard(ds: Any) -> Any:
    """This worker's part of a ``tf.data.Dataset``: every so many elements one."""
    return ds.shard(*_place())
