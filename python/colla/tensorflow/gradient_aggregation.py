"""Gradients of several backward passes, added up on a rank before ranks exchange them."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from colla.tensorflow.util import dense


def _in_graph() -> bool:
    """Whether this is a graph of TensorFlow 1, and not one of a tf.function."""
    return not tf.compat.v1.executing_eagerly_outside_functions()


def _make_variable(name: str, value: Callable[[], Any]) -> Any:
    """A variable that is made once, also from inside a tf.function. In a graph it is a local one: it is in no checkpoint
    and not broadcast."""
    if _in_graph():
        local = [tf.compat.v1.GraphKeys.LOCAL_VARIABLES]
        return tf.compat.v1.Variable(value, trainable=False, collections=local, name=name, use_resource=True)
    with tf.init_scope():
        return tf.Variable(value(), trainable=False, name=name)


class LocalGradientAggregationHelper:
    """Reduces every `backward_passes_per_step`-th time, and applies gradients then alone.

    Args:
        backward_passes_per_step: How many passes are added up.
        allreduce_func: Reduces a list of gradients, given the list of their variables too.
        sparse_as_dense: ``tf.IndexedSlices`` are added up as dense tensors; otherwise they are refused.
        average_aggregated_gradients: The sum is divided by the number of passes.
    """

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: Callable[[list[Any], Sequence[Any]], list[Any]],
        sparse_as_dense: bool,
        average_aggregated_gradients: bool,
    ) -> None:
        if backward_passes_per_step <= 0:
            raise ValueError(f"backward_passes_per_step must be above 0, not {backward_passes_per_step}")
        self.backward_passes_per_step = backward_passes_per_step
        self.average_aggregated_gradients = average_aggregated_gradients
        self.sparse_as_dense = sparse_as_dense
        self._reduce = allreduce_func
        self._sums: dict[int, Any] = {}
        # Passes since gradients were reduced. A graph needs it where its operations are added.
        self.counter: Any = None if _in_graph() else _make_variable("passes", lambda: tf.constant(0))

    def compute_gradients(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Adds gradients up. Returns those of all ranks if this pass is the last before a step, else the sums so far."""
        if self.counter is None:
            self.counter = _make_variable("passes", lambda: tf.constant(0))
        there = [i for i, gradient in enumerate(gradients) if gradient is not None]
        additions = []
        for i in there:
            additions.append(self._sum(i, gradients[i]).assign_add(self._dense(gradients[i])))
        with tf.control_dependencies(_operations(additions)):
            passes = self.counter.assign_add(1)
        with tf.control_dependencies(_operations([passes])):
            reduced = tf.cond(
                tf.equal(self.counter.read_value(), self.backward_passes_per_step),
                lambda: self._finish(there, variables),
                lambda: [self._sums[i].read_value() for i in there],
            )
        results: list[Any] = [None] * len(gradients)
        for i, gradient in zip(there, reduced):
            results[i] = gradient
        return results

    def _dense(self, gradient: Any) -> Any:
        if isinstance(gradient, tf.IndexedSlices) and not self.sparse_as_dense:
            raise ValueError("backward_passes_per_step > 1 can't add up tf.IndexedSlices: give sparse_as_dense=True")
        return dense(gradient)

    def _sum(self, number: int, gradient: Any) -> Any:
        if number not in self._sums:
            shape = self._dense(gradient).shape
            self._sums[number] = _make_variable(f"sum_{number}", lambda: tf.zeros(shape, gradient.dtype))
        return self._sums[number]

    def _finish(self, there: list[int], variables: Sequence[Any]) -> list[Any]:
        sums = [self._sums[i].read_value() for i in there]
        reduced = self._reduce(sums, [variables[i] for i in there])
        if self.average_aggregated_gradients:
            reduced = [gradient / self.backward_passes_per_step for gradient in reduced]
        with tf.control_dependencies(_operations(reduced)):
            resets = [self.counter.assign(0)]
            resets += [self._sums[i].assign(tf.zeros_like(self._sums[i])) for i in there]
        with tf.control_dependencies(_operations(resets)):
            return [tf.identity(gradient) for gradient in reduced]

    def apply_gradients(self, apply: Callable[[], Any], skip: Callable[[], Any], gradients: Sequence[Any]) -> Any:
        """Calls `apply` if `gradients` are those of all ranks, else `skip`; both give an operation in a graph."""
        with tf.control_dependencies(_operations([gradient for gradient in gradients if gradient is not None])):
            return tf.cond(tf.equal(self.counter.read_value(), 0), apply, skip)


def _operations(values: Sequence[Any]) -> list[Any]:
    """What has to come first in a graph. Eagerly, everything is carried out in the order of calls."""
    return [] if tf.executing_eagerly() else list(values)
