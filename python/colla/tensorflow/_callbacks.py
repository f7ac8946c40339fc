"""Callbacks of Keras, without the class of Keras that they are callbacks of: programs have Keras 3 or tf-keras."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from colla import _world
from colla.tensorflow import functions, mpi_ops
from colla.tensorflow._gradients import reference
from colla.tensorflow._keras import evaluate


class BroadcastGlobalVariables:
    """Replaces the model's and the optimizer's variables by those of `root_rank` after the first batch, when all of them
    have been made. So all ranks begin with the same, at random or from a checkpoint.

    `local_variables` are left to each rank. `device` is there for Horovod's sake.
    """

    model: Any

    def __init__(self, root_rank: int, device: str = "", local_variables: Any = None) -> None:
        super().__init__()
        self.root_rank = root_rank
        self.broadcast_done = False
        self._local: set[Any] = set()
        listed = [] if local_variables is None else local_variables
        for variable in listed if isinstance(listed, (list, tuple, set)) else [listed]:
            self.register_local_var(variable)

    def register_local_var(self, var: Any) -> None:
        """Leaves `var` to this rank."""
        self._local.add(reference(var))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Broadcasts, once."""
        if self.broadcast_done:
            return
        if tf.executing_eagerly():
            variables = [var for var in self.model.variables if reference(var) not in self._local]
            listed = self.model.optimizer.variables
            functions.broadcast_variables(variables, self.root_rank)
            functions.broadcast_variables(listed() if callable(listed) else listed, self.root_rank)
        else:
            evaluate(functions.broadcast_global_variables(self.root_rank))
        self.broadcast_done = True

    on_batch_end = on_train_batch_end


class MetricAverage:
    """Averages metrics over ranks at the end of each epoch, for the callbacks that come after it.

    `device` is there for Horovod's sake.
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Replaces what is in `logs`."""
        names = sorted(logs or {})
        if not names:
            return
        values = tf.constant([float(logs[name]) for name in names], tf.float64)
        averages = evaluate(mpi_ops.allreduce(values, op=mpi_ops.Average))
        for name, average in zip(names, averages):
            logs[name] = float(average)


class LearningRateSchedule:
    """Multiplies the learning rate from epoch `start_epoch` to before `end_epoch`.

    Args:
        initial_lr: The learning rate that is multiplied.
        multiplier: A function of the epoch, or a number: then the factor is its power, to as many as epochs have passed
            since `start_epoch`.
        start_epoch, end_epoch: Where it begins, and ends if there is an end.
        staircase: The factor changes with epochs; otherwise with batches.
        momentum_correction: The momentum is scaled with the learning rate, for the batch in which that changes.
        steps_per_epoch: Needed without `staircase` where Keras does not know it.
    """

    model: Any
    params: dict[str, Any]

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        if initial_lr is None:
            raise ValueError("initial_lr is needed")
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0
        self._momentum: Any = None  # What it was before it was scaled.
        self.multiplier: Callable[[float], float]
        if callable(multiplier):
            self.multiplier = multiplier
        else:
            factor = multiplier
            self.multiplier = lambda epoch: factor ** (epoch - start_epoch)

    def on_train_begin(self, logs: Any = None) -> None:
        """Finds out how many batches an epoch has."""
        if self.staircase or self.steps_per_epoch:
            return
        self.steps_per_epoch = self.params.get("steps")
        if not self.steps_per_epoch:
            raise ValueError(f"{type(self).__name__} can't see how many batches an epoch has: give steps_per_epoch")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Remembers the epoch."""
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Sets the learning rate."""
        ended = self.end_epoch is not None and self.current_epoch >= self.end_epoch
        if self.current_epoch < self.start_epoch or ended:
            return
        if not self.staircase:
            assert self.steps_per_epoch
            self._adjust(self.current_epoch + batch / self.steps_per_epoch)
        elif batch == 0:
            self._adjust(self.current_epoch)

    on_batch_begin = on_train_batch_begin

    def _adjust(self, epoch: float) -> None:
        optimizer = self.model.optimizer
        before = _get(optimizer.learning_rate)
        after = self.initial_lr * self.multiplier(epoch)
        _set(optimizer, "learning_rate", after)
        momentum = getattr(optimizer, "momentum", None)
        if self.momentum_correction and momentum is not None and _changeable(momentum) and before:
            self._momentum = _get(momentum)
            _set(optimizer, "momentum", self._momentum * after / before)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Sets the momentum back."""
        if self._momentum is not None:
            _set(self.model.optimizer, "momentum", self._momentum)
            self._momentum = None

    on_batch_end = on_train_batch_end

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Adds the learning rate to what is logged."""
        if logs is not None:
            logs["lr"] = _get(self.model.optimizer.learning_rate)


def _changeable(value: Any) -> bool:
    """A number is a constant in the functions that Keras has traced."""
    return hasattr(value, "assign")


def _get(value: Any) -> float:
    return float(evaluate(value) if not tf.executing_eagerly() else value)


def _set(optimizer: Any, name: str, value: float) -> None:
    variable = getattr(optimizer, name)
    if not hasattr(variable, "assign"):
        setattr(optimizer, name, value)
    elif tf.executing_eagerly():
        variable.assign(value)
    else:
        variable.load(value, tf.compat.v1.keras.backend.get_session())


class LearningRateWarmup(LearningRateSchedule):
    """Raises the learning rate from ``initial_lr / size()`` to `initial_lr` within `warmup_epochs` epochs.

    With `verbose`, rank 0 prints a line when that is done.
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            assert self.steps_per_epoch
            # At the end of each epoch the rate is a round one.
            done = (epoch + 1 / self.steps_per_epoch) / warmup_epochs
            return (done * (_world.size() - 1) + 1) / _world.size()

        super().__init__(
            initial_lr,
            multiplier,
            end_epoch=warmup_epochs,
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Says when the warm-up is over."""
        super().on_epoch_end(epoch, logs)
        if self.verbose and self.end_epoch is not None and epoch == self.end_epoch - 1 and _world.rank() == 0:
            rate = _get(self.model.optimizer.learning_rate)
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {rate:g}.")
