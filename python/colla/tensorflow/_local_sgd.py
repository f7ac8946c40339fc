"""The strategy local-sgd: ranks train by themselves and average their variables now and then."""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from colla.tensorflow import mpi_ops
from colla.tensorflow.functions import _variable
from colla.tensorflow.gradient_aggregation import _make_variable
from colla.tensorflow.util import in_order


@dataclasses.dataclass(frozen=True)
class LocalSgdOptions:
    """How often ranks average, and the outer optimizer; the same on every rank.

    With the defaults for `outer_lr` and `outer_momentum` the variables become the mean of the ranks' variables.
    DiLoCo has 0.7 and 0.9.
    """

    every: int = 8
    """Steps that a rank makes by itself between two averages."""
    outer_lr: float = 1.0
    """Rate of the outer optimizer: SGD along the mean difference that a round made."""
    outer_momentum: float = 0.0
    """Its Nesterov momentum."""

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"every is {self.every}, but takes 1 or more")
        if not self.outer_lr > 0:
            raise ValueError(f"outer_lr is {self.outer_lr}, but takes a number above 0")
        if not 0 <= self.outer_momentum < 1:
            raise ValueError(f"outer_momentum is {self.outer_momentum}, but takes a number from 0 to below 1")


class LocalRounds:
    """Counts this rank's steps, and averages after each `every`."""

    def __init__(self, options: LocalSgdOptions) -> None:
        self._options = options
        self._is_mean = options.outer_lr == 1 and options.outer_momentum == 0
        self._count: Any = None
        self._starts: list[Any] = []  # Where the round began, and
        self._momenta: list[Any] = []  # the outer optimizer's; both only if it needs them.

    def step(self, variables: list[Any], apply: Callable[[], Any]) -> Any:
        """Calls `apply`, which makes this rank's step, and averages when it is time. Gives an operation in a graph."""
        targets = [_variable(variable) for variable in variables]
        self._prepare(targets)
        begun = [self._begin(targets)]
        with tf.control_dependencies(in_order(begun)):
            applied = apply()
        with tf.control_dependencies(in_order([applied])):
            count = self._count.assign_add(1)
        with tf.control_dependencies(in_order([count])):
            due = tf.equal(self._count.read_value() % self._options.every, 0)
            averaged = tf.cond(due, lambda: self._average(targets), lambda: tf.constant(False))
        if tf.executing_eagerly():
            return None
        return tf.group(averaged)

    def _prepare(self, targets: list[Any]) -> None:
        if self._count is not None:
            return
        self._count = _make_variable("local_steps", lambda: tf.constant(0, tf.int64))
        if self._is_mean:
            return
        for target in targets:
            shape, kind = target.shape, target.dtype.base_dtype
            self._starts.append(_make_variable("round_start", lambda shape=shape, kind=kind: tf.zeros(shape, kind)))
            self._momenta.append(_make_variable("outer_momentum", lambda shape=shape, kind=kind: tf.zeros(shape, kind)))

    def _begin(self, targets: list[Any]) -> Any:
        """At the first step of a round, remembers where it begins."""
        if self._is_mean:
            return None

        def remember() -> Any:
            kept = [start.assign(tf.convert_to_tensor(target)) for start, target in zip(self._starts, targets)]
            with tf.control_dependencies(in_order(kept)):
                return tf.constant(True)

        return tf.cond(tf.equal(self._count.read_value() % self._options.every, 0), remember, lambda: tf.constant(False))

    def _average(self, targets: list[Any]) -> Any:
        means = mpi_ops.grouped_allreduce([tf.convert_to_tensor(target) for target in targets], op=mpi_ops.Average)
        changes = []
        if self._is_mean:
            changes = [target.assign(mean) for target, mean in zip(targets, means)]
        else:
            for target, mean, start, momentum in zip(targets, means, self._starts, self._momenta):
                gone = start - mean
                moved = momentum.assign(self._options.outer_momentum * momentum + gone)
                with tf.control_dependencies(in_order([moved])):
                    step = gone + self._options.outer_momentum * moved
                    changes.append(target.assign(start - self._options.outer_lr * step))
        with tf.control_dependencies(in_order(changes)):
            return tf.constant(True)
