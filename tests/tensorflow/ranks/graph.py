"""Graphs and sessions of TensorFlow 1."""

import os
import sys

import numpy as np
import tensorflow as tf
from _checks import raises, run

import colla.tensorflow as hvd
from colla import _core

v1 = tf.compat.v1
v1.disable_eager_execution()
hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
FILES = sys.argv[1]


def model(optimizer, steps=6, inputs=None, **options):
    """Trains w by sessions, on data that differ by rank unless given; the weights after each step."""
    v1.reset_default_graph()
    data = v1.placeholder(tf.float32, [4, 3])
    w = v1.get_variable("w", initializer=tf.constant([[1.0], [2.0], [3.0]]) * (RANK + 1))
    loss = tf.reduce_mean(tf.square(tf.matmul(data, w) - 1))
    step = v1.train.get_or_create_global_step()
    train = hvd.DistributedOptimizer(optimizer(), **options).minimize(loss, global_step=step)
    seen = []
    with v1.train.MonitoredTrainingSession(hooks=[hvd.BroadcastGlobalVariablesHook(0)]) as session:
        for number in range(steps):
            session.run(train, {data: batch(number, RANK) if inputs is None else inputs})
            seen.append(session.run([w, step]))
    return seen


def batch(number, rank):
    return np.random.RandomState(10 * number + rank).rand(4, 3).astype(np.float32)


def gradient(w, data):
    error = data @ w - 1
    return (2 * data.T @ error / len(data)).astype(np.float32)


def check_an_average_over_ranks():
    seen = model(lambda: v1.train.GradientDescentOptimizer(0.1))
    w = np.array([[1.0], [2.0], [3.0]], np.float32)
    for number, (weights, step) in enumerate(seen):
        w = w - np.float32(0.1) * np.mean([gradient(w, batch(number, rank)) for rank in range(SIZE)], axis=0)
        np.testing.assert_allclose(weights, w, rtol=1e-5)
        assert step == number + 1
    everybodys = hvd.allgather_object(seen[-1][0].tobytes())
    assert len(set(everybodys)) == 1


def check_passes_are_added_up():
    seen = model(lambda: v1.train.GradientDescentOptimizer(0.1), backward_passes_per_step=2, average_aggregated_gradients=True)
    w = np.array([[1.0], [2.0], [3.0]], np.float32)
    for number, (weights, step) in enumerate(seen):
        if number % 2 == 1:
            parts = [gradient(w, batch(number - i, rank)) for rank in range(SIZE) for i in range(2)]
            w = w - np.float32(0.1) * np.mean(parts, axis=0)
        np.testing.assert_allclose(weights, w, rtol=1e-5)
        assert step == number + 1


def check_slots_and_names():
    v1.reset_default_graph()
    w = v1.get_variable("w", initializer=tf.ones([2]))
    optimizer = hvd.DistributedOptimizer(v1.train.MomentumOptimizer(0.1, 0.9))
    assert type(optimizer).__name__ == "MomentumOptimizer"
    train = optimizer.minimize(tf.reduce_sum(w) * float(RANK + 1))
    assert optimizer.get_slot_names() == ["momentum"] and optimizer.get_slot(w, "momentum") is not None
    broadcast = hvd.broadcast_global_variables(0)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(broadcast)
        session.run(train)
        np.testing.assert_allclose(session.run(w), 1 - 0.1 * (SIZE + 1) / 2, rtol=1e-6)


def check_adasum_combines_steps():
    for passes in (1, 2):
        same = batch(0, 0)  # Adasum of equal steps is that step.
        alone = model_alone(steps=4, inputs=same)
        together = model(
            lambda: v1.train.MomentumOptimizer(0.1, 0.9), steps=4, inputs=same, op=hvd.Adasum, backward_passes_per_step=passes
        )
        np.testing.assert_allclose(together[-1][0], alone, rtol=1e-5)


def model_alone(steps, inputs):
    w, velocity = np.array([[1.0], [2.0], [3.0]], np.float32), np.float32(0)
    for _ in range(steps):
        velocity = np.float32(0.9) * velocity + gradient(w, inputs)
        w = w - np.float32(0.1) * velocity
    return w


def check_collectives_of_a_session():
    v1.reset_default_graph()
    mine = tf.constant([1.0, 2.0]) * (RANK + 1)
    everything = [
        hvd.allreduce(mine, op=hvd.Sum),
        hvd.allgather(mine),
        hvd.broadcast(mine, SIZE - 1),
        hvd.alltoall(tf.range(SIZE) + 10 * RANK),
        hvd.rank_op(),
        tf.gradients(hvd.allreduce(mine, op=hvd.Sum) * float(RANK + 1), mine)[0],
    ]
    assert isinstance(hvd.join(), tf.Tensor)
    with v1.Session() as session:
        for _ in range(2):
            summed, gathered, root, sent, rank, gradients = session.run(everything)
    total = SIZE * (SIZE + 1) / 2
    assert summed.tolist() == [total, 2 * total] and rank == RANK
    assert gathered.tolist() == [x * (r + 1) for r in range(SIZE) for x in (1.0, 2.0)]
    assert root.tolist() == [SIZE, 2.0 * SIZE] and sent.tolist() == [10 * r + RANK for r in range(SIZE)]
    assert gradients.tolist() == [total, total]


