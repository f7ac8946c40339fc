"""Batch normalization over the batches of all ranks."""

from typing import Any

import tensorflow as tf
from tensorflow import keras

from colla import _world
from colla.tensorflow import mpi_ops

# tf-keras, which is Keras 2, and Keras 3 call _moments() with different arguments. (Neither says in itself which it is.)
_IS_KERAS_2 = hasattr(keras.layers.BatchNormalization, "_calculate_mean_and_var")


class SyncBatchNormalization(keras.layers.BatchNormalization):
    """``BatchNormalization`` with mean and variance of all ranks' batches together, which may be of different sizes."""

    def __init__(self, fused: bool = False, **kwargs: Any) -> None:
        if fused in (True, None):
            raise ValueError("SyncBatchNormalization can't be fused: a fused kernel sees one rank's batch")
        kwargs.setdefault("name", "sync_batch_normalization")
        if _IS_KERAS_2:
            kwargs["fused"] = False
        super().__init__(**kwargs)

    def _moments(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        mean, variance = super()._moments(inputs, *args, **kwargs)
        if not _world.is_initialized() or _world.size() == 1:
            return mean, variance
        position = 2 if _IS_KERAS_2 else 0
        mask = args[position] if len(args) > position else kwargs.get("mask")
        if mask is None:
            count = tf.size(inputs) // tf.size(mean)
        else:
            count = tf.math.count_nonzero(mask)
        return _combine(mean, variance, tf.cast(count, mean.dtype))


def _combine(mean: Any, variance: Any, count: Any) -> tuple[Any, Any]:
    """Mean and variance of all ranks' values, of which this rank has `count` for each feature."""
    shape = tf.shape(mean)
    flat = tf.reshape(mean, [-1])
    squares = tf.reshape(variance, [-1]) + tf.square(flat)
    sums = mpi_ops.allreduce(tf.concat([[count], count * flat, count * squares], 0), op=mpi_ops.Sum)
    means, squares = tf.split(sums[1:] / sums[0], 2)
    # Rounding must not make it negative.
    variances = tf.maximum(squares - tf.square(means), 0)
    return tf.reshape(means, shape), tf.reshape(variances, shape)
