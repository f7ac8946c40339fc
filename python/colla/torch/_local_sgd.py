"""The strategy local-sgd: ranks train by themselves and average their parameters now and then."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from colla import _torch
from colla.torch import _world, ops
from colla.torch.optimizer import _Distributed

STRATEGY = "local-sgd"


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
    """The wrapped optimizer runs on each rank's own gradients; after `every` steps parameters are averaged."""

    def _start(self, options: LocalSgdOptions) -> None:
        self._local = options
        self._average: _torch.ParameterAverage | None = None
        self._params: list[torch.nn.Parameter] = []  # Those that are averaged,
        self._sparse: list[int] = []  # and which of them are tables of which only touched rows travel.
        self._steps = 0  # Since the last average.


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
        # A rank whose batch did not touch a table has not seen that its gradients are sparse.
        sparse = [lazy and param.grad is not None and param.grad.is_sparse for param in params]
        flags = torch.tensor(sparse, dtype=torch.uint8)
        agreed = ops.allreduce_(flags, op=ops.Max, name="colla.local_sgd.sparse").tolist()
        self._sparse = [i for i, flag in enumerate(agreed) if flag]
        names = [self._parameter_names[param] for param in params]
        tables = [names[i] for i in self._sparse]
        return _torch.ParameterAverage(
            _world.current().job, names, params, tables, self._local.outer_lr, self._local.outer_momentum
        )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Changes this rank's parameters; every so many steps all ranks average theirs."""
        if closure is not None:
            raise NotImplementedError("local-sgd takes no closure: call backward() before step()")
        if self._average is None:
            self._average = self._open()
        for i in self._sparse:
            gradient = self._params[i].grad
            if gradient is not None:
                self._average.touch(i, gradient.coalesce().indices()[0].contiguous())
        loss = super().step()
        self._forget()
        self._steps += 1
        if self._steps >= self._local.every:
            self.average()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As the optimizer's own; the next round begins with the parameters that the model has in its first step."""
        super().load_state_dict(state_dict)
        self._average = None
        self._steps = 0

    def average(self) -> None:
        """Averages now, on every rank: at the end of a training, before an evaluation or a save."""
        if self._average is not None and self._steps > 0:
            self._average.average()
            self._steps = 0
