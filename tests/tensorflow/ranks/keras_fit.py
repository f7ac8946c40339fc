"""Keras' own loop with the callbacks, under Keras 3 and under tf-keras (TF_USE_LEGACY_KERAS=1)."""

import os
import sys

import numpy as np
import tensorflow as tf
from _checks import raises, run
from tensorflow import keras

if len(sys.argv) > 2:
    import colla.keras as hvd
else:
    import colla.tensorflow.keras as hvd
from colla.tensorflow import allgather_object

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
FILES = sys.argv[1]
IS_KERAS_2 = os.environ.get("TF_USE_LEGACY_KERAS") == "1"
assert keras.layers.Layer.__module__.startswith("tf_keras") == IS_KERAS_2
SUFFIX = ".h5" if IS_KERAS_2 else ".keras"


def data(rank=RANK):
    random = np.random.RandomState(100 + rank)
    return random.rand(32, 6).astype(np.float32), random.randint(0, 3, 32)


def network(optimizer, seed=3):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(5, activation="relu"), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])
    return model


def weights(model):
    return [weight.tobytes() for weight in model.get_weights()]


def same_everywhere(value):
    everybodys = allgather_object(value)
    assert all(one == everybodys[0] for one in everybodys), everybodys
    return value


def fit(model, epochs=2, callbacks=(), **options):
    options = {"batch_size": 8, "shuffle": False, "verbose": 0} | options
    return model.fit(*data(), epochs=epochs, callbacks=list(callbacks), **options)


def check_fit():
    # Ranks begin with different weights; after the first batch they have those of rank 0.
    model = network(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), seed=3 + RANK)
    fit(model, 1, [hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    same_everywhere(weights(model))
    # The same beginning: each step is one on all ranks' batches, whose losses are averages of as many samples.
    model = network(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)))
    fit(model)
    parts = [data(rank) for rank in range(SIZE)]
    order = [rank * 32 + 8 * step + i for step in range(4) for rank in range(SIZE) for i in range(8)]
    whole = network(keras.optimizers.SGD(0.1))
    images, labels = (np.concatenate(part)[order] for part in zip(*parts))
    whole.fit(images, labels, batch_size=8 * SIZE, epochs=2, shuffle=False, verbose=0)
    for one, other in zip(model.get_weights(), whole.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def check_metrics_are_averaged():
    model = network(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)))
    seen = []
    keep = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(dict(logs)))
    history = fit(model, 2, [keep, hvd.callbacks.MetricAverageCallback()]).history
    everybodys = allgather_object([one["loss"] for one in seen])
    np.testing.assert_allclose(history["loss"], np.mean(everybodys, axis=0), rtol=1e-6)
    same_everywhere(history["accuracy"])


def check_learning_rates():
    model = network(hvd.DistributedOptimizer(keras.optimizers.SGD(0.5, momentum=0.9)))
    rates = []
    callbacks = [
        hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.8, warmup_epochs=2, verbose=1),
        hvd.callbacks.LearningRateScheduleCallback(initial_lr=0.8, multiplier=0.5, start_epoch=2, end_epoch=4),
        hvd.callbacks.LearningRateScheduleCallback(initial_lr=0.8, multiplier=lambda epoch: 1 / epoch, start_epoch=4),
        keras.callbacks.LambdaCallback(
            on_batch_end=lambda batch, logs: rates.append(float(model.optimizer.learning_rate.numpy()))
        ),
    ]
    logged = fit(model, 6, callbacks).history["lr"]
    first = [(step / 8 * (SIZE - 1) + 1) / SIZE for step in range(1, 9)]
    later = [1.0] * 4 + [0.5] * 4 + [1 / 4] * 4 + [1 / 5] * 4
    np.testing.assert_allclose(rates, 0.8 * np.array(first + later), rtol=1e-5)
    np.testing.assert_allclose(logged, rates[3::4], rtol=1e-6)
    with raises(ValueError, "initial_lr is needed"):
        hvd.callbacks.LearningRateScheduleCallback(initial_lr=None, multiplier=1.0)


