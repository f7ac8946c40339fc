"""The extension module for PyTorch; nothing in it is public."""

import datetime

import torch
import torch.distributed

from colla import _core

torch_version: str

class ServerChoice:
    def __init__(
        self,
        strategy: str,
        optimizer: str,
        backup: int = 0,
        max_staleness: int | None = None,
        staleness: int = 0,
        partitions: int = 0,
    ) -> None: ...
    def slots(self) -> list[tuple[str, float]]: ...

class Servers:
    """A worker's end of the parameter servers: src/train/exchange/server_link.h. Gradients are given by number, those of
    tables after those of parameters."""

    def __init__(
        self,
        job: _core.Job,
        names: list[str],
        parameters: list[torch.Tensor],
        tables: list[torch.Tensor],
        choice: ServerChoice,
        state: list[tuple[str, torch.Tensor]],
    ) -> None: ...
    def give(self, number: int, gradient: torch.Tensor) -> None: ...
    def step(self, factor: float = 1.0) -> bool: ...
    def refresh(self, table: torch.Tensor, rows: torch.Tensor) -> None: ...
    def refresh_all(self) -> None: ...
    def snapshot(self) -> tuple[list[tuple[str, torch.Tensor]], list[tuple[str, torch.Tensor]]]: ...
    def move_out(self) -> None: ...
    def leave(self, again: bool = False) -> None: ...

class ParameterAverage:
    """Local SGD: src/train/exchange/parameter_average.h. Each rank is one slice."""

    def __init__(
        self,
        job: _core.Job,
        names: list[str],
        parameters: list[torch.nn.Parameter],
        tables: list[str],
        outer_lr: float,
        outer_momentum: float,
    ) -> None: ...
    def touch(self, parameter: int, rows: torch.Tensor) -> None: ...
    def momenta(self) -> list[torch.Tensor | None]: ...
    def start(self) -> list[torch.Tensor]: ...
    def average(self) -> None: ...

def create_process_group(
    store: torch.distributed.Store, rank: int, size: int, timeout: datetime.timedelta
) -> torch.distributed.distributed_c10d.Backend: ...
def leave_process_group(
    group: torch.distributed.distributed_c10d.Backend, grace: datetime.timedelta
) -> None: ...
