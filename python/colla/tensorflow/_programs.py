"""Graphs of TensorFlow 1 whose optimizers know nothing of Colla: Colla takes their place where they change variables.

Programs for TensorFlow's servers and for Parallax make optimizers of TensorFlow's own classes. While they are taken over,
``apply_gradients()`` of all of them leads here.
"""

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from colla.tensorflow import functions
from colla.tensorflow._servers import Served
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


class ServedGraph:
    """A graph whose variables servers change, and how this rank's end of them comes into it."""

    _all: "weakref.WeakKeyDictionary[tf.Graph, ServedGraph]" = weakref.WeakKeyDictionary()

    def __init__(self, served: Served, pairs: _Pairs, global_step: Any) -> None:
        graph = v1.get_default_graph()
        if graph in self._all:
            raise ValueError("servers run one optimizer for all variables of a graph, but this graph has two")
        self._all[graph] = self
        self._served = served
        self._pairs = [pair for pair in pairs if pair[0] is not None]
        self._global_step = global_step

    @classmethod
    def of(cls, graph: Any) -> "ServedGraph | None":
        """That of a graph, if it has one."""
        return cls._all.get(graph)

    def update(self, name: str | None = None) -> Any:
        """The operation that ends this rank's step. It sets the global step to the servers' count of updates."""
        updates = self._served.update(self._pairs)
        step = self._global_step
        if step is None:
            return tf.group(updates, name=name)
        return v1.assign(step, tf.cast(updates, step.dtype.base_dtype), name=name)

    def open(self) -> Any:
        """The operation that meets the servers, which count on from the global step."""
        step = 0 if self._global_step is None else tf.convert_to_tensor(self._global_step)
        return self._served.open(self._pairs, step)


class BeginTogether(v1.train.SessionRunHook):
    """All ranks begin with the variables of rank 0, and meet the servers if there are any."""

    def begin(self) -> None:
        """Adds its operations to the graph."""
        served = ServedGraph.of(v1.get_default_graph())
        self._same = functions.broadcast_global_variables(0)
        self._open = None
        if served is not None:
            with tf.control_dependencies([self._same]):
                self._open = served.open()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Carries them out."""
        session.run(self._same if self._open is None else self._open)


def local_device(device: str) -> str:
    """A device without what says in which process it is: variables and operations are in this one."""
    spec = tf.DeviceSpec.from_string(device or "")
    return spec.replace(job=None, replica=None, task=None).to_string()


def place_here(graph: Any) -> None:
    """Puts all operations of a graph into this process."""
    for operation in graph.get_operations():
        if "/job:" in operation.device or "/task:" in operation.device:
            operation._set_device(local_device(operation.device))
