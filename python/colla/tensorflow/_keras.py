"""What ``colla.tensorflow.keras`` and ``colla.keras`` have in common."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from colla._core import Op
from colla._process_sets import ProcessSet, global_process_set
from colla._reductions import Average, Sum
from colla.tensorflow import functions, mpi_ops
from colla.tensorflow._gradients import Groups, Reducer, check_groups, variables_of
from colla.tensorflow._keras_optimizer import wrap
from colla.tensorflow._keras_strategies import wrap_for
from colla.tensorflow._local_sgd import LocalSgdOptions
from colla.tensorflow._servers import ServerOptions
from colla.tensorflow._strategy import Exchange
from colla.tensorflow.compression import Compression, Compressor


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: Op = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
    strategy: str | None = None,
    server_options: ServerOptions | None = None,
    local_sgd_options: LocalSgdOptions | None = None,
) -> Any:
    """An optimizer like `optimizer`, of a class derived from its own, that reduces gradients over ranks.

    ``colla.tensorflow.DistributedOptimizer`` says what the arguments mean. `op` takes Average and Sum.
    """
    exchange = Exchange(strategy, server_options, local_sgd_options, op, process_set, backward_passes_per_step)
    if op not in (Average, Sum):
        raise ValueError(f"op takes Average or Sum for an optimizer of Keras, not {op}")
    if backward_passes_per_step <= 0:
        raise ValueError(f"backward_passes_per_step must be above 0, not {backward_passes_per_step}")
    reducer = Reducer(
        name or f"Distributed{type(optimizer).__name__}",
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        check_groups(groups, num_groups),
        process_set,
        scale_local_gradients,
    )
    if exchange.servers or exchange.local:
        return wrap_for(exchange, optimizer, reducer)
    return wrap(optimizer, reducer, backward_passes_per_step, average_aggregated_gradients)


def PartialDistributedOptimizer(optimizer: Any, *args: Any, local_layers: Any = None, **kwargs: Any) -> Any:
    """``DistributedOptimizer()`` that leaves the gradients of `local_layers`, one layer of Keras or several, to each rank."""
    made = DistributedOptimizer(optimizer, *args, **kwargs)
    for variable in variables_of(local_layers):
        made.register_local_var(variable)
    return made


def evaluate(result: Any) -> Any:
    """The value of an operation: eagerly that is what it gave."""
    if tf.executing_eagerly():
        return result
    return tf.compat.v1.keras.backend.get_session().run(result)


def broadcast_global_variables(root_rank: int) -> Any:
    """Replaces all global variables of a graph by those of `root_rank`."""
    return evaluate(functions.broadcast_global_variables(root_rank))


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: Op | None = None,
    compression: type[Compressor] = Compression.none,
) -> Any:
    """Reduces a value, of which TensorFlow can make a tensor."""
    return evaluate(
        mpi_ops.allreduce(
            tf.constant(value),
            average=average,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
            op=op,
            compression=compression,
            name=name,
        )
    )


def allgather(value: Any, name: str | None = None) -> Any:
    """The values of all ranks behind each other, along the first dimension."""
    return evaluate(mpi_ops.allgather(tf.constant(value), name))


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """The value of `root_rank`."""
    return evaluate(mpi_ops.broadcast(tf.constant(value), root_rank, name))


def reducescatter(value: Any, name: str | None = None, op: Op = Average) -> Any:
    """Reduces a value, and gives each rank some of its rows."""
    return evaluate(mpi_ops.reducescatter(tf.constant(value), op=op, name=name))


def load_model(
    models: Any,
    filepath: Any,
    custom_optimizers: Sequence[type] | None,
    custom_objects: dict[str, Any] | None,
    compression: type[Compressor],
) -> Any:
    """A saved model whose optimizer, with its state, is a DistributedOptimizer."""
    known = {cls.__name__: cls for cls in custom_optimizers or ()}
    model = models.load_model(filepath, custom_objects={**known, **(custom_objects or {})})
    if model.optimizer is not None:
        model.optimizer = DistributedOptimizer(model.optimizer, compression=compression)
    return model
