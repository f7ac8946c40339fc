"""The backend ``colla`` of ``torch.distributed``: importing this registers it."""

import atexit
import datetime
import os

import torch
import torch.distributed as dist

from colla import _torch

# At the end of a program, for operations that nobody waited for.
_GRACE = datetime.timedelta(seconds=5)


def _create(store: "dist.Store", rank: int, size: int, timeout: datetime.timedelta):
    # DistributedDataParallel asks the backend for the memory of its buckets if told so.
    os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")
    return _torch.create_process_group(store, rank, size, timeout)


def _leave_all() -> None:
    """Leaves the groups that the program did not destroy, while Python is still whole."""
    for group in list(dist.distributed_c10d._world.pg_map):
        try:
            backend = group._get_backend(torch.device("cpu"))
        except RuntimeError:
            continue  # It has none for this device.
        _torch.leave_process_group(backend, _GRACE)


if dist.is_available() and "COLLA" not in dist.Backend._plugins:
    dist.Backend.register_backend("colla", _create, devices=["cpu"])
    atexit.register(_leave_all)
