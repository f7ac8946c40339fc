"""Tapes, optimizers and layers of TensorFlow 2, against plain TensorFlow on all ranks' data."""

import sys

import numpy as np
import tensorflow as tf
from _checks import raises, run
from tensorflow import keras

import colla.tensorflow as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
FILES = sys.argv[1]


def batches(step):
    """What each rank sees: images of 6 numbers, and labels."""
    random = np.random.RandomState(step)
    return [(random.rand(8, 6).astype(np.float32), random.randint(0, 3, 8)) for _ in range(SIZE)]


def network(seed=3):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(5, activation="relu"), keras.layers.Dense(3)])
    return model, keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def weights(model):
    return [weight.tobytes() for weight in model.get_weights()]


def gradients_of(model, loss, data, wrap=lambda tape: tape):
    with tf.GradientTape() as tape:
        value = loss(data[1], model(data[0]))
    return wrap(tape).gradient(value, model.trainable_variables)


def plainly(steps, make, average=True):
    """The weights after training on the sum or average of gradients that one process computes for all ranks."""
    model, loss = network()
    optimizer = make()
    for step in range(steps):
        parts = [gradients_of(model, loss, data) for data in batches(step)]
        whole = [tf.add_n(part) / (SIZE if average else 1) for part in zip(*parts)]
        optimizer.apply_gradients(zip(whole, model.trainable_variables))
    return weights(model)


def check_tapes():
    for in_function in (False, True):
        for options in ({}, {"groups": 2}, {"op": hvd.Sum}):
            model, loss = network()
            optimizer = keras.optimizers.SGD(0.1)
            optimizer.build(model.trainable_variables)

            def step(images, labels):
                gradients = gradients_of(
                    model, loss, (images, labels), lambda tape: hvd.DistributedGradientTape(tape, **options)
                )
                optimizer.apply_gradients(zip(gradients, model.trainable_variables))

            step = tf.function(step) if in_function else step
            for number in range(5):
                step(*(tf.constant(part) for part in batches(number)[RANK]))
            expected = plainly(5, lambda: keras.optimizers.SGD(0.1), average="op" not in options)
            if SIZE <= 2:  # A sum of two has the same bits in any order.
                assert weights(model) == expected, (in_function, options)
            assert len({tuple(one) for one in hvd.allgather_object(weights(model))}) == 1


def check_a_tape_keeps_the_structure():
    a, b = tf.Variable(2.0), tf.Variable(3.0)
    with hvd.DistributedGradientTape(tf.GradientTape(persistent=True), op=hvd.Sum) as tape:
        value = a * b * (RANK + 1.0)
    ranks = SIZE * (SIZE + 1) / 2
    got = tape.gradient(value, {"a": a, "b": [b]})
    assert float(got["a"]) == 3 * ranks and float(got["b"][0]) == 2 * ranks
    assert float(tape.gradient(value, a)) == 3 * ranks
    assert tape.gradient(value, [tf.Variable(1.0)]) == [None]


def check_slices_and_local_sources():
    table, other = tf.Variable(tf.ones([6, 2])), tf.Variable([1.0])
    for sparse_as_dense in (False, True):
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(tf.gather(table, [RANK, 4])) * other[0]
        tape = hvd.DistributedGradientTape(tape, op=hvd.Sum, sparse_as_dense=sparse_as_dense)
        tape.register_local_source(other)
        of_table, of_other = tape.gradient(value, [table, other])
        assert isinstance(of_table, tf.IndexedSlices) != sparse_as_dense
        expected = np.zeros([6, 2])
        for rank in range(SIZE):
            expected[rank] += 1
            expected[4] += 1
        np.testing.assert_array_equal(tf.convert_to_tensor(of_table), expected)
        np.testing.assert_allclose(of_other, [4 / SIZE])  # Scaled as an average is.
    model, loss = network()
    with tf.GradientTape() as tape:
        value = loss(batches(0)[RANK][1], model(batches(0)[RANK][0]))
    partial = hvd.PartialDistributedGradientTape(tape, local_layers=model.layers[-1], scale_local_gradients=False)
    local, shared = partial.get_local_and_global_gradients(value, model.trainable_variables)
    assert len(local) == 2 and len(shared) == 2
    mine = gradients_of(model, loss, batches(0)[RANK])
    assert local[0][1].numpy().tobytes() == mine[2].numpy().tobytes()


