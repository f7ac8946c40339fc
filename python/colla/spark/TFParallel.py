"""TensorFlowOnSpark's ``TFParallel``: a function on every executor, each by itself."""

from collections.abc import Callable
from typing import Any

from colla.spark import _call, _job, _task

__all__ = ["run"]


def run(sc: Any, map_fn: Callable[[Any, Any], Any], tf_args: Any, num_executors: int, use_barrier: bool = True) -> None:
    """Calls ``map_fn(tf_args, ctx)`` in a process of its own on each of `num_executors` executors, and waits.

    The processes are independent: they form no job, and ``ctx`` has ``worker_num``, ``num_workers``, ``defaultFS`` and
    ``working_dir``. All of them run at the same time.

    Args:
        use_barrier: Accepted: the processes always start by a barrier stage, so that a failed one is not repeated.

    RuntimeError with the traceback of a map_fn that failed; ValueError, before anything starts, for what can't be.
    """
    if num_executors < 1:
        raise ValueError(f"num_executors is {num_executors}, but must be at least 1")
    if not callable(map_fn):
        raise TypeError(f"map_fn must be a function of (args, ctx), not {type(map_fn).__name__}")
    _job.check_context(sc)
    roles = [(_task.ALONE, rank) for rank in range(num_executors)]
    call = _call.pack(map_fn, tf_args, None)
    job = _job.Job(sc, call, roles, [True] * num_executors, _job.START, context=_job.places(sc))
    try:
        job.wait(list(range(num_executors)))
    finally:
        job.stop()
