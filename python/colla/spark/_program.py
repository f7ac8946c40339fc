"""``colla.spark.run_program()``: a C++ program's workers and servers on executors."""

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from colla.spark import _call, _job


def run_program(
    sc: Any,
    program: str | os.PathLike[str],
    argv: Sequence[str] = (),
    num_executors: int | None = None,
    num_ps: int = 0,
    *,
    env: Mapping[str, str] | None = None,
    start_timeout: float | None = None,
) -> None:
    """Runs `program` with the arguments `argv` as the processes of one job, one for each slot, and waits.

    The program is one with a ``colla::Trainer`` or a ``colla::Job``, such as ``colla train``. It must be at the same path
    on every executor, or be found on its PATH.

    Args:
        num_executors: How many processes, servers included. By default as many as the executors have slots.
        num_ps: How many of them are parameter servers.
        env: Variables for the processes.
        start_timeout: Seconds for all processes to start; 600 by default.

    RuntimeError with the rank, the host and the last lines of a process that failed; the others are ended. ValueError
    for what can't be.
    """
    _job.check_context(sc)
    if num_executors is None:
        num_executors = _job.all_slots(sc)
    if num_ps < 0 or num_executors <= num_ps:
        raise ValueError(f"{num_executors} executors with num_ps={num_ps} leave no worker")
    roles = [("ps", i) for i in range(num_ps)] + [("worker", i) for i in range(num_executors - num_ps)]
    command = [os.fspath(program), *map(str, argv)]
    call = _call.pack(_become, (command, dict(env or {})), {})
    job = _job.Job(sc, call, roles, [True] * num_executors, start_timeout or _job.START)
    try:
        job.wait(list(range(num_executors)))
    finally:
        job.stop()


def _become(command: list[str], variables: dict[str, str]) -> None:
    """In a process on an executor: turns it into the program."""
    # What torch.distributed reads is not for it.
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        os.environ.pop(name, None)
    os.environ.update(variables)
    path = shutil.which(command[0])
    if path is None:
        raise FileNotFoundError(f"there is no program {command[0]} on {os.uname().nodename}")
    os.execv(path, command)