def check_old_variables():
    v1.reset_default_graph()
    w = v1.Variable(tf.fill([3], float(RANK)), use_resource=False)
    together = hvd.broadcast_variables([w, v1.Variable(tf.fill([2], RANK), use_resource=True)], SIZE - 1)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(together)
        assert session.run(w).tolist() == [SIZE - 1.0] * 3


def check_elastic_state():
    v1.reset_default_graph()
    w = v1.get_variable("w", initializer=tf.fill([2], float(RANK)))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        state = hvd.elastic.TensorFlowState(session=session, batch=RANK)
        state.sync()
        assert session.run(w).tolist() == [0, 0] and state.batch == 0
        w.load([5.0, 6.0], session)
        state.batch = 3
        state.restore()
        assert session.run(w).tolist() == [0, 0] and state.batch == 0


def check_checkpoints_go_on():
    """What a MonitoredTrainingSession has written begins the next run, on all ranks."""

    def steps(until):
        v1.reset_default_graph()
        w = v1.get_variable("w", initializer=tf.zeros([1]))
        step = v1.train.get_or_create_global_step()
        train = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0)).minimize(-w[0], global_step=step)
        hooks = [hvd.BroadcastGlobalVariablesHook(0), v1.train.StopAtStepHook(last_step=until)]
        folder = os.path.join(FILES, "checkpoints") if RANK == 0 else None
        with v1.train.MonitoredTrainingSession(checkpoint_dir=folder, hooks=hooks, save_checkpoint_steps=2) as session:
            while not session.should_stop():
                value, _ = session.run([w, train])
        return value

    steps(3)
    assert steps(6).tolist() in ([5.0], [6.0])


def check_checkpoints_of_colla():
    v1.reset_default_graph()
    w = v1.get_variable("w", initializer=tf.fill([2, 2], float(RANK + 1)))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        hvd.save_checkpoint(os.path.join(FILES, "w"), session=session, step=7)
        v1.get_default_graph().finalize()
        w.load(np.zeros([2, 2]), session)
        hvd.barrier()
        assert hvd.load_checkpoint(os.path.join(FILES, "w"), session=session).step == 7
        assert session.run(w).tolist() == [[1.0, 1.0]] * 2


def check_checkpoints_have_every_type():
    """Also in a graph that is complete; what the parts of a variable are called."""
    v1.reset_default_graph()
    types = ("float16", "bfloat16", "float64", "int8", "uint32", "bool")
    made = [v1.get_variable(kind, initializer=tf.cast(tf.constant([0, 1, 3]), kind), use_resource=True) for kind in types]
    table = v1.get_variable("table", shape=[4, 2], initializer=v1.ones_initializer(), partitioner=v1.fixed_size_partitioner(2))
    zeros = [v1.assign(one, tf.zeros_like(one)) for one in [*made, *table]]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        v1.get_default_graph().finalize()
        before = session.run([*made, *table])
        hvd.save_checkpoint(os.path.join(FILES, "types"), [*made, table], session=session)
        hvd.barrier()
        session.run(zeros)
        hvd.load_checkpoint(os.path.join(FILES, "types"), [*made, table], session=session)
        for value, expected in zip(session.run([*made, *table]), before):
            assert value.dtype == expected.dtype and value.tolist() == expected.tolist()
    if RANK == 0:
        names = [name for name, _ in _core.load_checkpoint(os.path.join(FILES, "types")).model]
        assert names == sorted([*types, "table/part_0", "table/part_1"])


def check_checkpoints_of_a_monitored_session():
    """Neither saving nor loading is a step for its hooks."""
    v1.reset_default_graph()
    seen = []

    class Counter(v1.train.SessionRunHook):
        def before_run(self, context):
            seen.append(context)

    step = v1.train.get_or_create_global_step()
    count = v1.assign_add(step, 1)
    with v1.train.MonitoredTrainingSession(hooks=[Counter()]) as session:
        session.run(count)
        hvd.save_checkpoint(os.path.join(FILES, "monitored"), session=session, step=1)
        hvd.barrier()
        session.run(count)
        assert hvd.load_checkpoint(os.path.join(FILES, "monitored"), session=session).step == 1
        assert session.run(step) == 1 and len(seen) == 3


def check_refusals():
    with raises(ValueError, "op=Average alone"):
        hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0), op=hvd.Sum, gradient_predivide_factor=2.0)
    with raises(ValueError, "strategy hybrid needs parameter servers: start the job with colla run --ps 1"):
        hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0), strategy="hybrid")
    with raises(ValueError, "there is no strategy 'none'"):
        hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0), strategy="none")
    with raises(ValueError, "takes an optimizer"):
        hvd.DistributedOptimizer(object())


run([value for name, value in list(globals().items()) if name.startswith("check_")], lambda name: print(name) if RANK == 0 else None)
