"""DistributedOptimizer's strategies beyond allreduce: eagerly, in graphs, and in Keras' fit()."""

import sys

import numpy as np
import tensorflow as tf
from _checks import raises, run

import colla.tensorflow as hvd
import colla.tensorflow.keras as hvd_keras

v1 = tf.compat.v1
hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()


def words(number, rank):
    """A batch: numbers of words, and what should come of them."""
    random = np.random.RandomState(100 * number + rank)
    return random.randint(0, 40, [8, 3]), random.rand(8, 1).astype(np.float32)


def everybodys(values):
    """Whether all ranks have the same bits."""
    return len(set(hvd.allgather_object(b"".join(np.asarray(value).tobytes() for value in values)))) == 1


def graph_weights(strategy, optimizer=lambda: v1.train.MomentumOptimizer(0.1, 0.9), steps=6, rate=None, **options):
    """A table and a dense layer, trained in a graph of TensorFlow 1; their values after the last step."""
    with tf.Graph().as_default():
        ids, wanted = v1.placeholder(tf.int64, [8, 3]), v1.placeholder(tf.float32, [8, 1])
        random = np.random.RandomState(RANK)  # Rank 0's are everybody's.
        table = v1.get_variable("table", initializer=random.rand(40, 4).astype(np.float32))
        w = v1.get_variable("w", initializer=random.rand(12, 1).astype(np.float32))
        features = tf.reshape(tf.nn.embedding_lookup(table, ids), [8, 12])
        loss = tf.reduce_mean(tf.square(tf.matmul(features, w) - wanted))
        step = v1.train.get_or_create_global_step()
        train = hvd.DistributedOptimizer(optimizer(), strategy=strategy, **options).minimize(loss, global_step=step)
        with v1.train.MonitoredTrainingSession(hooks=[hvd.BroadcastGlobalVariablesHook(0)]) as session:
            for number in range(steps):
                batch, targets = words(number, RANK)
                session.run(train, {ids: batch, wanted: targets})
            table_value, w_value, steps_made = session.run([table, w, step])
        assert steps_made == steps
        return table_value, w_value


def check_servers_do_what_an_allreduce_does():
    for optimizer in (lambda: v1.train.GradientDescentOptimizer(0.1), lambda: v1.train.AdagradOptimizer(0.1)):
        expected = graph_weights("allreduce", optimizer)
        for strategy in ("ps-sync", "hybrid", "ps-ssp"):
            found = graph_weights(strategy, optimizer)
            assert everybodys(found), strategy
            for ours, theirs in zip(found, expected):
                np.testing.assert_allclose(ours, theirs, rtol=2e-5, err_msg=strategy)


def check_bits():
    """The same in every run."""
    first = graph_weights("ps-sync")
    again = graph_weights("ps-sync")
    hybrid = graph_weights("hybrid")
    for one, same, other in zip(first, again, hybrid):
        assert one.tobytes() == same.tobytes()
        np.testing.assert_allclose(one, other, rtol=2e-5)


def check_momentum_of_dense_variables_has_tensorflows_bits():
    """What servers compute for SGD, with or without momentum, is what TensorFlow's kernels do."""
    for optimizer in (lambda: v1.train.GradientDescentOptimizer(0.1), lambda: v1.train.MomentumOptimizer(0.1, 0.9)):
        results = []
        for strategy in ("allreduce", "ps-sync"):
            with tf.Graph().as_default():
                w = v1.get_variable("w", initializer=np.random.RandomState(1).rand(500, 3).astype(np.float32))
                data = v1.placeholder(tf.float32, [8, 500])
                made = hvd.DistributedOptimizer(optimizer(), strategy=strategy)
                train = made.minimize(tf.reduce_mean(tf.square(tf.matmul(data, w) - 1)))
                with v1.Session() as session:
                    session.run(v1.global_variables_initializer())
                    for number in range(5):
                        batch = np.random.RandomState(10 * number + RANK).rand(8, 500).astype(np.float32)
                        session.run(train, {data: batch})
                    results.append(session.run(w).tobytes())
        assert results[0] == results[1]


