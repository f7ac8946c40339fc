"""Horovod's name for the module with its operations, for programs that import from there."""

from colla.torch import *  # noqa: F403
from colla.torch import __all__ as __all__