def check_saved_models():
    path = os.path.join(FILES, f"model-{RANK}{SUFFIX}")
    model = network(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)))
    fit(model)
    model.save(path)
    # Keras alone loads it, too, and gets an optimizer of its own.
    plain = keras.models.load_model(path)
    assert not hasattr(plain.optimizer, "register_local_var") and type(plain.optimizer).__name__ == "Adam"
    loaded = hvd.load_model(path)
    assert hasattr(loaded.optimizer, "register_local_var") and type(loaded.optimizer).__name__ == "Adam"
    assert int(loaded.optimizer.iterations) == 8
    fit(model)
    fit(loaded)
    same_everywhere(weights(loaded))
    for one, other in zip(model.get_weights(), loaded.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


class Own(keras.optimizers.SGD):
    """An optimizer that Keras does not have."""


def check_own_optimizers():
    path = os.path.join(FILES, f"own-{RANK}{SUFFIX}")
    model = network(hvd.DistributedOptimizer(Own(0.1)))
    fit(model, 1)
    model.save(path)
    assert type(hvd.load_model(path, custom_optimizers=[Own]).optimizer).__name__ == "Own"


def check_best_models():
    path = os.path.join(FILES, f"best{SUFFIX}")
    model = network(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)))
    fit(model, 2, [hvd.callbacks.BestModelCheckpoint(monitor="loss", filepath=path)])
    hvd.allreduce(1.0, name="rank 0 has written")
    assert os.path.exists(path)


def check_passes_and_local_variables():
    model = network(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), backward_passes_per_step=2))
    before = weights(model)
    fit(model, 1, batch_size=32)
    assert weights(model) == before
    fit(model, 1, batch_size=32)
    assert weights(model) != before and int(model.optimizer.iterations) == 2
    same_everywhere(weights(model))

    model = network(keras.optimizers.SGD(0.1))
    last = model.layers[-1]
    optimizer = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), local_layers=last)
    model.compile(optimizer=optimizer, loss=model.loss)
    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=last.trainable_weights)
    fit(model, 1, [broadcast])
    everybodys = allgather_object(weights(model))
    assert len({one[-1] for one in everybodys}) == SIZE and len({one[0] for one in everybodys}) == 1


def check_elastic():
    model = network(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), seed=3 + RANK)
    model.build((None, 6))
    state = hvd.elastic.KerasState(model, batch=0, epoch=0)
    epochs = []

    @hvd.elastic.run
    def train(state):
        state.model.fit(
            *data(),
            batch_size=8,
            epochs=3 - state.epoch,
            verbose=0,
            callbacks=[
                hvd.elastic.CommitStateCallback(state, batches_per_commit=2),
                hvd.elastic.UpdateBatchStateCallback(state),
                hvd.elastic.UpdateEpochStateCallback(state),
                keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: epochs.append(state.epoch)),
            ],
        )

    train(state)
    assert epochs == [1, 2, 3] and state.batch == 0
    same_everywhere(weights(model))
    kept = weights(model)
    model.set_weights([weight * 0 for weight in model.get_weights()])
    state.restore()
    assert weights(model) == kept


def check_values():
    assert float(hvd.allreduce(RANK + 1.0, op=hvd.Sum)) == SIZE * (SIZE + 1) / 2
    assert np.asarray(hvd.allgather([RANK])).tolist() == list(range(SIZE))
    assert float(hvd.broadcast(RANK * 1.0, SIZE - 1)) == SIZE - 1
    assert np.asarray(hvd.reducescatter([1.0] * SIZE, op=hvd.Sum)).tolist() == [SIZE]
    with raises(ValueError, "takes Average or Sum"):
        hvd.DistributedOptimizer(keras.optimizers.SGD(), op=hvd.Adasum)


def check_old_ways_of_keras_2():
    if not IS_KERAS_2:
        return
    optimizer = hvd.DistributedOptimizer(keras.optimizers.legacy.SGD(0.1))
    model = network(optimizer)
    model.compile(optimizer=optimizer, loss="mse", experimental_run_tf_function=False)
    model.fit(data()[0], data()[0][:, :3], batch_size=8, verbose=0)
    same_everywhere(weights(model))


assert "torch" not in sys.modules
run([value for name, value in list(globals().items()) if name.startswith("check_")], lambda name: print(name) if RANK == 0 else None)
