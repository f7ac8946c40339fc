"""Checkpoints in the format of Colla's C++ side: ``colla inspect``, ``compare``, ``export`` and ``eval`` take
them, and either side goes on from what the other wrote."""

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from colla import _core, _torch
from colla.torch import _world
from colla.torch._local_sgd import OUTER_MOMENTUM, LocalOptimizer
from colla.torch._servers import OnServers, Served
from colla.torch.functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters

# Keys of the manifest's `extra`: options of parameter groups, and which slots of the state are numbers.
_GROUPS = "torch.param_groups"
_NUMBERS = "torch.numbers"


class CheckpointInfo(NamedTuple):
    """Where training stood when a checkpoint was written."""

    step: int
    epoch: int
    samples: int
    """Of this epoch, that have been consumed."""
    extra: dict[str, str]
    """What the writer wanted to find again."""


def save_checkpoint(
    directory: str | os.PathLike[str],
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    step: int = 0,
    *,
    epoch: int = 0,
    samples: int = 0,
    extra: dict[str, str] | None = None,
    keep: int = 0,
) -> str:
    """Writes ``directory/step-…``, and returns its path when it is on the disk.

    Rank 0 writes; other ranks may call it, and return at once. A checkpoint is there as a whole or not at
    all, whenever the process or the machine stops. With `optimizer`, what is on parameter servers is fetched
    from there, all of it as of one step.

    Args:
        step: How many steps were made; names the checkpoint.
        epoch: The number of the epoch,
        samples: and how many of its samples were consumed.
        extra: More to find again: names and texts.
        keep: Remove older ones but so many; 0: keep all.
    """
    path = os.fspath(directory)
    if isinstance(optimizer, LocalOptimizer) and not optimizer.settled:
        raise ValueError("ranks have different parameters between two averages: call optimizer.average() before")
    if _world.is_initialized() and _world.rank() != 0:
        return os.path.join(path, f"step-{step:08d}")
    manifest = _core.Manifest()
    manifest.step, manifest.epoch, manifest.samples = step, epoch, samples
    manifest.workers = manifest.slices = _world.size() if _world.is_initialized() else 1
    manifest.threads = torch.get_num_threads()
    manifest.strategy = "allreduce" if manifest.workers > 1 else "single"
    manifest.model = type(model).__name__
    manifest.torch_version = _torch.torch_version
    extra = dict(extra or {})
    served: Mapping[torch.Tensor, Served] = {}
    if isinstance(optimizer, (LocalOptimizer, OnServers)):
        manifest.strategy = optimizer.strategy
    if isinstance(optimizer, OnServers):
        served = optimizer.served()
    parameters = {
        name: served[param].value if param in served else param.detach().contiguous()
        for name, param in model.named_parameters()
    }
    buffers = {
        name: tensor.detach().contiguous()
        for name, tensor in model.state_dict().items()
        if name not in parameters
    }
    state: list[tuple[str, torch.Tensor]] = []
    if optimizer is not None:
        manifest.optimizer = type(optimizer).__name__
        extra[_GROUPS] = json.dumps([_options(group) for group in optimizer.param_groups])
        state, numbers = _state_tensors(model, optimizer, step, served)
        extra[_NUMBERS] = json.dumps(numbers)
    manifest.extra = extra
    return _core.save_checkpoint(
        path, manifest, list(parameters.items()), list(buffers.items()), state, keep
    )


def load_checkpoint(
    directory: str | os.PathLike[str],
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    step: int | None = None,
) -> CheckpointInfo:
    """Gives model and optimizer the state of a checkpoint: of the newest one, or of that of `step`.

    Every rank calls it; rank 0 reads, and the others get it from there. Parameter servers are filled anew by
    the next step. FileNotFoundError when there is none;
    ValueError when it is damaged; RuntimeError when it is of another model.
    """
    path = os.fspath(directory) if step is None else f"{os.fspath(directory)}@{step}"
    together = _world.is_initialized() and _world.size() > 1
    info: CheckpointInfo | None = None
    error: Exception | None = None
    steps: dict[torch.Tensor, int] = {}
    if not together or _world.rank() == 0:
        try:
            info, steps = _load(path, model, optimizer)
        except (OSError, ValueError, RuntimeError) as raised:
            error = raised
    if together:
        info, error = broadcast_object((info, error), 0)
    if error is not None:
        raise error
    assert info is not None
    if together:
        broadcast_parameters(dict(model.state_dict()), 0)
        if optimizer is not None:
            broadcast_optimizer_state(optimizer, 0)
    if isinstance(optimizer, OnServers):
        optimizer.restart(steps)
    elif isinstance(optimizer, LocalOptimizer):
        optimizer.restart()
    return info


