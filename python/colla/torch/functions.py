"""State from one rank to all: parameters, optimizers, and whatever can be pickled."""

from collections.abc import Iterable
from typing import Any

import torch

from colla._objects import allgather_object, broadcast_object
from colla.torch import _world, ops

__all__ = ["allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters"]

_Named = tuple[str | None, torch.Tensor]


def broadcast_parameters(
    params: dict[str, torch.Tensor] | list[torch.Tensor] | list[tuple[str, torch.Tensor]],
    root_rank: int,
) -> None:
    """Replaces parameters by those of `root_rank`.

    `params` is ``model.state_dict()``, or a list such as ``list(model.named_parameters())`` or
    ``list(model.parameters())``, in the same order on all ranks.
    """
    named: Iterable[_Named]
    if isinstance(params, dict):
        named = sorted(params.items())
    elif isinstance(params, list):
        named = [entry if isinstance(entry, tuple) else (None, entry) for entry in params]
    else:
        raise ValueError(f"params takes a dict or a list of parameters, not {type(params).__name__}")
    handles = [ops.broadcast_async_(tensor, root_rank, name) for name, tensor in named]
    for handle in handles:
        ops.synchronize(handle)


class _Tensor:
    """Stands for a tensor in a state that is sent without its tensors."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape = tensor.shape
        self.dtype = tensor.dtype

    def empty(self) -> torch.Tensor:
        return torch.empty(self.shape, dtype=self.dtype)


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int, model: torch.nn.Module | None = None
) -> None:
    """Replaces the optimizer's state and options (learning rates and so on) by those of `root_rank`.

    The other ranks need not have a state yet. `model` is there for Horovod's sake.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("the state of LBFGS is not for broadcast: it has no tensors that belong to parameters")
    params = [param for group in optimizer.param_groups for param in group["params"]]
    mine = _world.rank() == root_rank
    options: Any = None
    state: Any = None
    if mine:
        options = [
            {key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups
        ]
        state = [
            {key: _Tensor(value) if torch.is_tensor(value) else value for key, value in optimizer.state[param].items()}
            if param in optimizer.state
            else None
            for param in params
        ]
    options, state = broadcast_object((options, state), root_rank)
    if len(options) != len(optimizer.param_groups) or len(state) != len(params):
        raise ValueError(f"the optimizer of rank {root_rank} has other parameters than that of rank {_world.rank()}")

    if not mine:
        for group, values in zip(optimizer.param_groups, options):
            group.update(values)
        for param, values in zip(params, state):
            optimizer.state.pop(param, None)
            if values is not None:
                optimizer.state[param] = {
                    key: value.empty() if isinstance(value, _Tensor) else value for key, value in values.items()
                }
    tensors = [
        value
        for param, values in zip(params, state)
        if values is not None
        for value in optimizer.state[param].values()
        if torch.is_tensor(value)
    ]
    broadcast_parameters(tensors, root_rank)
    if not any(state):
        # Programs that were written for Horovod may count on gradients after this.
        for param in params:
            if param.requires_grad and param.grad is None:
                param.grad = torch.zeros_like(param)
