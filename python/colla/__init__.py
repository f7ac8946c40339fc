"""Colla for Python: the command ``colla``, and distributed training in ``colla.torch``.

This package itself needs no framework. ``run()`` calls a function in the workers of a job;
``Meeting`` is for processes that somebody else started. ``Pool`` is multiprocessing's, with arrays in shared memory.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colla._meeting import Meeting
    from colla._run import run
    from colla._world import World
    from colla.pool import Pool

__all__ = ["Meeting", "Pool", "World", "__version__", "run"]

__version__: str


def __getattr__(name: str) -> Any:
    # Loaded when they are used: ``import torch`` imports this package, to register a backend (colla._registration).
    if name == "Meeting":
        from colla._meeting import Meeting as value
    elif name == "Pool":
        from colla.pool import Pool as value
    elif name == "World":
        from colla._world import World as value
    elif name == "run":
        from colla._run import run as value
    elif name == "__version__":
        from colla._core import version as value
    else:
        raise AttributeError(f"module 'colla' has no attribute {name!r}")
    globals()[name] = value
    return value
