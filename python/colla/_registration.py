"""Makes the backend ``colla`` known to ``torch.distributed``.

``import torch`` calls ``register()``: the package's metadata names it as an entry point of ``torch.backends``. Every
program that imports PyTorch pays for it, so nothing else of Colla is loaded before a program makes a group. An
exception here would break ``import torch``: what is wrong with the installation is raised when a group is made.
"""

import datetime
import sys
from typing import Any


def _create(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> Any:
    from colla.torch import _backend

    return _backend.create(store, rank, size, timeout)


def register() -> None:
    """Registers the backend, once. Torch has been imported, or is at the end of it."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or "COLLA" in dist.Backend._plugins:
        return
    dist.Backend.register_backend("colla", _create, devices=["cpu"])
