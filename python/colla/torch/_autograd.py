"""Collectives that wait for their result, and through which gradients flow.

Gradients are those of Horovod: what a rank's loss says about a result is averaged over ranks (or reduced
as the forward pass did), as fits a training whose loss is the average of all ranks' losses.
"""

from collections.abc import Sequence
from typing import Any

import torch

from colla._core import Op
from colla.torch import _world, ops
from colla.torch.compression import Compression, Compressor
from colla.torch.ops import Average, Splits, Sum, synchronize
from colla.torch.process_sets import ProcessSet, global_process_set


class _NoGraph:
    """Stands for the context of a function through which no gradient will flow."""

    def mark_non_differentiable(self, *tensors: torch.Tensor) -> None:
        pass


def _run(function: type[torch.autograd.Function], tensors: Sequence[torch.Tensor], *arguments: Any) -> Any:
    """Calls `function`, and autograd only where a gradient may flow: that costs more than a small operation."""
    if torch.is_grad_enabled() and any(getattr(tensor, "requires_grad", False) for tensor in tensors):
        return function.apply(*arguments)
    return function.forward(_NoGraph(), *arguments)


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, options: tuple[Any, ...], name: str | None, *tensors: torch.Tensor) -> Any:
        ctx.options = options
        return synchronize(ops.grouped_allreduce_async(tensors, None, name, *options))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return None, None, *_Allreduce.apply(ctx.options, None, *gradients)


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Reduces the ranks' tensors, which have the same shape and type, and returns the result.

    Args:
        tensor: What this rank brings; it is not changed.
        average: Deprecated: True for ``op=Average``, False for ``op=Sum``.
        name: Ranks' operations are matched by it. Without one, by their order.
        compression: ``Compression.fp16`` or ``bf16``: floats travel with 16 bits.
        op: Average (the default), Sum, Min, Max, Product or Adasum. The average of integers drops the
            fraction.
        prescale_factor: Elements are multiplied by it before the reduction,
        postscale_factor: and by this one after it.
        process_set: The ranks that take part.
    """
    chosen = ops.choose_op(op, average)
    small, context = compression.compress(tensor)
    options = (chosen, prescale_factor, postscale_factor, process_set)
    (reduced,) = _run(_Allreduce, (small,), options, name, small)
    return compression.decompress(reduced, context)


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """``allreduce()`` of several tensors, which are reduced together once all ranks brought all."""
    chosen = ops.choose_op(op, average)
    compressed = [compression.compress(tensor) for tensor in tensors]
    options = (chosen, prescale_factor, postscale_factor, process_set)
    smalls = [small for small, _ in compressed]
    reduced = _run(_Allreduce, smalls, options, name, *smalls)
    return [compression.decompress(tensor, context) for tensor, (_, context) in zip(reduced, compressed)]


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, process_set: ProcessSet, name: str | None, *tensors: torch.Tensor) -> Any:
        gathered = synchronize(ops.grouped_allgather_async(tensors, name, process_set))
        ctx.process_set = process_set
        ctx.rows = [tensor.shape[0] for tensor in tensors]
        return gathered

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        options = (Average, 1.0, 1.0, ctx.process_set)
        reduced = _Allreduce.apply(options, None, *gradients)
        # One line of rows per rank.
        rows = synchronize(ops.allgather_async(torch.tensor([ctx.rows]), None, ctx.process_set))
        firsts = rows[: ctx.process_set.rank()].sum(0).tolist()
        return (
            None,
            None,
            *(whole.narrow(0, first, mine) for whole, first, mine in zip(reduced, firsts, ctx.rows)),
        )


def allgather(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """The tensors of all ranks, in their order, behind each other along the first dimension, in which they
    may differ."""
    return _run(_Allgather, (tensor,), process_set, name, tensor)[0]


def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> tuple[torch.Tensor, ...]:
    """``allgather()`` of several tensors, once all ranks brought all of them."""
    return _run(_Allgather, tensors, process_set, name, *tensors)


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, root_rank: int, name: str | None, process_set: ProcessSet
    ) -> torch.Tensor:
        ctx.root_rank = root_rank
        ctx.process_set = process_set
        return synchronize(ops.broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        reduced = allreduce(gradient, op=Average, process_set=ctx.process_set)
        return reduced if _world.rank() == ctx.root_rank else reduced * 0, None, None, None


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """The tensor of `root_rank`, a rank of the job. All bring one of the same shape and type."""
    return _run(_Broadcast, (tensor,), tensor, root_rank, name, process_set)


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, splits: Splits, name: str | None, process_set: ProcessSet
    ) -> Any:
        output, received = synchronize(ops.alltoall_async(tensor, splits, name, process_set))
        ctx.process_set = process_set
        ctx.received = received
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _: Any) -> Any:
        back, _sent = _Alltoall.apply(gradient, ctx.received, None, ctx.process_set)
        return back, None, None, None


def alltoall(
    tensor: torch.Tensor,
    splits: Splits = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Sends rows of `tensor` to every rank, and returns those that came, in the order of their ranks.

    `splits` says how many rows go to each rank; then the result is a pair, with how many came from each.
    Without it all get the same number.
    """
    output, received = _run(_Alltoall, (tensor,), tensor, splits, name, process_set)
    return output if splits is None else (output, received)


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, options: tuple[Any, ...], name: str | None, *tensors: torch.Tensor) -> Any:
        ctx.options = options
        return synchronize(ops.grouped_reducescatter_async(tensors, name, *options))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        op, process_set, prescale, postscale = ctx.options
        factor = prescale * postscale * (process_set.size() if op == Sum else 1)
        scaled = gradients if factor == 1 else [gradient * factor for gradient in gradients]
        return None, None, *_Allgather.apply(process_set, None, *scaled)


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Reduces the ranks' tensors as ``allreduce()`` does, and gives each rank its rows of the result. Where
    they can't be shared evenly, the first ranks get one more."""
    small, context = compression.compress(tensor)
    options = (op, process_set, prescale_factor, postscale_factor)
    (reduced,) = _run(_Reducescatter, (small,), options, name, small)
    return compression.decompress(reduced, context)


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """``reducescatter()`` of several tensors, once all ranks brought all of them."""
    compressed = [compression.compress(tensor) for tensor in tensors]
    options = (op, process_set, prescale_factor, postscale_factor)
    smalls = [small for small, _ in compressed]
    reduced = _run(_Reducescatter, smalls, options, name, *smalls)
    return [compression.decompress(tensor, context) for tensor, (_, context) in zip(reduced, compressed)]
