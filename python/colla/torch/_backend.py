"""The backend ``colla`` of ``torch.distributed``: importing this registers it."""

import datetime

import torch.distributed as dist

from colla import _core


def _create(store: dist.Store, rank: int, size: int, timeout: datetime.timedelta) -> dist.Backend:
    return _core.create_process_group(store, rank, size, timeout)


if dist.is_available() and "COLLA" not in dist.Backend._plugins:
    dist.Backend.register_backend("colla", _create, devices=["cpu"])
