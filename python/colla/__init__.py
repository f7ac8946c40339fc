"""Colla for Python: the command ``colla``, and distributed training in ``colla.torch``.

This package itself needs no framework. ``Meeting`` is for processes that somebody else started.
"""

from colla import _core
from colla._meeting import Meeting
from colla._world import World

__all__ = ["Meeting", "World", "__version__"]

__version__: str = _core.version
