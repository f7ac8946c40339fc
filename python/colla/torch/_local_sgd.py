"""The strategy local-sgd: ranks train by themselves and average their parameters now and then."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from colla import _torch
from colla._core import count_step
from colla.torch import _world, ops
from colla.torch.optimizer import _Distributed

STRATEGY = "local-sgd"

# What the outer optimizer's state is called beside the wrapped optimizer's, as in C++'s checkpoints.
OUTER_MOMENTUM = "outer_momentum"

# The part of a state_dict() for a round that has begun: see LocalOptimizer.state_dict().
_ROUND = "local_sgd_round"

_NO_ROWS = torch.empty(0, dtype=torch.int64)


@dataclasses.dataclass(frozen=True)
class LocalSgdOptions:
    """How often ranks average, and the outer optimizer; the same on every rank.

    With the defaults for `outer_lr` and `outer_momentum` the parameters become the mean of the ranks' parameters.
    DiLoCo has 0.7 and 0.9.
    """

    every: int = 8
    """Steps that a rank makes by itself between two averages."""
    outer_lr: float = 1.0
    """Rate of the outer optimizer: SGD along the mean difference that a round made."""
    outer_momentum: float = 0.0
    """Its Nesterov momentum."""

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"every is {self.every}, but takes 1 or more")
        if not self.outer_lr > 0:
            raise ValueError(f"outer_lr is {self.outer_lr}, but must be above 0")
        if not 0 <= self.outer_momentum < 1:
            raise ValueError(f"outer_momentum is {self.outer_momentum}, but takes 0 to below 1")


class LocalOptimizer(_Distributed):
    """The wrapped optimizer runs on each rank's own gradients; after `every` steps parameters are averaged.

    The outer momenta lie in ``state``, so that whatever saves, loads or broadcasts an optimizer has them.
    """

    def _start(self, options: LocalSgdOptions) -> None:
        self._local = options
        self._average: _torch.ParameterAverage | None = None
        self._params: list[torch.nn.Parameter] = []  # Those that are averaged,
        self._rows: dict[int, list[torch.Tensor]] = {}  # and of tables among them: rows touched in this round.
        self._steps = 0  # Since the last average.
        self._loaded: dict[str, Any] | None = None  # A round that goes on in the next step.

    @property
    def settled(self) -> bool:
        """Whether no rank has made a step since the last average: then all have the same parameters."""
        return self._steps == 0

    def _moves_only_touched_rows(self) -> bool:
        """Whether rows without a gradient stay as they are, so that they need not travel."""
        wrapped: type[torch.optim.Optimizer] = getattr(self, "_wrapped")  # By DistributedOptimizer().
        if wrapped is torch.optim.SGD:
            return all(not group["momentum"] and not group["weight_decay"] for group in self.param_groups)
        return wrapped in (torch.optim.SparseAdam, torch.optim.Adagrad)

    def _open(self) -> _torch.ParameterAverage:
        params = [param for group in self.param_groups for param in group["params"] if param.requires_grad]
        self._params = params
        lazy = self._moves_only_touched_rows()
        loaded, self._loaded = self._loaded or {"start": [], "rows": {}}, None
        # A rank whose batch did not touch a table has not seen that its gradients are sparse.
        sparse = [
            i in loaded["rows"] or (lazy and param.grad is not None and param.grad.is_sparse)
            for i, param in enumerate(params)
        ]
        flags = torch.tensor(sparse, dtype=torch.uint8)
        agreed = ops.allreduce_(flags, op=ops.Max, name="colla.local_sgd.sparse").tolist()
        self._rows = {i: [] for i, flag in enumerate(agreed) if flag}
        names = [self._parameter_names[param] for param in params]
        average = _torch.ParameterAverage(
            _world.current().job,
            names,
            params,
            [names[i] for i in self._rows],
            self._local.outer_lr,
            self._local.outer_momentum,
        )
        for start, saved in zip(average.start(), loaded["start"]):
            start.copy_(saved)
        for i, rows in loaded["rows"].items():
            self._rows[i].append(rows)
        self._average = average
        self._adopt_momenta()
        return average

    def _adopt_momenta(self) -> None:
        """Makes the momenta in ``state`` those that averages change, wherever they come from."""
        assert self._average is not None
        for param, momentum in zip(self._params, self._average.momenta()):
            given = self.state[param].pop(OUTER_MOMENTUM, None)
            if momentum is None:
                continue  # An outer optimizer without momentum.
            if given is not None and given.data_ptr() != momentum.data_ptr():
                momentum.copy_(given)
            self.state[param][OUTER_MOMENTUM] = momentum

    def _wrapped_step(self) -> Any:
        # Torch's optimizers take a parameter for a known one if its state has anything in it.
        momenta = {
            param: state.pop(OUTER_MOMENTUM) for param, state in self.state.items() if OUTER_MOMENTUM in state
        }
        try:
            return super().step()
        finally:
            for param, momentum in momenta.items():
                self.state[param][OUTER_MOMENTUM] = momentum

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Changes this rank's parameters; every so many steps all ranks average theirs."""
        count_step()
        if closure is not None:
            raise NotImplementedError("local-sgd takes no closure: call backward() before step()")
        if self._average is None:
            self._open()
        for i, rows in self._rows.items():
            gradient = self._params[i].grad
            if gradient is not None:
                rows.append(gradient.coalesce().indices()[0].contiguous())
        loss = self._wrapped_step()
        self._forget()
        self._steps += 1
        if self._steps >= self._local.every:
            self.average()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """As the optimizer's own, with the outer momenta.

        Between two averages it is this rank's alone, and also says where the round began, so that a rank that
        loads its own state and parameters goes on in the middle of the round.
        """
        state = super().state_dict()
        if self._loaded is not None:
            state[_ROUND] = self._loaded
        elif self._average is not None and not self.settled:
            rows = {i: torch.cat(touched) if touched else _NO_ROWS for i, touched in self._rows.items()}
            state[_ROUND] = {"steps": self._steps, "start": self._average.start(), "rows": rows}
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As the optimizer's own, by every rank. A round goes on where it was saved; otherwise the next one begins
        with the parameters that the model has in its first step."""
        super().load_state_dict(state_dict)
        self.restart()
        self._loaded = state_dict.get(_ROUND)
        self._steps = self._loaded["steps"] if self._loaded is not None else 0

    def restart(self) -> None:
        """The next step begins a round with the parameters that the model has then. On every rank."""
        self._average = None
        self._loaded = None
        self._steps = 0

    def average(self) -> None:
        """Averages now, on every rank: at the end of a training, before an evaluation or a save."""
        if self.settled:
            return
        average = self._average or self._open()
        self._adopt_momenta()
        for i, rows in self._rows.items():
            if rows:
                average.touch(i, torch.cat(rows))
                rows.clear()
        average.average()
        self._steps = 0
