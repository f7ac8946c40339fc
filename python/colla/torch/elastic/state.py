"""The state of a training with torch: models, optimizers, samplers, and other objects."""

import copy
from typing import Any

import torch

from colla._elastic_state import ObjectState
from colla.torch import _world
from colla.torch.elastic.sampler import ElasticSampler
from colla.torch.functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters


class StateHandler:
    """How to save, restore and synchronize a value that is more than a Python object."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.save()

    def save(self) -> None:
        """Copies what is there now."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to the copy."""
        raise NotImplementedError

    def sync(self) -> None:
        """Takes over what rank 0 has."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Handles another value from now on."""
        self.value = value
        self.save()


class _StateDictHandler(StateHandler):
    """Values with ``state_dict()`` and ``load_state_dict()``."""

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(self._saved)


class ModelStateHandler(_StateDictHandler):
    """Models."""

    def sync(self) -> None:
        """Takes over the parameters and buffers of rank 0."""
        broadcast_parameters(dict(self.value.state_dict()), root_rank=0)
        self.save()


class OptimizerStateHandler(_StateDictHandler):
    """Optimizers."""

    def sync(self) -> None:
        """Takes over the state of rank 0."""
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class SamplerStateHandler(_StateDictHandler):
    """Elastic samplers."""

    def sync(self) -> None:
        """Takes over rank 0's place in the data."""
        self.value.load_state_dict(broadcast_object(self.value.state_dict()))
        self.save()


_handlers: list[tuple[type, type[StateHandler]]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> list[tuple[type, type[StateHandler]]]:
    """Which handler is for values of which type; the first that fits counts."""
    return list(_handlers)


def set_handler_registry(registry: list[tuple[type, type[StateHandler]]]) -> None:
    """Replaces the handlers for states that are made from now on."""
    _handlers[:] = registry


class TorchState(ObjectState):
    """Models, optimizers, samplers and objects of a training, as attributes with the names of the keyword
    arguments."""

    _state_handlers: dict[str, StateHandler]

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        **kwargs: Any,
    ) -> None:
        objects: dict[str, Any] = {}
        found: dict[str, StateHandler] = {}
        for name, value in {**kwargs, "model": model, "optimizer": optimizer}.items():
            handler = next((make for kind, make in _handlers if isinstance(value, kind)), None)
            if handler is None:
                objects[name] = value
            else:
                found[name] = handler(value)
        # Not through __setattr__, which looks into it.
        object.__setattr__(self, "_state_handlers", found)
        for name, handler_of_value in found.items():
            object.__setattr__(self, name, handler_of_value.value)
        super().__init__(bcast_object=broadcast_object, get_rank=_world.rank, **objects)

    def save(self) -> None:
        """Copies what is there now."""
        for handler in self._state_handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        """Goes back to the copy."""
        for handler in self._state_handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """Takes over what rank 0 has."""
        for handler in self._state_handlers.values():
            handler.sync()
        super().sync()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._state_handlers:
            self._state_handlers[name].set_value(value)
        super().__setattr__(name, value)
