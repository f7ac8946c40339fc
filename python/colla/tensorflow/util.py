"""What several modules, and programs for Horovod, ask about TensorFlow."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def _executing_eagerly() -> bool:
    """Whether operations are carried out at once, and not put into a graph."""
    return tf.executing_eagerly()


def dense(gradient: Any) -> Any:
    """The gradient as a tensor, also if it is made of slices."""
    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


def in_order(values: Sequence[Any]) -> list[Any]:
    """What has to come first in a graph. Eagerly, everything is carried out in the order of calls."""
    return [] if tf.executing_eagerly() else [value for value in values if value is not None]
