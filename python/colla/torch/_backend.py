"""The backend ``colla`` of ``torch.distributed``; ``colla._registration`` makes it known."""

import atexit
import datetime
import os

import torch
import torch.distributed as dist

from colla import _torch
from colla._registration import register

# At the end of a program, for operations that nobody waited for.
_GRACE = datetime.timedelta(seconds=5)


def create(store: "dist.Store", rank: int, size: int, timeout: datetime.timedelta):
    """Makes a process group; ``register()`` hands it to torch."""
    # DistributedDataParallel asks the backend for the memory of its buckets if told so.
    os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")
    atexit.unregister(_leave_all)
    atexit.register(_leave_all)
    return _torch.create_process_group(store, rank, size, timeout)


def _leave_all() -> None:
    """Leaves the groups that the program did not destroy, while Python is still whole."""
    for group in list(dist.distributed_c10d._world.pg_map):
        try:
            backend = group._get_backend(torch.device("cpu"))
        except RuntimeError:
            continue  # It has none for this device.
        # What TORCH_DISTRIBUTED_DEBUG=DETAIL puts around each group.
        backend = getattr(backend, "wrapped_pg", backend)
        _torch.leave_process_group(backend, _GRACE)


register()
