"""Collectives of tensors: eager, in a ``tf.function`` and in graphs. The module's name is Horovod's."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

from colla import _world
from colla._core import Op
from colla._process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    number_of,
    remove_process_set,
)
from colla._reductions import Adasum, Average, Max, Min, Product, Sum, choose_op
from colla._world import rank, size
from colla.tensorflow import _kernels
from colla.tensorflow._library import kernels
from colla.tensorflow.compression import Compression, Compressor

__all__ = [
    "Adasum",
    "Average",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "global_process_set",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "join",
    "local_rank_op",
    "local_size_op",
    "process_set_included_op",
    "rank",
    "rank_op",
    "reducescatter",
    "remove_process_set",
    "size",
    "size_op",
]


def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> Any:
    """Reduces the ranks' tensors, which have the same shape and type, and returns the result.

    Args:
        tensor: What this rank brings: a tensor, a variable, or ``tf.IndexedSlices``, of which those of all ranks are
            gathered.
        average: Deprecated: True for ``op=Average``, False for ``op=Sum``.
        device_dense, device_sparse: There for Horovod's sake: the operation is on the CPU.
        compression: ``Compression.fp16`` or ``bf16``: floats travel with 16 bits.
        op: Average (the default), Sum, Min, Max, Product or Adasum. The average of integers drops the fraction.
        prescale_factor: Elements are multiplied by it before the reduction,
        postscale_factor: and by this one after it.
        name: Ranks' operations are matched by it. Without one, by their order; in a graph, by their nodes' names.
        process_set: The ranks that take part.
        ignore_name_scope: In a graph, name scopes are no part of the name.
    """
    return grouped_allreduce(
        [tensor],
        average,
        device_dense,
        device_sparse,
        compression,
        op,
        prescale_factor,
        postscale_factor,
        process_set,
        ignore_name_scope,
        name,
    )[0]


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> list[Any]:
    """``allreduce()`` of several tensors, which are reduced together once all ranks brought all."""
    if not tensors:
        return list(tensors)
    chosen = choose_op(op, average)
    results: list[Any] = list(tensors)
    sparse = [i for i, tensor in enumerate(tensors) if isinstance(tensor, tf.IndexedSlices)]
    dense = [i for i, tensor in enumerate(tensors) if not isinstance(tensor, tf.IndexedSlices)]
    if sparse:
        if prescale_factor != 1.0 or postscale_factor != 1.0:
            raise NotImplementedError("tf.IndexedSlices have no factors: prescale_factor, postscale_factor")
        reduced = _reduce_slices([tensors[i] for i in sparse], chosen, name, process_set, ignore_name_scope)
        for i, result in zip(sparse, reduced):
            results[i] = result
    if dense:
        compressed = [compression.compress(tf.convert_to_tensor(tensors[i])) for i in dense]
        reduced = _kernels.reduce(
            [small for small, _ in compressed],
            name,
            chosen,
            prescale_factor,
            postscale_factor,
            ignore_name_scope,
            process_set,
        )
        for i, small, (_, context) in zip(dense, reduced, compressed):
            results[i] = compression.decompress(small, context)
    return results


def _reduce_slices(
    slices: Sequence[Any], op: Op, name: str | None, process_set: ProcessSet, ignore_name_scope: bool
) -> list[Any]:
    """Slices of all ranks behind each other; an index may stand there several times."""
    if op not in (Sum, Average):
        raise NotImplementedError(
            f"tf.IndexedSlices can be added and averaged, but not reduced with {op}: sparse_as_dense=True helps"
        )
    count = len(slices)
    parts = [part for one in slices for part in (one.values, one.indices)]
    gathered = _kernels.gather(parts, name, ignore_name_scope, process_set)
    values = [gathered[2 * i] for i in range(count)]
    if op == Average:
        values = [value / tf.cast(process_set.size(), value.dtype) for value in values]
    return [tf.IndexedSlices(values[i], gathered[2 * i + 1], slices[i].dense_shape) for i in range(count)]


def allgather(
    tensor: Any,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The tensors of all ranks, in their order, behind each other along the first dimension, in which they may
    differ."""
    return _kernels.gather([tensor], name, ignore_name_scope, process_set)[0]