def _load(
    path: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None
) -> tuple[CheckpointInfo, dict[torch.Tensor, int]]:
    """Also how many updates each parameter has had."""
    checkpoint = _core.load_checkpoint(path)
    manifest = checkpoint.manifest
    extra = dict(manifest.extra)
    groups = json.loads(extra.pop(_GROUPS, "null"))
    numbers = json.loads(extra.pop(_NUMBERS, "{}"))
    steps: dict[torch.Tensor, int] = {}
    if optimizer is not None:
        saved = {name: torch.from_dlpack(array) for name, array in checkpoint.optimizer}
        state = _state_of(model, optimizer, saved, numbers)
        for param, name in _names(model, optimizer).items():
            if f"{name}/step" in saved:
                steps[param] = int(saved[f"{name}/step"])
    model.load_state_dict({name: torch.from_dlpack(array) for name, array in checkpoint.model})
    if optimizer is not None:
        optimizer.state.clear()
        optimizer.state.update(state)
        for group, options in zip(optimizer.param_groups, groups or []):
            for key, value in options.items():
                group[key] = tuple(value) if isinstance(group.get(key), tuple) else value
    return CheckpointInfo(manifest.step, manifest.epoch, manifest.samples, extra), steps


def _options(group: dict[str, Any]) -> dict[str, Any]:
    """Those that JSON can keep."""
    plain = (bool, int, float, str, type(None))
    return {
        key: value
        for key, value in group.items()
        if key != "params"
        and (isinstance(value, plain) or isinstance(value, tuple) and all(isinstance(one, plain) for one in value))
    }


def _names(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[torch.Tensor, str]:
    names: dict[torch.Tensor, str] = {param: name for name, param in model.named_parameters()}
    for group in optimizer.param_groups:
        for param in group["params"]:
            if param not in names:
                raise ValueError("the optimizer has parameters that are not the model's")
    return names


def _state_tensors(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int, served: Mapping[torch.Tensor, Served]
) -> tuple[list[tuple[str, torch.Tensor]], dict[str, str]]:
    """The state under the names of parameters, and the types of what is no tensor with dimensions."""
    names = _names(model, optimizer)
    tensors: dict[str, torch.Tensor] = {}
    numbers: dict[str, str] = {}
    for group in optimizer.param_groups:
        for param in group["params"]:
            # Every parameter has a count of steps, as in C++, also where torch keeps none.
            tensors[f"{names[param]}/step"] = torch.tensor(step)
            if param in served:
                tensors.update({f"{names[param]}/{slot}": value for slot, value in served[param].state.items()})
                numbers.update(_step_type(optimizer))
                continue
            for slot, value in optimizer.state.get(param, {}).items():
                if value is None:
                    continue
                is_tensor = torch.is_tensor(value)
                if not is_tensor and not isinstance(value, (bool, int, float)):
                    raise ValueError(f"the optimizer's {slot} is neither a tensor nor a number, and can't be saved")
                tensor = value.detach().contiguous() if is_tensor else torch.tensor(value)
                if tensor.dim() == 0:
                    numbers[slot] = str(value.dtype).removeprefix("torch.") if is_tensor else type(value).__name__
                if slot == "step":
                    tensor = tensor.to(torch.int64)
                tensors[f"{names[param]}/{slot}"] = tensor
    return list(tensors.items()), numbers


def _step_type(optimizer: torch.optim.Optimizer) -> dict[str, str]:
    """What torch's own optimizer counts steps with, where it counts them."""
    if isinstance(optimizer, torch.optim.SGD):
        return {}
    return {"step": "int" if isinstance(optimizer, torch.optim.SparseAdam) else "float32"}


def _state_of(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    saved: dict[str, torch.Tensor],
    numbers: dict[str, str],
) -> dict[torch.Tensor, dict[str, Any]]:
    """A state as the optimizer itself would have it."""
    names = _names(model, optimizer)
    numbers = numbers or _step_type(optimizer)  # C++ wrote it.
    params = {names[param]: param for group in optimizer.param_groups for param in group["params"]}
    state: dict[torch.Tensor, dict[str, Any]] = {}
    for full_name, tensor in saved.items():
        name, _, slot = full_name.rpartition("/")
        if name not in params:
            raise RuntimeError(f"the checkpoint has a state for {name}, which the optimizer does not have")
        if slot == "step" and slot not in numbers:
            continue
        if slot == OUTER_MOMENTUM and not isinstance(optimizer, LocalOptimizer):
            continue
        value: Any = tensor
        if tensor.dim() == 0:
            kind = numbers.get(slot, str(tensor.dtype).removeprefix("torch."))
            plain: Any = {"int": int, "float": float, "bool": bool}.get(kind)
            value = plain(tensor.item()) if plain else tensor.to(getattr(torch, kind))
        state.setdefault(params[name], {})[slot] = value
    return state
