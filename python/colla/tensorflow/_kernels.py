"""Tensors in, tensors out: how an operation gets its name and its process set, and its gradient.

Eagerly, an operation is matched by the name that it was given or, if it has none, by the order in which a rank starts
operations of its kind and set. In a graph nobody knows that order: there the node's name counts. TensorFlow numbers nodes
without a name in the order in which a graph is made, so ranks that make the same graph have the same names. Names of
tensors would not do: those of constants from outside a function differ from rank to rank.
"""

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops as framework_ops

from colla import _world
from colla._core import Op
from colla._process_sets import ProcessSet, global_process_set, number_of
from colla.tensorflow._library import kernels


def tensors_of(values: Sequence[Any]) -> list[Any]:
    """The values of variables, arrays and so on."""
    tensors = [tf.convert_to_tensor(value) for value in values]
    if not tensors:
        raise ValueError("a group needs at least one tensor")
    return tensors


def attributes(
    word: str, name: str | None, process_set: ProcessSet | int, ignore_name_scope: bool = False
) -> dict[str, Any]:
    """What every kernel takes."""
    number = process_set if isinstance(process_set, int) else number_of(process_set)
    if number != 0 and _world.is_initialized() and number not in _world.current().exchange.core.sets():
        raise ValueError(f"there is no process set {number}")
    if tf.executing_eagerly():
        _world.current()  # Raises, in the words of colla.torch.
        return {"tensor_name": name or "", "ordered": not name, "process_set_id": number}
    name = re.sub(r"[^A-Za-z0-9_.\-/]", "_", name or f"Colla{word}")
    return {"name": name, "process_set_id": number, "ignore_name_scope": ignore_name_scope}


def reduce(
    tensors: Sequence[Any],
    name: str | None = None,
    op: Op = Op.SUM,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet | int = global_process_set,
) -> list[Any]:
    """An allreduce of several tensors together."""
    tensors = tensors_of(tensors)
    return kernels.colla_allreduce(
        tensors=tensors,
        op=int(op),
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        **attributes("Allreduce", name, process_set, ignore_name_scope),
    )


def gather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet | int = global_process_set,
) -> list[Any]:
    """An allgather of several tensors together."""
    tensors = tensors_of(tensors)
    return kernels.colla_allgather(
        tensors=tensors, **attributes("Allgather", name, process_set, ignore_name_scope)
    )


def scatter(
    tensors: Sequence[Any],
    name: str | None = None,
    op: Op = Op.SUM,
    ignore_name_scope: bool = False,
    process_set: ProcessSet | int = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Any]:
    """A reducescatter of several tensors together."""
    tensors = tensors_of(tensors)
    return kernels.colla_reducescatter(
        tensors=tensors,
        op=int(op),
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        **attributes("Reducescatter", name, process_set, ignore_name_scope),
    )


def send(
    tensor: Any,
    splits: Any,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet | int = global_process_set,
) -> tuple[Any, Any]:
    """An alltoall: the rows that came, and how many from each rank."""
    (tensor,) = tensors_of([tensor])
    splits = tf.constant([], tf.int32) if splits is None else tf.convert_to_tensor(splits)
    return kernels.colla_alltoall(
        tensor=tensor, splits=splits, **attributes("Alltoall", name, process_set, ignore_name_scope)
    )


def _place(number: int) -> tuple[int, int]:
    """This rank's place among the members of a process set, and their number."""
    members = _world.current().exchange.core.sets()[number]
    return members.index(_world.rank()), len(members)


def _typed(operation: Any, gradients: Sequence[Any]) -> list[Any]:
    """TensorFlow gives zeros of float32 for a result that nobody used, whatever its type."""
    return [tf.cast(gradient, output.dtype) for gradient, output in zip(gradients, operation.outputs)]


@framework_ops.RegisterGradient("CollaAllreduce")
def _of_allreduce(operation: Any, *gradients: Any) -> list[Any]:
    return reduce(
        _typed(operation, gradients),
        op=Op(operation.get_attr("op")),
        prescale_factor=operation.get_attr("prescale_factor"),
        postscale_factor=operation.get_attr("postscale_factor"),
        ignore_name_scope=operation.get_attr("ignore_name_scope"),
        process_set=operation.get_attr("process_set_id"),
    )


@framework_ops.RegisterGradient("CollaAllgather")
def _of_allgather(operation: Any, *gradients: Any) -> list[Any]:
    number = operation.get_attr("process_set_id")
    place, _ = _place(number)
    reduced = reduce(_typed(operation, gradients), op=Op.AVERAGE, process_set=number)
    mine = tf.stack([tf.shape(tensor, tf.int64)[0] for tensor in operation.inputs])
    (rows,) = gather([mine[tf.newaxis]], process_set=number)  # A line for each rank.
    firsts = tf.reduce_sum(rows[:place], axis=0)
    return [whole[firsts[i] : firsts[i] + mine[i]] for i, whole in enumerate(reduced)]


@framework_ops.RegisterGradient("CollaReducescatter")
def _of_reducescatter(operation: Any, *gradients: Any) -> list[Any]:
    number = operation.get_attr("process_set_id")
    factor = operation.get_attr("prescale_factor") * operation.get_attr("postscale_factor")
    if operation.get_attr("op") == int(Op.SUM):
        factor *= _place(number)[1]
    scaled = _typed(operation, gradients)
    if factor != 1:
        scaled = [gradient * tf.cast(factor, gradient.dtype) for gradient in scaled]
    return gather(scaled, process_set=number)


@framework_ops.RegisterGradient("CollaBroadcast")
def _of_broadcast(operation: Any, *gradients: Any) -> list[Any]:
    number = operation.get_attr("process_set_id")
    reduced = reduce(_typed(operation, gradients), op=Op.AVERAGE, process_set=number)
    if _world.rank() == operation.get_attr("root_rank"):
        return reduced
    with tf.control_dependencies([] if tf.executing_eagerly() else reduced):  # The root waits for this rank.
        return [tf.zeros_like(gradient) for gradient in reduced]


@framework_ops.RegisterGradient("CollaAlltoall")
def _of_alltoall(operation: Any, gradient: Any, _: Any) -> list[Any]:
    back, _sent = send(gradient, operation.outputs[1], process_set=operation.get_attr("process_set_id"))
    return [back, None]


framework_ops.NotDifferentiable("CollaNumber")
framework_ops.NotDifferentiable("CollaJoin")
