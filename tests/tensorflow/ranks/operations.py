"""Every collective against plain TensorFlow and numpy; what a rank would get is computed from all ranks' inputs."""

import itertools
import sys

import numpy as np
import tensorflow as tf
from _checks import raises, run

import colla.tensorflow as hvd

tf.config.threading.set_inter_op_parallelism_threads(1)  # For check_no_thread_waits.
with raises(ValueError, "call init() first"):
    hvd.allreduce(tf.constant(1.0))
assert int(hvd.process_set_included_op()) == -1

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
FLOATS = [tf.float16, tf.bfloat16, tf.float32, tf.float64]
INTEGERS = [tf.uint8, tf.int8, tf.int16, tf.int32, tf.int64]
SHAPES = [(), (1,), (17,), (3, 5, 2), (0,), (4, 0), (1000, 7)]


def inputs(shape, dtype):
    """What each rank brings: small whole numbers, whose sums and products have no rounding."""
    numbers = np.random.RandomState(7).randint(0, 4, (SIZE, *shape))
    return [tf.cast(tf.constant(part), dtype) for part in numbers]


def same(got, expected, what=""):
    assert got.dtype == expected.dtype and got.shape == expected.shape, (what, got, expected)
    assert got.numpy().tobytes() == expected.numpy().tobytes(), (what, got, expected)


def eagerly_and_in_a_function(call, *tensors):
    yield call(*tensors)
    yield tf.function(call)(*tensors)


def check_allreduce():
    for dtype, shape in itertools.product(FLOATS + INTEGERS, SHAPES):
        everything = inputs(shape, dtype)
        wide = np.stack([part.numpy().astype(np.float64) for part in everything])
        average = wide.sum(0) / SIZE
        expected = {
            hvd.Sum: wide.sum(0),
            hvd.Min: wide.min(0),
            hvd.Max: wide.max(0),
            hvd.Product: wide.prod(0),
            hvd.Average: average if dtype.is_floating else np.trunc(average),
        }
        for op, result in expected.items():
            mine = tf.identity(everything[RANK])
            same(hvd.allreduce(mine, op=op), tf.cast(result, dtype), f"{op} {dtype} {shape}")
            same(mine, everything[RANK], "it was not changed")


def check_in_functions():
    mine = tf.reshape(tf.range(12, dtype=tf.float32), [6, 2]) + RANK
    total = tf.add_n([tf.reshape(tf.range(12, dtype=tf.float32), [6, 2]) + rank for rank in range(SIZE)])
    gathered = tf.concat([mine - RANK + rank for rank in range(SIZE)], 0)
    share = 6 // SIZE
    for call, expected in (
        (lambda x: hvd.allreduce(x, op=hvd.Sum), total),
        (lambda x: hvd.allreduce(x, prescale_factor=0.5, postscale_factor=4.0), total * 2 / SIZE),
        (lambda x: hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.fp16), total),
        (lambda x: hvd.grouped_allreduce([x, x + 1], op=hvd.Sum)[1], total + SIZE),
        (lambda x: hvd.allgather(x), gathered),
        (lambda x: hvd.grouped_allgather([x, x * 2])[1], gathered * 2),
        (lambda x: hvd.broadcast(x, SIZE - 1), mine - RANK + SIZE - 1),
        (lambda x: hvd.reducescatter(x, op=hvd.Sum), total[RANK * share : (RANK + 1) * share]),
        (lambda x: hvd.grouped_reducescatter([x, x])[0], total[RANK * share : (RANK + 1) * share] / SIZE),
        (lambda x: tf.cast(hvd.size_op() * 10 + hvd.rank_op(), tf.float32), tf.constant(SIZE * 10.0 + RANK)),
        (lambda x: hvd.local_size_op() + hvd.local_rank_op(), tf.constant(SIZE + RANK)),
        (lambda x: hvd.process_set_included_op(), tf.constant(1)),
        (lambda x: hvd.process_set_included_op(77), tf.constant(-2)),
    ):
        for got in eagerly_and_in_a_function(call, mine):
            same(got, expected)


def check_mixed_types_go_together():
    mine = [tf.ones([3], dtype) for dtype in (tf.float32, tf.int64, tf.bfloat16)]
    for got in eagerly_and_in_a_function(lambda *tensors: hvd.grouped_allreduce(list(tensors), op=hvd.Sum), *mine):
        for one, other in zip(got, mine, strict=True):
            same(one, other * SIZE)


