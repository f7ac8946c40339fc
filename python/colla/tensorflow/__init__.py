"""Distributed training with TensorFlow: Horovod's API.

    import colla.tensorflow as hvd

    hvd.init()
    with tf.GradientTape() as tape:
        loss = ...
    tape = hvd.DistributedGradientTape(tape)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

Start it with ``colla run -np 2 -- python train.py``, mpirun or srun; by itself it is a job of one.
"""

import importlib.util as _importlib_util

if _importlib_util.find_spec("tensorflow") is None:
    raise ImportError("colla.tensorflow needs TensorFlow, which is not installed: pip install tensorflow-cpu==2.21.0")

from colla._built import (
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rocm_built,
)
from colla._process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from colla._server_options import ServerOptions
from colla._world import (
    cross_rank,
    cross_size,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from colla.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from colla.tensorflow import elastic
from colla.tensorflow._local_sgd import LocalSgdOptions
from colla.tensorflow._world import init
from colla.tensorflow.checkpoint import CheckpointInfo, load_checkpoint, save_checkpoint
from colla.tensorflow.compression import Compression
from colla.tensorflow.functions import (
    BroadcastGlobalVariablesHook,
    allgather_object,
    broadcast_global_variables,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from colla.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from colla.tensorflow.mpi_ops import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    allgather,
    allreduce,
    alltoall,
    barrier,
    broadcast,
    broadcast_,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    reducescatter,
    size_op,
)
from colla.tensorflow.optimizer import DistributedOptimizer
from colla.tensorflow.sync_batch_norm import SyncBatchNormalization
from colla.tensorflow.tape import DistributedGradientTape, PartialDistributedGradientTape
from colla.tensorflow.util import _executing_eagerly as _executing_eagerly