def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """``allgather()`` of several tensors, once all ranks brought all of them."""
    return _kernels.gather(tensors, name, ignore_name_scope, process_set)


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The tensor of `root_rank`, a rank of the job. All bring one of the same shape and type."""
    tensors = _kernels.tensors_of([tensor])
    return kernels.colla_broadcast(
        tensors=tensors,
        root_rank=root_rank,
        **_kernels.attributes("Broadcast", name, process_set, ignore_name_scope),
    )[0]


def broadcast_(
    variables: Sequence[Any],
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Replaces the values of variables by those of `root_rank`, in place, and returns them."""
    variables = list(variables)
    if not variables:
        return []
    resources = [resource_variable_ops.is_resource_variable(variable) for variable in variables]
    if not any(resources):  # Variables of TensorFlow 1: assign() takes the result's memory over.
        return [variable.assign(broadcast(variable, root_rank, name, process_set=process_set)) for variable in variables]
    if not all(resources):
        raise ValueError("broadcast_() takes variables of one kind: resource variables, or those of TensorFlow 1")
    done = kernels.colla_broadcast_variables(
        variables=[variable.handle for variable in variables],
        root_rank=root_rank,
        **_kernels.attributes("BroadcastVariables", name, process_set),
    )
    with tf.control_dependencies([done] if done is not None else []):
        return [variable.read_value() for variable in variables]


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends rows of `tensor` to every rank, and returns those that came, in the order of their ranks.

    `splits` says how many rows go to each rank; then the result is a pair, with how many came from each. Without it all
    get the same number.
    """
    output, received = _kernels.send(tensor, splits, name, ignore_name_scope, process_set)
    return output if splits is None else (output, received)


def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: Op = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Reduces the ranks' tensors as ``allreduce()`` does, and gives each rank its rows of the result. Where they can't
    be shared evenly, the first ranks get one more."""
    small, context = compression.compress(tf.convert_to_tensor(tensor))
    (reduced,) = _kernels.scatter(
        [small], name, choose_op(op, None), ignore_name_scope, process_set, prescale_factor, postscale_factor
    )
    return compression.decompress(reduced, context)


def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
) -> list[Any]:
    """``reducescatter()`` of several tensors, once all ranks brought all of them."""
    if not tensors:
        return list(tensors)
    compressed = [compression.compress(tf.convert_to_tensor(tensor)) for tensor in tensors]
    reduced = _kernels.scatter(
        [small for small, _ in compressed],
        name,
        choose_op(op, None),
        False,
        process_set,
        prescale_factor,
        postscale_factor,
    )
    return [compression.decompress(small, context) for small, (_, context) in zip(reduced, compressed)]


def join() -> Any:
    """Says that this rank has no more data. Waits for all others to say so, and takes part with zeros in what they
    reduce until then. Gives the rank that came last."""
    return kernels.colla_join()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when all ranks of the set have called it."""
    _world.current().exchange.barrier(number_of(process_set))


def size_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """How many ranks a process set has when the graph runs."""
    return kernels.colla_number(what="size", process_set_id=process_set_id, name=name)


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """1 if this process is a member of a process set when the graph runs, else 0; -1 before ``init()``, -2 if there is
    no such set."""
    return kernels.colla_number(what="included", process_set_id=process_set_id, name=name)


def local_size_op(name: str | None = None) -> Any:
    """How many processes are on this host when the graph runs."""
    return kernels.colla_number(what="local_size", name=name)


def rank_op(name: str | None = None) -> Any:
    """This process's number in the job when the graph runs."""
    return kernels.colla_number(what="rank", name=name)


def local_rank_op(name: str | None = None) -> Any:
    """This process's number among those on its host when the graph runs."""
    return kernels.colla_number(what="local_rank", name=name)