def check_alltoall():
    rows = [RANK + 1 + rank for rank in range(SIZE)]
    mine = tf.constant(np.repeat(np.arange(SIZE) + 10.0 * RANK, rows).reshape(-1, 1))
    came = [rank + 1 + RANK for rank in range(SIZE)]
    expected = tf.constant(np.repeat(RANK + 10.0 * np.arange(SIZE), came).reshape(-1, 1))
    for kind in (tf.int32, tf.int64):
        splits = tf.constant(rows, kind)
        for got, received in eagerly_and_in_a_function(lambda x, s: hvd.alltoall(x, s), mine, splits):
            same(got, expected)
            same(received, tf.constant(came, kind))
    even = hvd.alltoall(tf.range(2 * SIZE) + 100 * RANK)
    assert even.numpy().tolist() == [2 * RANK + i + 100 * rank for rank in range(SIZE) for i in range(2)]


def check_types_that_only_move():
    for dtype in (tf.bool, tf.uint16, tf.uint32, tf.uint64):
        mine = tf.cast(tf.constant([0, RANK, 1]), dtype)
        same(hvd.broadcast(mine, SIZE - 1), tf.cast(tf.constant([0, SIZE - 1, 1]), dtype))
        assert hvd.allgather(mine).shape == [3 * SIZE]


def check_gradients():
    weight = tf.range(4.0) + 1

    variable = tf.Variable(tf.ones([4]))

    def gradient(call, scale):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(call(variable) * scale)
        return tape.gradient(loss, variable)

    # A sum's gradient is the sum of what ranks' losses say, an average's their average.
    said = [weight * (rank + 1) for rank in range(SIZE)]
    mine = said[RANK]
    total = tf.add_n(said)
    share = 4 // SIZE
    for call, scale, expected in (
        (lambda v: hvd.allreduce(v, op=hvd.Sum), mine, total),
        (lambda v: hvd.allreduce(v), mine, total / SIZE),
        (lambda v: hvd.grouped_allreduce([v, v], op=hvd.Sum)[1], mine, total),
        # Of what was gathered, this rank's own part.
        (lambda v: hvd.allgather(v), tf.tile(weight, [SIZE]) * (RANK + 1), weight * (SIZE + 1) / 2),
        (lambda v: hvd.broadcast(v, 0), mine, total / SIZE if RANK == 0 else tf.zeros([4])),
        (lambda v: hvd.alltoall(v[: SIZE * share]), 2.0, tf.constant([2.0] * (SIZE * share) + [0.0] * (4 - SIZE * share))),
        (
            lambda v: hvd.reducescatter(v[: SIZE * share], op=hvd.Sum),
            mine[:share],
            tf.concat([*(part[:share] * SIZE for part in said), tf.zeros([4 - SIZE * share])], 0),
        ),
    ):
        same(gradient(call, scale), expected)
        same(tf.function(gradient)(call, scale), expected)


def check_what_nobody_needs_runs():
    """The other ranks wait for it."""

    @tf.function
    def one_needs_it(x):
        total = hvd.allreduce(x, op=hvd.Sum)
        return total if RANK == 0 else x

    for _ in range(2):
        one_needs_it(tf.ones([3]))


def check_slices():
    slices = tf.IndexedSlices(tf.fill([2, 3], float(RANK + 1)), tf.constant([RANK, 5]), tf.constant([8, 3]))
    for op, factor in ((hvd.Sum, 1.0), (hvd.Average, SIZE)):
        for got in eagerly_and_in_a_function(lambda part: hvd.allreduce(part, op=op), slices):
            assert isinstance(got, tf.IndexedSlices)
            dense = np.zeros([8, 3], np.float32)
            for rank in range(SIZE):
                dense[rank] += (rank + 1) / factor
                dense[5] += (rank + 1) / factor
            np.testing.assert_array_equal(tf.convert_to_tensor(got).numpy(), dense)
    with raises(NotImplementedError, "sparse_as_dense"):
        hvd.allreduce(slices, op=hvd.Max)


def check_variables():
    floats, whole = tf.Variable(tf.fill([1000], float(RANK))), tf.Variable(tf.constant([RANK, RANK], tf.int64))
    view = floats.read_value()
    for got in hvd.broadcast_([floats, whole], SIZE - 1):
        assert (got.numpy() == SIZE - 1).all()
    assert (floats.numpy() == SIZE - 1).all() and (whole.numpy() == SIZE - 1).all()
    assert (view.numpy() == RANK).all()  # What was read before is what it was.
    floats.assign(tf.fill([1000], float(RANK)))
    tf.function(lambda: hvd.broadcast_([floats], 0))()
    assert (floats.numpy() == 0).all()
    hvd.broadcast_variables([floats, whole], 0, inplace=True)
    with raises(tf.errors.InvalidArgumentError, "type string are not supported"):
        hvd.broadcast_([tf.Variable("text")], 0)