def check_optimizers():
    for make in (lambda: keras.optimizers.SGD(0.1, momentum=0.9), lambda: keras.optimizers.Adam(0.01)):
        for in_function in (False, True):
            model, loss = network(seed=3 + RANK)
            hvd.broadcast_variables(model.variables, 0)
            plain = make()
            optimizer = hvd.DistributedOptimizer(plain)
            assert type(optimizer).__name__ == type(plain).__name__ and optimizer.get_config() == plain.get_config()
            again = optimizer.from_config(optimizer.get_config())
            assert type(again).__name__ == type(plain).__name__ and again.get_config() == plain.get_config()
            optimizer.build(model.trainable_variables)

            def step(images, labels):
                gradients = gradients_of(model, loss, (images, labels))
                optimizer.apply(gradients, model.trainable_variables)

            step = tf.function(step) if in_function else step
            for number in range(4):
                step(*(tf.constant(part) for part in batches(number)[RANK]))
            if SIZE <= 2:
                assert weights(model) == plainly(4, make)
            assert int(optimizer.iterations) == 4


def check_a_wrapped_optimizer_goes_on():
    model, loss = network()
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.apply(gradients_of(model, loss, batches(0)[0]), model.trainable_variables)
    assert int(hvd.DistributedOptimizer(optimizer).iterations) == 1


def check_passes_are_added_up():
    model, loss = network()
    optimizer = hvd.DistributedOptimizer(
        keras.optimizers.SGD(0.1), backward_passes_per_step=2, average_aggregated_gradients=True
    )
    optimizer.build(model.trainable_variables)
    before = weights(model)

    @tf.function
    def step(images, labels):
        optimizer.apply(gradients_of(model, loss, (images, labels)), model.trainable_variables)

    for number in range(3):
        step(*(tf.constant(part) for part in batches(number)[RANK]))
        assert (weights(model) == before) == (number == 0)
    assert int(optimizer.iterations) == 3 and int(optimizer._agg_helper.counter) == 1
    other, _ = network()
    plain = keras.optimizers.SGD(0.1)
    parts = [gradients_of(other, loss, data) for number in range(2) for data in batches(number)]
    plain.apply([tf.add_n(part) / (2 * SIZE) for part in zip(*parts)], other.trainable_variables)
    for one, two in zip(model.get_weights(), other.get_weights()):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-7)
    with raises(ValueError, "sparse_as_dense=True"):
        slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([3, 2]))
        optimizer._agg_helper.compute_gradients([slices], [tf.Variable(tf.ones([3, 2]))])


