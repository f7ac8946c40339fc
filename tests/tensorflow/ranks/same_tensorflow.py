"""DATA FIRST OUT STEPS BATCH: trains the MLP of `colla train mlp --hidden 16` from the checkpoint FIRST, in TensorFlow."""

import sys

import numpy as np
import tensorflow as tf
from _same_data import batches
from tensorflow import keras

import colla.tensorflow as hvd
from colla import _core

data, first, out, steps, batch = *sys.argv[1:4], *map(int, sys.argv[4:])
hvd.init()

layers = [keras.layers.Dense(16, "relu", name="fc1"), keras.layers.Dense(16, "relu", name="fc2"), keras.layers.Dense(10, name="fc3")]
model = keras.Sequential([keras.layers.Input((784,)), *layers])
saved = {name: np.asarray(memoryview(array)).reshape(array.shape) for name, array in _core.load_checkpoint(first).model}
for layer in layers:
    layer.set_weights([saved[f"{layer.name}.weight"].T, saved[f"{layer.name}.bias"]])

optimizer = keras.optimizers.SGD(0.1)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
for images, labels in batches(data, steps, batch, hvd.rank(), hvd.size()):
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        value = loss(labels, model(images))
    optimizer.apply_gradients(zip(tape.gradient(value, model.trainable_variables), model.trainable_variables))
hvd.save_checkpoint(out, model, step=steps)