def check_objects():
    assert hvd.broadcast_object({"rank": RANK}, SIZE - 1) == {"rank": SIZE - 1}
    assert hvd.allgather_object("x" * RANK) == ["x" * rank for rank in range(SIZE)]
    assert hvd.broadcast_object_fn(root_rank=0)([RANK]) == [0]


def check_process_sets():
    if SIZE == 1:
        return
    alone = hvd.add_process_set([SIZE - 1])
    if alone.included():
        assert hvd.allreduce(tf.constant(3.0), op=hvd.Sum, process_set=alone).numpy() == 3
        assert int(hvd.size_op(alone.process_set_id)) == 1
    else:
        assert int(hvd.process_set_included_op(alone.process_set_id)) == 0
        with raises(tf.errors.InvalidArgumentError, "is not a member of process set"):
            hvd.allreduce(tf.constant(3.0), process_set=alone)
    assert hvd.remove_process_set(alone)
    unknown = hvd.ProcessSet([0])
    with raises(ValueError, "can't be used"):
        hvd.allreduce(tf.constant(3.0), process_set=unknown)
    unknown.process_set_id = 77
    with raises(ValueError, "there is no process set 77"):
        hvd.allreduce(tf.constant(3.0), process_set=unknown)


def check_errors():
    if SIZE == 1:
        return
    with raises(tf.errors.FailedPreconditionError, "ranks brought different shapes: [1] on rank"):
        hvd.allreduce(tf.ones([RANK % 2 + 1]), name="shapes")
    with raises(tf.errors.FailedPreconditionError, "float32"):
        hvd.allreduce(tf.ones([2], tf.float32 if RANK % 2 else tf.float64), name="types")
    with raises(tf.errors.InvalidArgumentError, "root 99 is not a member"):
        hvd.broadcast(tf.ones([2]), 99)
    with raises(tf.errors.UnimplementedError, "booleans"):
        hvd.allreduce(tf.constant([True]))
    with raises(ValueError, "DistributedOptimizer"):
        hvd.DistributedGradientTape(tf.GradientTape(), strategy="hybrid")


def check_adasum():
    mine = tf.constant([3.0, 4.0]) * (RANK + 1)
    if SIZE & (SIZE - 1):
        with raises(tf.errors.UnimplementedError, "Adasum needs 1, 2, 4, 8"):
            hvd.allreduce(mine, op=hvd.Adasum)
        return
    got = hvd.allreduce(mine, op=hvd.Adasum)
    if SIZE == 2:  # Parallel vectors a, b: (1 - ab/2aa) a + (1 - ab/2bb) b.
        expected = (1 - 2 / 2) * np.array([3.0, 4.0]) + (1 - 2 / 8) * np.array([6.0, 8.0])
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6)


def check_no_thread_waits():
    """With one thread, and operations that ranks reach in different orders, a kernel that waits would wait forever."""
    slow = tf.random.stateless_uniform([300, 300], [1, 2]) / 300

    @tf.function
    def both(x):
        late = x
        for _ in range(30):
            late = late @ slow
        first, second = (x, late) if RANK % 2 == 0 else (late, x)
        return hvd.allreduce(first, op=hvd.Sum, name="first"), hvd.allreduce(second, op=hvd.Sum, name="second")

    for _ in range(3):
        both(tf.eye(300))


def check_join():
    last = SIZE - 1
    if RANK == last:
        for _ in range(3):
            total = hvd.allreduce(tf.ones([4]), op=hvd.Sum)
        assert total.numpy().tolist() == [1.0] * 4
    assert int(hvd.join()) == last
    # Everybody counts from 0 again.
    assert hvd.allreduce(tf.ones([1]), op=hvd.Sum).numpy().tolist() == [SIZE]
    hvd.barrier()


def check_shutdown_and_init():
    hvd.shutdown()
    with raises(tf.errors.FailedPreconditionError, "call init() first"):
        tf.function(lambda: hvd.rank_op())()
    hvd.init()
    assert hvd.allreduce(tf.constant(2), op=hvd.Sum).numpy() == 2 * SIZE


assert "torch" not in sys.modules
run([value for name, value in list(globals().items()) if name.startswith("check_")], lambda name: print(name) if RANK == 0 else None)
