"""Colla for Python: the command ``colla``, and distributed training in ``colla.torch``."""

import torch as _torch

from colla import _core

__version__: str = _core.version

# Types of torch are handed over as they are in memory: another version has others.
if _torch.__version__.split("+")[0] != _core.torch_version:
    raise ImportError(
        f"colla was built for torch {_core.torch_version}, but torch {_torch.__version__} is"
        " installed: build it again with pip install --force-reinstall --no-deps, or install"
        " that torch"
    )
