"""Optimizers on parameter servers: the strategies ps-sync, ps-async, ps-ssp and hybrid.

Servers hold parameters and run the optimizer; what a rank computes are gradients. Which of them are sparse
is known after the first backward pass, so a rank meets the servers in its first step.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from colla import _torch
from colla._server_options import ServerOptions
from colla.torch import _world, ops
from colla.torch.optimizer import _Distributed, _GradientOptimizer, _Params

_ADAM: Mapping[str, str] = {"lr": "lr", "eps": "epsilon", "weight_decay": "weight_decay", "amsgrad": "amsgrad"}

# What servers can run, with Colla's names for torch's options: colla/optimizer.h.
_OPTIONS: Mapping[type[torch.optim.Optimizer], tuple[str, Mapping[str, str]]] = {
    torch.optim.SGD: (
        "sgd",
        {"lr": "lr", "momentum": "momentum", "dampening": "dampening", "weight_decay": "weight_decay"}
        | {"nesterov": "nesterov"},
    ),
    torch.optim.Adagrad: (
        "adagrad",
        {"lr": "lr", "lr_decay": "lr_decay", "weight_decay": "weight_decay", "eps": "epsilon"}
        | {"initial_accumulator_value": "initial_accumulator"},
    ),
    torch.optim.RMSprop: (
        "rmsprop",
        {"lr": "lr", "alpha": "alpha", "eps": "epsilon", "weight_decay": "weight_decay"}
        | {"momentum": "momentum", "centered": "centered"},
    ),
    torch.optim.SparseAdam: ("adam", {"lr": "lr", "eps": "epsilon"}),
    torch.optim.Adam: ("adam", _ADAM),
    torch.optim.AdamW: ("adamw", _ADAM),
}


class Served(NamedTuple):
    """What the servers hold of a parameter."""

    value: torch.Tensor
    state: dict[str, torch.Tensor]
    """The optimizer's, by torch's names; ``step`` is the number of its updates."""


def optimizer_text(optimizer: torch.optim.Optimizer, lr: float) -> str:
    """What servers are to run, as Colla writes it: ``sgd lr=0.1 momentum=0.9 …``."""
    wrapped: type[torch.optim.Optimizer] = getattr(optimizer, "_wrapped")  # By DistributedOptimizer().
    if wrapped not in _OPTIONS:
        known = ", ".join(kind.__name__ for kind in _OPTIONS)
        raise ValueError(f"servers can't run {wrapped.__name__}: they know {known}")
    name, options = _OPTIONS[wrapped]
    first, *others = optimizer.param_groups
    texts = []
    for theirs, ours in options.items():
        value = first[theirs] if theirs != "lr" else lr
        if any(group[theirs] != first[theirs] for group in others):
            raise ValueError(f"servers run one optimizer for all parameters, but groups differ in {theirs}")
        texts.append(f"{ours}={str(value).lower() if isinstance(value, bool) else repr(float(value))}")
    if "betas" in first:
        texts += [f"beta{i + 1}={float(beta)!r}" for i, beta in enumerate(first["betas"])]
    if not lr > 0:
        raise ValueError("servers need a learning rate above 0, which a scheduler may then multiply")
    if first.get("maximize"):
        raise ValueError("servers don't maximize: negate the loss instead")
    return " ".join([name, *texts])


class _Servers:
    """This rank's end of the servers, from the first step to ``shutdown()``."""

    def __init__(
        self,
        names: Mapping[torch.nn.Parameter, str],
        params: _Params,
        sparse: set[torch.nn.Parameter],
        choice: _torch.ServerChoice,
        state: dict[torch.nn.Parameter, dict[str, torch.Tensor]],
        metrics: _torch.TrainMetrics,
    ):
        tables = [param for param in params if param in sparse]
        dense = [param for param in params if param not in sparse]
        self.params = dense + tables
        self.tables = tables
        self._names = names
        self._numbers = {param: i for i, param in enumerate(self.params)}
        self._ids = {id(table) for table in tables}
        saved = {f"{names[param]}/{slot}": value for param in state for slot, value in state[param].items()}
        in_order = [(name, saved[name]) for name in sorted(saved)]
        self._servers = _torch.Servers(
            _world.current().job, [names[param] for param in self.params], dense, tables, choice, in_order, metrics
        )
        self._here = True
        self._hook = torch.nn.modules.module.register_module_forward_pre_hook(self._before_forward)
        _world.current().at_close(self.leave)

    def give(self, param: torch.nn.Parameter) -> None:
        """Hands a gradient over: it leaves at once."""
        gradient, param.grad = param.grad, None
        if gradient is not None:
            self._servers.give(self._numbers[param], gradient / _world.size())

    def backward_ended(self) -> None:
        """What is given from here on keeps the step waiting. For what waits for something else before ``step()``."""
        self._servers.backward_ended()

    def step(self, factor: float) -> bool:
        """The next parameters are in place; whether the servers took this rank's gradients. `factor` is of the
        learning rate that they were told."""
        return self._servers.step(factor)

    def pull(self) -> None:
        """Brings all rows of all tables up to date."""
        self._servers.refresh_all()

    def snapshot(self) -> dict[torch.nn.Parameter, Served]:
        """What the servers hold, all of it as of one step. On rank 0."""
        values, states = self._servers.snapshot()
        by_name = {name: Served(value, {}) for name, value in values}
        for full_name, value in states:
            name, _, slot = full_name.rpartition("/")
            by_name[name].state[slot] = value
        return {param: by_name[self._names[param]] for param in self.params}

    def let_go(self) -> None:
        """The model is its own again: what servers hold does not reach it any more."""
        self._hook.remove()
        self._servers.move_out()

    def leave(self, again: bool = False) -> None:
        """Once; `again`: others are to follow on these servers."""
        if self._here:
            self._here = False
            self._hook.remove()
            self._servers.leave(again)

    def _before_forward(self, module: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and id(module.weight) in self._ids:
            self._servers.refresh(module.weight, inputs[0])


class OnServers(_Distributed):
    """What the strategies have in common: the first step opens the servers."""

    def _choose(self, options: ServerOptions) -> None:
        self._server_options = options
        self._lr = float(self.param_groups[0]["lr"])
        optimizer_text(self, self._lr)  # Refused here, where the user's mistake is.
        self._servers: _Servers | None = None
        self._left: _Servers | None = None  # Until others take its place.
        # Updates made before, where torch's optimizer does not count them.
        self._steps_before: dict[torch.Tensor, int] = {}

    def _open(self, params: _Params, sparse: set[torch.nn.Parameter], tables_alone: bool) -> _Servers:
        # A rank whose batch did not touch a table has not seen that its gradients are sparse.
        flags = torch.tensor([param in sparse for param in params], dtype=torch.uint8)
        agreed = ops.allreduce_(flags, op=ops.Max, name="colla.servers.sparse").tolist()
        tables = {param for param, flag in zip(params, agreed) if flag}
        if tables_alone and not tables:
            raise ValueError(
                "no parameter has sparse gradients for hybrid's servers: use nn.Embedding(sparse=True), or the"
                " strategy allreduce"
            )
        served = [param for param in params if not tables_alone or param in tables]
        if self._left is not None:
            self._left.leave(again=True)
            self._left = None
        choice = _torch.ServerChoice(
            self.strategy, optimizer_text(self, self._lr), **dataclasses.asdict(self._server_options)
        )
        state = self._state_before(served, choice.slots())
        servers = _Servers(self._parameter_names, served, tables, choice, state, self._metrics)
        for param in served:
            self.state.pop(param, None)  # It is the servers' now.
            servers.give(param)
        return servers

    def _state_before(
        self, params: _Params, slots: list[tuple[str, float]]
    ) -> dict[torch.nn.Parameter, dict[str, torch.Tensor]]:
        """What a checkpoint, or training before this, has left, with nothing missing; {}: nothing."""
        if not any(self.state.get(param) or param in self._steps_before for param in params):
            return {}
        whole = {}
        for param in params:
            state = self.state.get(param, {})
            known = any(state.get(slot) is not None for slot, _ in slots)
            step = int(state.get("step", self._steps_before.get(param, 1 if known else 0)))
            whole[param] = {"step": torch.tensor(step)}
            for slot, initial in slots:
                value = state.get(slot)
                if value is None:
                    value = torch.full_like(param, initial)
                whole[param][slot] = (value.to_dense() if value.is_sparse else value).detach().contiguous()
        return whole

    def served(self) -> dict[torch.nn.Parameter, Served]:
        """On rank 0: what is on servers, all of it as of one step. Nothing before the first step."""
        return self._servers.snapshot() if self._servers is not None else {}

    def restart(self, steps: Mapping[torch.Tensor, int]) -> None:
        """The next step fills the servers with what model and optimizer have then. On every rank.

        `steps` are the updates that parameters have had.
        """
        if self._servers is not None:
            self._servers.let_go()
            self._left, self._servers = self._servers, None
        self._steps_before = dict(steps)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As the optimizer's own; the servers go on from it and from the model, on every rank."""
        super().load_state_dict(state_dict)
        self.restart({})

    def pull(self) -> None:
        """Brings the model up to date with the servers, all rows of its tables included.

        Needed before parameters are read other than by ``nn.Embedding`` and ``nn.EmbeddingBag``: saved, say.
        """
        if self._servers is not None:
            self._servers.pull()


class ServerOptimizer(OnServers):
    """All parameters are on servers."""

    def _start(self, options: ServerOptions) -> None:
        self._choose(options)
        self._register([param for group in self.param_groups for param in group["params"]])

    def _on_ready(self, param: torch.nn.Parameter) -> None:
        if self._servers is not None:
            self._servers.give(param)

    def synchronize(self) -> None:
        """Raises: gradients are summed by the servers, and don't come back."""
        raise NotImplementedError("there are no reduced gradients to wait for: servers hold and use them")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Ends this rank's step; returns with the parameters of the next one in place."""
        loss = closure() if closure is not None else None
        params = list(self._passes_left)
        if self._servers is None:
            sparse = {param for param in params if param.grad is not None and param.grad.is_sparse}
            sparse.update(self._left.tables if self._left is not None else [])
            self._servers = self._open(params, sparse, tables_alone=False)
        self._servers.step(float(self.param_groups[0]["lr"]) / self._lr)
        self._forget()
        self._step_ended()
        return loss


class HybridOptimizer(OnServers, _GradientOptimizer):
    """Tables are on servers; other gradients are reduced, and the optimizer runs here."""

    def _start(self, *arguments: Any) -> None:
        super()._start(*arguments)
        if not self._passes_left:  # One rank has nothing to reduce, but has servers.
            self._register([param for group in self.param_groups for param in group["params"]])

    def _launch(self, unit: _Params) -> None:
        others = []
        for param in unit:
            if param.grad is not None and param.grad.is_sparse:
                self._sparse.add(param)
            if param not in self._sparse:
                others.append(param)
            elif self._servers is not None:
                self._servers.give(param)
        if others:
            super()._launch(others)

    def synchronize(self) -> None:
        """Waits for the reduced gradients; those of tables are the servers'."""
        if self._servers is None:
            self._servers = self._open(list(self._passes_left), self._sparse, tables_alone=True)
            self._sparse.update(self._servers.tables)
        self._servers.backward_ended()
        super().synchronize()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Reduces the other gradients, lets the servers update the tables, and changes the parameters."""
        if closure is not None:
            raise NotImplementedError("hybrid takes no closure: call backward() before step()")
        self.synchronize()
        assert self._servers is not None
        self._servers.step(float(self.param_groups[0]["lr"]) / self._lr)
        with self.skip_synchronize():
            return super().step()
