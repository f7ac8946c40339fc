"""Distributed training with PyTorch."""

from colla.torch import _backend as _backend
