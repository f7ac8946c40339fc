"""Collectives that go on while the program does something else, and those that work in place.

Ranks may start them in any order: they are matched by name. What has no name is matched by the order in
which a rank started operations of its kind in its process set. Each returns a handle for ``poll()`` and
``synchronize()``; a tensor must not be changed before that.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import torch

from colla._core import Array, Kind, Op
from colla._exchange import Finish
from colla._process_sets import ProcessSet, global_process_set, number_of
from colla._reductions import Adasum, Average, Max, Min, Product, Sum, choose_op
from colla.torch import _world

Splits: TypeAlias = torch.Tensor | Sequence[int] | None

_TYPES = frozenset(
    {
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.bool,
    }
)

# The op and the two factors of an operation that reduces nothing.
_AS_IT_IS = (Op.SUM, 1.0, 1.0)


def _check(tensor: torch.Tensor) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"a torch.Tensor is needed, not {type(tensor).__name__}")
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        raise ValueError(
            f"a dense tensor in this machine's memory is needed, not one of layout {tensor.layout} on"
            f" {tensor.device} (sparse_allreduce_async() takes sparse ones)"
        )
    if tensor.dtype not in _TYPES:
        raise ValueError(f"tensors of type {tensor.dtype} are not supported")


def _submit(
    kind: Kind,
    name: str | None,
    tensors: Sequence[torch.Tensor],
    process_set: ProcessSet,
    finish: Finish,
    *arguments: Any,
    in_place: bool = False,
) -> int:
    """Starts an operation on one tensor, or on several that are to be carried out together. `arguments` go to
    ``Exchange.submit()``."""
    exchange = _world.current().exchange
    number = number_of(process_set)
    for tensor in tensors:
        _check(tensor)
    inputs = [tensor.detach().contiguous() for tensor in tensors]
    results: list[torch.Tensor] = []
    if in_place:
        results = inputs
        finish = functools.partial(_finish_in_place, tensors, finish)
    elif kind is Kind.ALLREDUCE or kind is Kind.BROADCAST:
        results = [torch.empty_like(tensor) for tensor in inputs]
    else:
        finish = functools.partial(_finish_new, finish)
    return exchange.submit(kind, name, inputs, results, number, finish, *arguments)


def _finish_in_place(
    tensors: Sequence[torch.Tensor], finish: Finish, results: list[torch.Tensor], numbers: list[int]
) -> Any:
    for tensor, result in zip(tensors, results):
        if tensor.data_ptr() != result.data_ptr():  # It was not contiguous.
            tensor.detach().copy_(result)
    return finish(list(tensors), numbers)


def _finish_new(finish: Finish, arrays: list[Array], numbers: list[int]) -> Any:
    """For results whose shape this rank does not know before: Colla has made them."""
    return finish([torch.from_dlpack(array.__dlpack__()) for array in arrays], numbers)


def _first(results: list[torch.Tensor], _: list[int]) -> torch.Tensor:
    return results[0]


def _all(results: list[torch.Tensor], _: list[int]) -> tuple[torch.Tensor, ...]:
    return tuple(results)


def _some(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    tensors = list(tensors)
    if not tensors:
        raise ValueError("a group needs at least one tensor")
    return tensors


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts to reduce `tensor`, which all ranks bring in the same shape and type. See ``allreduce()``."""
    op = choose_op(op, average)
    return _submit(
        Kind.ALLREDUCE, name, [tensor], process_set, _first, op, prescale_factor, postscale_factor
    )


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """``allreduce_async()`` whose result replaces `tensor`."""
    op = choose_op(op, average)
    return _submit(
        Kind.ALLREDUCE,
        name,
        [tensor],
        process_set,
        _first,
        op,
        prescale_factor,
        postscale_factor,
        in_place=True,
    )


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Reduces `tensor` in place, and returns it."""
    op = choose_op(op, average)
    return synchronize(
        allreduce_async_(tensor, None, name, op, prescale_factor, postscale_factor, process_set)
    )


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """``allreduce_async()`` of several tensors, which are reduced together once all ranks brought all."""
    op = choose_op(op, average)
    return _submit(
        Kind.ALLREDUCE,
        name,
        _some(tensors),
        process_set,
        _all,
        op,
        prescale_factor,
        postscale_factor,
    )


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """``grouped_allreduce_async()`` whose results replace `tensors`."""
    op = choose_op(op, average)
    return _submit(
        Kind.ALLREDUCE,
        name,
        _some(tensors),
        process_set,
        _all,
        op,
        prescale_factor,
        postscale_factor,
        in_place=True,
    )


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> tuple[torch.Tensor, ...]:
    """Reduces several tensors in place, and returns them."""
    op = choose_op(op, average)
    return synchronize(
        grouped_allreduce_async_(tensors, None, name, op, prescale_factor, postscale_factor, process_set)
    )


def sparse_allreduce_async(
    tensor: torch.Tensor, name: str, op: Op, process_set: ProcessSet = global_process_set
) -> Callable[[], torch.Tensor]:
    """Starts to add up (Sum, Average) sparse tensors, by gathering their values.

    Returns a function that waits for the result: a sparse tensor in which an index may stand several
    times (``coalesce()`` adds those).
    """
    return start_sparse_allreduce(tensor, name, op, process_set)[1]


def start_sparse_allreduce(
    tensor: torch.Tensor, name: str, op: Op, process_set: ProcessSet = global_process_set
) -> tuple[list[int], Callable[[], torch.Tensor]]:
    """``sparse_allreduce_async()`` with the handles of its two operations."""
    if op not in (Sum, Average):
        raise NotImplementedError(f"sparse tensors can be added and averaged, but not reduced with {op}")
    indices_handle = allgather_async(tensor._indices().t(), f"{name}.indices", process_set)
    values_handle = allgather_async(tensor._values(), f"{name}.values", process_set)

    def result() -> torch.Tensor:
        values = synchronize(values_handle)
        indices = synchronize(indices_handle).t()
        if op == Average:
            values = values / process_set.size()
        return torch.sparse_coo_tensor(indices, values, tensor.size(), check_invariants=False)

    return [indices_handle, values_handle], result


def allgather_async(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts to gather tensors, which may differ in their first dimension. See ``allgather()``."""
    return _submit(Kind.ALLGATHER, name, [tensor], process_set, _first)


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """``allgather_async()`` of several tensors, once all ranks brought all of them."""
    return _submit(Kind.ALLGATHER, name, _some(tensors), process_set, _all)


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts to bring the tensor of `root_rank` (of the job) to all. See ``broadcast()``."""
    return _submit(Kind.BROADCAST, name, [tensor], process_set, _first, *_AS_IT_IS, root_rank)


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """``broadcast_async()`` whose result replaces `tensor`."""
    return _submit(Kind.BROADCAST, name, [tensor], process_set, _first, *_AS_IT_IS, root_rank, in_place=True)


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Replaces `tensor` by that of `root_rank`, and returns it."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


def alltoall_async(
    tensor: torch.Tensor,
    splits: Splits = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts to send rows to every rank. ``synchronize()`` gives what came, and how many rows from each
    rank. See ``alltoall()``."""
    kind = torch.int32
    rows: list[int] = []
    if isinstance(splits, torch.Tensor):
        if splits.dim() != 1 or splits.is_floating_point() or splits.is_complex():
            raise ValueError(f"splits takes one whole number for each rank, not a tensor of {splits.dtype}")
        kind = splits.dtype
        rows = splits.tolist()
    elif splits is not None:
        rows = [int(count) for count in splits]
    members = process_set.size() or 0
    if splits is not None and len(rows) != members:
        raise ValueError(f"splits has {len(rows)} numbers for {members} ranks")

    def finish(results: list[torch.Tensor], numbers: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        return results[0], torch.tensor(numbers, dtype=kind)

    return _submit(Kind.ALLTOALL, name, [tensor], process_set, finish, *_AS_IT_IS, 0, rows)


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts to reduce `tensor` and give each rank some of its rows. See ``reducescatter()``."""
    return _submit(
        Kind.REDUCESCATTER,
        name,
        [tensor],
        process_set,
        _first,
        choose_op(op, None),
        prescale_factor,
        postscale_factor,
    )


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """``reducescatter_async()`` of several tensors, once all ranks brought all of them."""
    return _submit(
        Kind.REDUCESCATTER,
        name,
        _some(tensors),
        process_set,
        _all,
        choose_op(op, None),
        prescale_factor,
        postscale_factor,
    )


def poll(handle: int) -> bool:
    """Whether an operation has ended, so that ``synchronize()`` would return at once."""
    return _world.current().exchange.poll(handle)


def synchronize(handle: int) -> Any:
    """Waits for an operation and returns its result: a tensor, a tuple of tensors for a group, a tensor
    and the received splits for an alltoall. HorovodInternalError when it failed; None for a handle that
    was waited for before."""
    if not _world.is_initialized():
        return None
    return _world.current().exchange.synchronize(handle)


def join(device: int = -1) -> int:
    """Says that this rank has no more data. Waits for all others to say so, and takes part with zeros in
    what they reduce until then. Returns the rank that came last.

    `device` is there for Horovod's sake.
    """
    return _world.current().exchange.join()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when all ranks of the set have called it."""
    _world.current().exchange.barrier(number_of(process_set))
