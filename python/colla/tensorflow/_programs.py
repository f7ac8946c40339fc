"""Graphs of TensorFlow 1 whose optimizers know nothing of Colla: Colla takes their place where they change variables.

Programs for Parallax make optimizers of TensorFlow's own classes. While they are taken over, ``apply_gradients()`` of all of
them leads here.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from colla.tensorflow.optimizer import _DeltaOptimizer, _GraphOptimizer, _LocalOptimizer

v1 = tf.compat.v1
_Pairs = Sequence[tuple[Any, Any]]
# Gets the optimizer, its pairs of gradient and variable, the global step, the operation's name, and TensorFlow's own
# way to apply them.
Handler = Callable[[Any, _Pairs, Any, str | None, Callable[..., Any]], Any]

_original = v1.train.Optimizer.apply_gradients


def take_over(handler: Handler | None) -> None:
    """Has `handler` apply the gradients of TensorFlow's optimizers; None: TensorFlow does."""
    if handler is None:
        v1.train.Optimizer.apply_gradients = _original
        return

    @functools.wraps(_original)
    def apply_gradients(self: Any, grads_and_vars: _Pairs, global_step: Any = None, name: str | None = None) -> Any:
        own = functools.partial(_original, self)
        if isinstance(self, (_GraphOptimizer, _DeltaOptimizer, _LocalOptimizer)):
            return own(grads_and_vars, global_step=global_step, name=name)
        return handler(self, list(grads_and_vars), global_step, name, own)

    v1.train.Optimizer.apply_gradients = apply_gradients


def local_device(device: str) -> str:
    """A device without what says in which process it is: variables and operations are in this one."""
    spec = tf.DeviceSpec.from_string(device or "")
    return spec.replace(job=None, replica=None, task=None).to_string()


def place_here(graph: Any) -> None:
    """Puts all operations of a graph into this process."""
    for operation in graph.get_operations():
        if "/job:" in operation.device or "/task:" in operation.device:
            operation._set_device(local_device(operation.device))