def check_batch_normalization():
    random = np.random.RandomState(1)
    # Batches of different sizes.
    parts = [random.rand(3 + rank, 5, 4).astype(np.float32) * 3 for rank in range(SIZE)]
    plain, together = keras.layers.BatchNormalization(), hvd.SyncBatchNormalization()
    whole = tf.constant(np.concatenate(parts))
    mine = tf.constant(parts[RANK])
    with tf.GradientTape() as tape:
        tape.watch(whole)
        expected = plain(whole, training=True)
        loss = tf.reduce_sum(tf.square(expected) * expected)
    begin = sum(len(part) for part in parts[:RANK])
    end = begin + len(mine)
    with tf.GradientTape() as inner:
        inner.watch(mine)
        got = tf.function(together)(mine, training=True)
        own = tf.reduce_sum(tf.square(got) * got)
    np.testing.assert_allclose(got, expected[begin:end], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(inner.gradient(own, mine), tape.gradient(loss, whole)[begin:end], rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(together.moving_mean, plain.moving_mean, rtol=1e-4)
    np.testing.assert_allclose(together.moving_variance, plain.moving_variance, rtol=1e-4)
    with raises(ValueError, "fused"):
        hvd.SyncBatchNormalization(fused=True)


def check_elastic_runs():
    if SIZE == 1:
        return
    variable = tf.Variable(float(RANK))
    state = hvd.elastic.TensorFlowState(variables=[variable], starts=0)

    @hvd.elastic.run
    def train(state):
        state.starts += 1
        state.commit()
        if state.starts == 1:
            variable.assign(99.0)
            if RANK == 1:
                raise hvd.HorovodInternalError("as if a rank were lost")
            hvd.allreduce(tf.constant(1.0), name="of a rank that waits")
        return float(variable), state.starts

    assert train(state) == (0.0, 2)


def check_checkpoints():
    def steps(model, optimizer, loss, numbers):
        for number in numbers:
            optimizer.apply(gradients_of(model, loss, batches(number)[RANK]), model.trainable_variables)

    def start():
        model, loss = network(seed=3 + RANK)
        if RANK == 0:
            model.layers[0].kernel.assign(model.layers[0].kernel * 0 + 1)
        optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.01, name="adam"))
        optimizer.build(model.trainable_variables)
        return model, optimizer, loss

    keras.backend.clear_session()
    model, optimizer, loss = start()
    hvd.broadcast_variables(model.variables, 0)
    steps(model, optimizer, loss, range(2))
    written = hvd.save_checkpoint(f"{FILES}/net", model, optimizer, step=2, epoch=1, samples=16, extra={"a": "b"})
    assert written.endswith("step-00000002")
    steps(model, optimizer, loss, range(2, 4))
    hvd.save_checkpoint(f"{FILES}/net", model, optimizer, step=4)

    keras.backend.clear_session()  # Layers are called as before.
    again, its, loss = start()
    info = hvd.load_checkpoint(f"{FILES}/net", again, its, step=2)
    assert info == (2, 1, 16, {"a": "b"})
    steps(again, its, loss, range(2, 4))
    assert weights(again) == weights(model) and int(its.iterations) == 4
    hvd.save_checkpoint(f"{FILES}/net-again", again, its, step=4)
    with raises(FileNotFoundError):
        hvd.load_checkpoint(f"{FILES}/nothing", again, its)
    with raises(ValueError, "different variables"):
        hvd.load_checkpoint(f"{FILES}/net", [tf.Variable(1.0, name="other")])
    with raises(ValueError, "two variables are called"):
        hvd.save_checkpoint(f"{FILES}/twice", [tf.Variable(1.0, name="x"), tf.Variable(1.0, name="x")])
        if RANK > 0:
            raise ValueError("two variables are called")  # Rank 0 alone looks.
    bits = [tf.Variable(tf.constant([1.5, 2.5], tf.bfloat16), name="b"), tf.Variable(tf.constant([7], tf.uint32), name="u")]
    hvd.save_checkpoint(f"{FILES}/types", bits)
    bits[0].assign([0, 0])
    bits[1].assign([0])
    hvd.load_checkpoint(f"{FILES}/types", bits)
    assert bits[0].numpy().tolist() == [1.5, 2.5] and bits[1].numpy().tolist() == [7]


def check_no_growth():
    """A rank's memory after a thousand steps is what it was after the first ones."""
    variable = tf.Variable(tf.zeros([10000]))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable * variable)
        variable.assign_sub(hvd.DistributedGradientTape(tape).gradient(loss, variable) * 0.1)

    def steps(count):
        for _ in range(count):
            step()
            hvd.allreduce(tf.zeros([100]))
            hvd.allgather(tf.zeros([100]))
            hvd.broadcast_variables([variable], 0)

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    steps(300)
    before = resident()
    steps(1000)
    grown = resident() - before
    print(f"memory of rank {RANK}: {before / 2**20:.1f} MiB, grown by {grown / 2**20:.2f} MiB in 1000 steps")
    assert grown < 2 * 2**20


assert "torch" not in sys.modules
run([value for name, value in list(globals().items()) if name.startswith("check_")], lambda name: print(name) if RANK == 0 else None)
