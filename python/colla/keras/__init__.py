"""Distributed training with ``keras``: Horovod's API.

    import colla.keras as hvd

    hvd.init()
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(0.001 * hvd.size())), ...)
    model.fit(..., callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
"""

from collections.abc import Sequence
from typing import Any

import keras

from colla.tensorflow import (
    Adasum,
    Average,
    Compression,
    LocalSgdOptions,
    ProcessSet,
    ServerOptions,
    Sum,
    add_process_set,
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    global_process_set,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    remove_process_set,
    rocm_built,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from colla.tensorflow import _keras
from colla.tensorflow._keras import (
    DistributedOptimizer,
    PartialDistributedOptimizer,
    allgather,
    allreduce,
    broadcast,
    broadcast_global_variables,
    reducescatter,
)
from colla.tensorflow.compression import Compressor

from colla.keras import callbacks, elastic  # isort: skip


def load_model(
    filepath: Any,
    custom_optimizers: Sequence[type] | None = None,
    custom_objects: dict[str, Any] | None = None,
    compression: type[Compressor] = Compression.none,
    legacy_opts: bool = False,
) -> Any:
    """A saved model whose optimizer, with its state, is a DistributedOptimizer.

    Args:
        filepath: What ``model.save()`` has written.
        custom_optimizers: Classes of optimizers that Keras does not have.
        custom_objects: Other classes and functions that the model needs, by name.
        compression: Of the DistributedOptimizer.
        legacy_opts: There for Horovod's sake.
    """
    return _keras.load_model(keras.models, filepath, custom_optimizers, custom_objects, compression)
