"""One process: writes what the tests of `colla compare` and `colla inspect` read, each kind twice, with one difference."""

import os
import sys

import numpy as np
import tensorflow as tf
from tensorflow import keras

FILES = sys.argv[1]
v1 = tf.compat.v1
TYPES = [
    *("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool", "complex64", "complex128"),
]


def saver(folder, change):
    """A Saver of TensorFlow 1: a dense variable, one in parts, one of each type."""
    with tf.Graph().as_default(), v1.Session() as session:
        kernel = np.arange(12, dtype=np.float32).reshape(3, 4)
        kernel[1, 2] += change
        v1.get_variable("dense/kernel", initializer=tf.constant(kernel))
        table = tf.constant(np.arange(1400, dtype=np.float32).reshape(200, 7) + change)
        v1.get_variable("table0", initializer=table, partitioner=v1.fixed_size_partitioner(3, axis=0))
        v1.get_variable(
            "table1",
            shape=[200, 7],
            initializer=lambda shape, dtype, partition_info=None: tf.ones(shape, dtype),
            partitioner=v1.fixed_size_partitioner(3, axis=1),
        )
        for name in TYPES:
            v1.get_variable(f"types/{name}", initializer=tf.cast(tf.constant([0, 1, 3]), name), use_resource=True)
        v1.get_variable("text", initializer=tf.constant(["a", "bc", "ü"]))
        v1.train.get_or_create_global_step()
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, os.path.join(FILES, folder, "model.ckpt"), global_step=100)


def objects(folder, change):
    """A checkpoint of objects, as TensorFlow 2 makes them."""
    made = tf.train.Checkpoint(w=tf.Variable([1.0, 2.0 + change]), n=tf.Variable("text"))
    made.write(os.path.join(FILES, folder, "objects"))


def network(change, precision=None):
    keras.backend.clear_session()  # So that layers are called the same.
    keras.utils.set_random_seed(1)
    dense = keras.layers.Dense(3, dtype=precision)
    model = keras.Sequential([keras.layers.Input((4,)), dense, keras.layers.Dropout(0.5), keras.layers.BatchNormalization()])
    model.compile("adam", "mse")
    model.fit(np.ones([4, 4]), np.ones([4, 3]), verbose=0)
    dense.kernel.assign(tf.ones_like(dense.kernel) + change)
    return model


for folder, change in (("a", 0), ("b", 0.5)):
    os.makedirs(os.path.join(FILES, folder))
    saver(folder, change)
    objects(folder, change)
    for name in ("model.weights.h5", "model.keras", "model.h5"):
        model = network(change)
        (model.save_weights if "weights" in name else model.save)(os.path.join(FILES, folder, name))
    network(change, "bfloat16").save_weights(os.path.join(FILES, folder, "half.weights.h5"))
