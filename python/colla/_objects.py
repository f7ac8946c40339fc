"""Python objects from one rank to all, and from all to all. They are pickled; those of a job's ranks are trusted,
because unpickling runs code."""

import array
import pickle
from typing import Any

from colla import _world
from colla._core import Kind, Op
from colla._process_sets import ProcessSet, global_process_set, number_of


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The object of `root_rank`, which is pickled for it. The others may bring anything."""
    mine = _world.rank() == root_rank
    content = bytearray(pickle.dumps(obj)) if mine else bytearray()
    length = array.array("q", [len(content)])
    _broadcast(length, root_rank, name and f"{name}.length", process_set)
    if not mine:
        content = bytearray(length[0])
    _broadcast(content, root_rank, name and f"{name}.content", process_set)
    return obj if mine else pickle.loads(content)


def _broadcast(buffer: Any, root_rank: int, name: str | None, process_set: ProcessSet) -> None:
    """Replaces what is in `buffer` by what the root has there."""
    exchange = _world.current().exchange
    exchange.synchronize(
        exchange.submit(
            Kind.BROADCAST, name, [buffer], [buffer], number_of(process_set), _nothing, Op.SUM, 1.0, 1.0, root_rank
        )
    )


def _nothing(results: list[Any], numbers: list[int]) -> None:
    pass


def allgather_object(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """The objects of all ranks, in their order, which are pickled for it."""
    exchange = _world.current().exchange
    content = bytearray(pickle.dumps(obj))
    number = number_of(process_set)

    def start(part: str, buffer: Any) -> int:
        whole = name and f"{name}.{part}"
        return exchange.submit(Kind.ALLGATHER, whole, [buffer], [], number, lambda results, _: memoryview(results[0]))

    lengths = start("length", array.array("q", [len(content)]))
    contents = start("content", content)
    objects = []
    begin = 0
    everything = exchange.synchronize(contents)
    for length in exchange.synchronize(lengths).tolist():
        objects.append(pickle.loads(everything[begin : begin + length]))
        begin += length
    return objects
