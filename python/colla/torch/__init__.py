"""Distributed training with PyTorch: Horovod's API, and the backend ``colla`` of torch.distributed.

    import colla.torch as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

Start it with ``colla run -np 2 -- python train.py``, mpirun, srun or torchrun; by itself it is a job of one.
"""

import importlib.util as _importlib_util

if _importlib_util.find_spec("torch") is None:
    raise ImportError(
        "colla.torch needs PyTorch: install torch==2.13.0, then build colla again with"
        " pip install --force-reinstall --no-deps"
    )
if _importlib_util.find_spec("colla._torch") is None:
    raise ImportError(
        "this colla was built where there was no PyTorch: build it again with"
        " pip install --force-reinstall --no-deps"
    )

import torch as _framework

# Importing torch first loads the libraries that colla._torch needs.
from colla import _torch

# Types of torch are handed over as they are in memory: a different version has different ones.
if _framework.__version__.split("+")[0] != _torch.torch_version:
    raise ImportError(
        f"colla was built for torch {_torch.torch_version}, but torch {_framework.__version__} is"
        " installed: build it again with pip install --force-reinstall --no-deps, or install"
        " that torch"
    )

from colla.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from colla.torch import _backend as _backend
from colla.torch import elastic
from colla.torch._autograd import (
    allgather,
    allreduce,
    alltoall,
    broadcast,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
)
from colla.torch._local_sgd import LocalSgdOptions
from colla.torch._servers import ServerOptions
from colla.torch._world import (
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
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
    rocm_built,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from colla.torch.checkpoint import CheckpointInfo, load_checkpoint, save_checkpoint
from colla.torch.compression import Compression
from colla.torch.functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from colla.torch.ops import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    allgather_async,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall_async,
    barrier,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allgather_async,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter_async,
    join,
    poll,
    reducescatter_async,
    sparse_allreduce_async,
    synchronize,
)
from colla.torch.optimizer import DistributedOptimizer
from colla.torch.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from colla.torch.sync_batch_norm import SyncBatchNorm

__all__ = [
    "Adasum",
    "Average",
    "CheckpointInfo",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "LocalSgdOptions",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "ServerOptions",
    "Sum",
    "SyncBatchNorm",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "load_checkpoint",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "rocm_built",
    "save_checkpoint",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]
