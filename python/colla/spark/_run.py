"""``colla.spark.run()``: a function as the workers of a job on executors."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from colla.spark import _call, _job

# Options of horovod.spark.run() that change nothing here, and why.
_WITHOUT_EFFECT: Mapping[str, str] = {
    "use_mpi": "Colla does not use MPI",
    "use_gloo": "Colla does not use Gloo",
    "extra_mpi_args": "Colla does not use MPI",
    "nics": "the setting interface chooses it",
    "prefix_output_with_timestamp": "the executors' logs have times",
    "stdout": "the output is in the executors' logs",
    "stderr": "the output is in the executors' logs",
}


def run(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    start_timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    verbose: int | None = None,
    **options: Any,
) -> list[Any]:
    """Calls ``fn(*args, **kwargs)`` in each of `num_proc` processes on executors; returns the results, by rank.

    The processes are the workers of a job: in `fn`, ``hvd.init()`` of ``colla.torch``, ``colla.tensorflow`` and
    ``colla.keras`` joins it, and so does ``torch.distributed.init_process_group("colla")``. Each has a slot of an
    executor while it runs. Their output is in the executors' logs.

    Args:
        num_proc: How many processes. By default as many as the executors have slots.
        start_timeout: Seconds for all processes to start; 600 by default.
        env: Variables for the processes.
        verbose: Accepted, for Horovod's programs.
        options: Horovod's others are accepted, with a line on standard error that says why they change nothing.

    RuntimeError with the rank, the host, the traceback and the last lines of a process that failed; the others are
    ended. ValueError for what can't be.
    """
    from pyspark import SparkContext

    for option, value in options.items():
        if option not in _WITHOUT_EFFECT:
            raise TypeError(f"run() takes no option {option!r}")
        if value:
            print(f"colla: run() ignores {option}: {_WITHOUT_EFFECT[option]}", file=sys.stderr)
    if not callable(fn):
        raise TypeError(f"fn must be a function, not {type(fn).__name__}")
    sc = SparkContext._active_spark_context
    if sc is None:
        raise ValueError("there is no SparkContext: make one, or a SparkSession, before colla.spark.run()")
    if num_proc is None:
        num_proc = _job.all_slots(sc)
    if num_proc < 1:
        raise ValueError(f"num_proc is {num_proc}, but must be at least 1")
    call = _call.pack(_with_variables(fn, dict(env)) if env else fn, tuple(args), dict(kwargs or {}))
    job = _job.Job(sc, call, [("worker", i) for i in range(num_proc)], [True] * num_proc, start_timeout or _job.START)
    try:
        job.wait(list(range(num_proc)))
        return job.results()
    finally:
        job.stop()


def _with_variables(fn: Callable[..., Any], variables: dict[str, str]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        import os

        os.environ.update(variables)
        return fn(*args, **kwargs)

    return call