def check_asynchronous_servers_train():
    for strategy, options in (
        ("ps-async", {}),
        ("ps-async", {"max_staleness": 4}),
        ("ps-ssp", {"staleness": 2}),
        ("ps-sync", {"backup": 1}),
    ):
        table, w = graph_weights(
            strategy,
            lambda: v1.train.GradientDescentOptimizer(0.1),
            steps=40,
            server_options=hvd.ServerOptions(**options),
        )
        batch, wanted = words(0, RANK)
        error = np.mean((table[batch].reshape(8, 12) @ w - wanted) ** 2)
        assert np.isfinite(error) and error < 0.6, (strategy, error)
        hvd.barrier()


def check_a_rate_that_changes():
    """The rate is a tensor of the graph: servers get it with each step."""

    def optimizer():
        rate = v1.train.exponential_decay(0.1, v1.train.get_global_step(), 2, 0.5)
        return v1.train.GradientDescentOptimizer(rate)

    expected = graph_weights("allreduce", optimizer)
    for ours, theirs in zip(graph_weights("ps-sync", optimizer), expected):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5)


def eager_weights(strategy, in_function, optimizer, **options):
    layers = [tf.keras.layers.Embedding(40, 4), tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)]
    model = tf.keras.Sequential([tf.keras.Input([3], dtype=tf.int64), *layers])
    for variable in model.trainable_variables:
        variable.assign(tf.cast(tf.reshape(tf.range(tf.size(variable)), variable.shape), tf.float32) / 100)
    made = hvd.DistributedOptimizer(optimizer(), strategy=strategy, **options)

    def step(batch, wanted):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(batch) - wanted))
        made.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    if in_function:
        step = tf.function(step)
    for number in range(6):
        batch, wanted = words(number, RANK)
        step(tf.constant(batch), tf.constant(wanted))
    assert int(made.iterations) == 6
    return [np.asarray(variable) for variable in model.trainable_variables]


def check_keras_optimizers():
    for optimizer in (
        lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
        lambda: tf.keras.optimizers.Adam(0.01),
        # Epsilon is added in a different place: small enough, that makes no difference.
        lambda: tf.keras.optimizers.RMSprop(0.01, epsilon=1e-20),
    ):
        # Of a table's rows, servers change those with a gradient alone.
        expected = eager_weights("allreduce", False, optimizer, sparse_as_dense=True)
        for in_function in (False, True):
            found = eager_weights("ps-sync", in_function, optimizer, sparse_as_dense=True)
            assert everybodys(found)
            for ours, theirs in zip(found, expected):
                np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
        for strategy in ("ps-sync", "hybrid"):
            assert everybodys(eager_weights(strategy, True, optimizer)), strategy


def check_fit():
    for strategy in ("ps-sync", "hybrid", "ps-async", "local-sgd"):
        tf.keras.utils.set_random_seed(RANK)
        layers = [tf.keras.layers.Embedding(40, 4), tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)]
        model = tf.keras.Sequential([tf.keras.Input([3], dtype=tf.int64), *layers])
        model.compile(hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.05), strategy=strategy), loss="mse")
        inputs, wanted = (np.concatenate(parts) for parts in zip(*(words(number, RANK) for number in range(16))))
        together = [hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0)]
        history = model.fit(inputs, wanted, batch_size=8, epochs=3, verbose=0, shuffle=False, callbacks=together)
        losses = history.history["loss"]
        assert losses[-1] < losses[0], (strategy, losses)
        if strategy in ("ps-sync", "hybrid", "local-sgd"):  # 48 steps: local-sgd has just averaged.
            assert everybodys(model.get_weights()), strategy
        hvd.barrier()


