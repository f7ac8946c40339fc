"""State from one rank to all: variables, and whatever can be pickled."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

from colla import _objects
from colla._process_sets import ProcessSet, global_process_set
from colla.tensorflow.mpi_ops import broadcast_


def _variable(variable: Any) -> Any:
    """TensorFlow's variable behind one of Keras 3."""
    value = getattr(variable, "value", None)
    return value if isinstance(value, tf.Variable) else variable


def broadcast_variables(
    variables: Sequence[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> Any:
    """Replaces variables by those of `root_rank`. In a graph, gives the operation that does.

    Variables are TensorFlow's or Keras', the same on all ranks in the same order. It always works in place; `inplace`
    is there for Horovod's sake.
    """
    found = [_variable(variable) for variable in variables]
    kinds: dict[bool, list[Any]] = {}
    for variable in found:
        kinds.setdefault(resource_variable_ops.is_resource_variable(variable), []).append(variable)
    values = [value for kind in kinds.values() for value in broadcast_(kind, root_rank, process_set=process_set)]
    return None if tf.executing_eagerly() else tf.group(*values)


def broadcast_global_variables(root_rank: int) -> Any:
    """An operation of a graph that replaces all of its global variables by those of `root_rank`."""
    if tf.executing_eagerly():
        raise RuntimeError(
            "broadcast_global_variables() is for graphs; eagerly there is broadcast_variables(model.variables, root_rank)"
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Replaces all global variables by those of `root_rank` once a session is made, so that all ranks begin with the
    same, at random or from a checkpoint.

    `device` is there for Horovod's sake.
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.bcast_op: Any = None

    def begin(self) -> None:
        """Adds the operation to the graph."""
        if self.bcast_op is None or self.bcast_op.graph != tf.compat.v1.get_default_graph():
            self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Carries it out."""
        session.run(self.bcast_op)


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The object of `root_rank`, which is pickled for it. The others may bring anything.

    Objects of a job's ranks are trusted: unpickling runs code. `session` is there for Horovod's sake: no graph is
    needed.
    """
    return _objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[Any], Any]:
    """A function that gives every rank the object of `root_rank`."""
    return lambda obj: _objects.broadcast_object(obj, root_rank, name, process_set)


def allgather_object(
    obj: Any, session: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """The objects of all ranks, in their order, which are pickled for it.

    Objects of a job's ranks are trusted: unpickling runs code. `session` is there for Horovod's sake.
    """
    return _objects.allgather_object(obj, name, process_set)
