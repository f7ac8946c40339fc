"""One worker of one system: waits for its turn, and says how long that took.

    python -m colla.tensorflow.bench.worker SYSTEM RANK SIZE
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow import keras

from colla.bench.runner import Block, Turn, serve
from colla.tensorflow.bench.workloads import REDUCTIONS, TRAININGS, Reduction, Training


class Worker:
    """A worker without any others: as fast as steps can be."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def scope(self) -> Any:
        """Where models are made."""
        return tf.init_scope()

    def barrier(self) -> None:
        """Returns when all workers have come."""

    def reduce(self, tensor: Any) -> Any:
        """The sum over workers, inside a ``tf.function``."""
        raise NotImplementedError

    def call(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The function as the system runs it."""
        return tf.function(function)

    def optimizer(self, plain: Any) -> Any:
        """The optimizer as the system has it."""
        return plain

    def dataset(self, data: Any, batch: int) -> Any:
        """Batches of this worker for ever."""
        return tf.data.Dataset.from_tensors(tuple(part[:batch] for part in data)).cache().repeat()


class CollaWorker(Worker):
    """Horovod's API."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        import colla.tensorflow as hvd

        self._hvd = hvd
        hvd.init()

    def barrier(self) -> None:
        self._hvd.barrier()

    def reduce(self, tensor: Any) -> Any:
        return self._hvd.allreduce(tensor, op=self._hvd.Sum)

    def optimizer(self, plain: Any) -> Any:
        return self._hvd.DistributedOptimizer(plain)


class DistributeWorker(Worker):
    """MultiWorkerMirroredStrategy with RING, which TF_CONFIG tells who the workers are."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        ring = tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.RING
        )
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=ring)
        self._one = tf.constant(1.0)
        self._together = self.call(self.reduce)

    def scope(self) -> Any:
        return self._strategy.scope()

    def barrier(self) -> None:
        self._together(self._one)

    def reduce(self, tensor: Any) -> Any:
        # As an operation of its own it has a device, which tf.distribute looks at.
        mine = tf.identity(tensor)
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, mine)

    def call(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return tf.function(lambda *arguments: self._strategy.run(function, args=arguments))

    def dataset(self, data: Any, batch: int) -> Any:
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        # Keras takes the batch of all workers and gives each its part.
        whole = tuple(np.concatenate([part[:batch]] * self.size) for part in data)
        return tf.data.Dataset.from_tensors(whole).cache().repeat().with_options(options)


SYSTEMS: dict[str, type[Worker]] = {"distribute": DistributeWorker, "colla": CollaWorker, "alone": Worker}


def reduction_block(worker: Worker, what: Reduction) -> Block:
    """Calls an allreduce, whose first result is checked."""
    tensor = tf.fill([what.bytes // 4], float(worker.rank + 1))
    call = worker.call(worker.reduce)
    first = float(call(tensor)[0])
    assert first == worker.size * (worker.size + 1) / 2, first

    def block() -> Turn:
        worker.barrier()
        begin = time.perf_counter()
        for _ in range(what.calls):
            result = call(tensor)
        result[0].numpy()
        return Turn((time.perf_counter() - begin) / what.calls)

    return block


class _Clock(keras.callbacks.Callback):
    """Seconds from the end of the first batch to that of the last."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.ends.append(time.perf_counter())


def training_block(worker: Worker, what: Training) -> Block:
    """Calls fit()."""
    random = np.random.RandomState(worker.rank)
    inputs = random.randint(200_000, size=(what.batch, what.words), dtype=np.int32) if what.words else None
    if inputs is None:
        inputs = random.rand(what.batch, *what.images).astype(np.float32)
    labels = random.randint(10, size=what.batch)
    keras.utils.set_random_seed(1)
    with worker.scope():
        model = what.model(keras)
        optimizer = worker.optimizer(keras.optimizers.SGD(0.01))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=optimizer, loss=loss)
    dataset = worker.dataset((inputs, labels), what.batch)

    def block() -> Turn:
        clock = _Clock()
        worker.barrier()
        model.fit(dataset, steps_per_epoch=what.steps + 1, epochs=1, verbose=0, callbacks=[clock])
        return Turn((clock.ends[-1] - clock.ends[0]) / what.steps)

    return block


def main() -> None:
    """Serves turns until its input ends."""
    system, rank, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    # TensorFlow's own collectives need a thread that waits beside the one that computes.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    worker = SYSTEMS[system](rank, size)
    workloads = [*REDUCTIONS, *TRAININGS]

    def make(number: int, _contender: str) -> Block:
        what = workloads[number]
        return reduction_block(worker, what) if isinstance(what, Reduction) else training_block(worker, what)

    serve(make)


if __name__ == "__main__":
    main()