def check_local_sgd_averages():
    def optimizer():
        return v1.train.GradientDescentOptimizer(0.1)

    mean = graph_weights("local-sgd", optimizer, steps=4, local_sgd_options=hvd.LocalSgdOptions(every=4))
    assert everybodys(mean)
    apart = graph_weights("local-sgd", optimizer, steps=4)
    for ours, parts in zip(mean, zip(*hvd.allgather_object(apart))):
        np.testing.assert_allclose(ours, np.mean(parts, axis=0), rtol=1e-6)
    assert not everybodys(apart) or SIZE == 1


def check_local_sgd_with_an_outer_optimizer():
    options = hvd.LocalSgdOptions(every=2, outer_lr=0.7, outer_momentum=0.9)
    found = eager_weights("local-sgd", True, lambda: tf.keras.optimizers.SGD(0.1), local_sgd_options=options)
    assert everybodys(found)
    # By hand: three rounds of two steps.
    start = np.arange(12, dtype=np.float32).reshape(12, 1) / 100, np.arange(160, dtype=np.float32).reshape(40, 4) / 100
    (w, table), bias = start, np.zeros([1], np.float32)
    momenta = [np.zeros_like(part) for part in (table, w, bias)]
    for around in range(3):
        ends = []
        for rank in range(SIZE):
            mine = [table.copy(), w.copy(), bias.copy()]
            for number in (2 * around, 2 * around + 1):
                batch, wanted = words(number, rank)
                features = mine[0][batch].reshape(8, 12)
                error = 2 * (features @ mine[1] + mine[2] - wanted) / 8
                rows = (error @ mine[1].T).reshape(8, 3, 4)
                mine[1], mine[2] = mine[1] - 0.1 * features.T @ error, mine[2] - 0.1 * error.sum(0)
                np.subtract.at(mine[0], batch, 0.1 * rows)
            ends.append(mine)
        new = []
        for i, part in enumerate((table, w, bias)):
            gone = part - np.mean([end[i] for end in ends], axis=0)
            momenta[i] = 0.9 * momenta[i] + gone
            new.append(part - 0.7 * (gone + 0.9 * momenta[i]))
        table, w, bias = new
    for ours, theirs in zip(found, (table, w, bias)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def check_refusals():
    sgd = v1.train.GradientDescentOptimizer
    with raises(ValueError, "servers can't run FtrlOptimizer: they know GradientDescentOptimizer"):
        hvd.DistributedOptimizer(v1.train.FtrlOptimizer(0.1), strategy="ps-sync")
    with raises(ValueError, "servers can't run SGD with clipnorm"):
        hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1, clipnorm=1.0), strategy="ps-sync")
    with raises(ValueError, "is for strategy ps-ssp, not ps-sync"):
        hvd.DistributedOptimizer(sgd(0.1), strategy="ps-sync", server_options=hvd.ServerOptions(staleness=1))
    with raises(ValueError, "is for op=Average of all ranks alone"):
        hvd.DistributedOptimizer(sgd(0.1), strategy="ps-sync", op=hvd.Sum)
    with raises(ValueError, "takes backward_passes_per_step=1 alone"):
        hvd.DistributedOptimizer(sgd(0.1), strategy="ps-sync", backward_passes_per_step=2)
    with raises(ValueError, "local_sgd_options are for strategy local-sgd, not allreduce"):
        hvd.DistributedOptimizer(sgd(0.1), local_sgd_options=hvd.LocalSgdOptions())
    with raises(ValueError, "every is 0"):
        hvd.LocalSgdOptions(every=0)
    with raises(ValueError, "is for DistributedOptimizer: a tape reduces gradients"):
        hvd.DistributedGradientTape(tf.GradientTape(), strategy="ps-sync")
    variable = tf.Variable([1.0])
    with raises(ValueError, "no variable has gradients of rows"):
        hvd.DistributedOptimizer(sgd(0.1), strategy="hybrid").apply_gradients([(tf.constant([1.0]), variable)])


CHECKS = [value for name, value in list(globals().items()) if name.startswith("check_")]
run([check for check in CHECKS if not sys.argv[1:] or check.__name__ in sys.argv[1:]], lambda name: print(name) if RANK == 0 else None)
