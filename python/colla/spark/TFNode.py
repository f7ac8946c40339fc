"""TensorFlowOnSpark's ``TFNode``: what map_fun has from its cluster."""

import getpass
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from colla.spark._trainer import Trainer

__all__ = ["DataFeed", "hdfs_path", "release_port", "start_cluster_server"]

_SCHEMES = ("adl", "file", "gs", "hdfs", "oss", "s3", "s3a", "s3n", "swift", "viewfs", "wasb")


class DataFeed:
    """The rows that ``train()`` and ``inference()`` feed to this worker; ``ctx.get_data_feed()`` makes one.

    Args:
        train_mode: False for ``inference()``: a batch never has rows of two partitions, and each row wants a result.
        input_mapping: Names of a DataFrame's columns, and what the batches call them.
    """

    def __init__(
        self,
        mgr: Trainer,
        train_mode: bool = True,
        qname_in: str = "input",
        qname_out: str = "output",
        input_mapping: Mapping[str, str] | None = None,
    ) -> None:
        self.train_mode = train_mode
        self.qname_in = qname_in
        self.qname_out = qname_out
        self.input_tensors = None if input_mapping is None else [input_mapping[name] for name in sorted(input_mapping)]
        self.done_feeding = False
        self._trainer = mgr

    def next_batch(self, batch_size: int) -> Any:
        """Up to `batch_size` rows as a list; waits for them. Fewer at the end of the data.

        With `input_mapping` it is a dictionary of columns, by the order of the mapping's sorted keys: NumPy arrays of
        what is numbers, lists of anything else.
        """
        if self.input_tensors is None:
            rows: list[Any] = []
            _, self.done_feeding = self._take(batch_size, lambda batch, begin, end: rows.extend(batch.rows(begin, end)))
            return rows
        import numpy as np

        names = self.input_tensors
        columns: dict[str, list[Any]] = {name: [] for name in names}

        def give(batch: Any, begin: int, end: int) -> None:
            if batch.width() < len(names):
                raise ValueError(f"a row has {batch.width()} columns, but input_mapping names {len(names)}")
            for number, name in enumerate(names):
                columns[name].append(batch.column(number, begin, end))

        _, self.done_feeding = self._take(batch_size, give)
        whole: dict[str, Any] = {}
        for name, parts in columns.items():
            if parts and all(isinstance(part, np.ndarray) and part.shape[1:] == parts[0].shape[1:] for part in parts):
                whole[name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
            else:
                whole[name] = [value for part in parts for value in part]
        return whole

    def _take(self, batch_size: int, give: Any) -> tuple[int, bool]:
        if batch_size < 1:
            raise ValueError(f"a batch of {batch_size} rows can't be")
        return self._trainer.take(self.qname_in, batch_size, not self.train_mode, give)

    def should_stop(self) -> bool:
        """Whether the data has ended."""
        return self.done_feeding

    def batch_results(self, results: Sequence[Any]) -> None:
        """Results for the rows of the last batches, in their order, one for each."""
        self._trainer.answer(list(results))

    def terminate(self) -> None:
        """Ends the feed: what is fed from now on is not read."""
        self._trainer.end()
        self.done_feeding = True


class Server:
    """This process's place in the job of workers and servers, where a program expects ``tf.train.Server``."""

    target = ""
    """For ``tf.compat.v1.Session``: this process."""

    def __init__(self, is_server: bool) -> None:
        self._is_server = is_server

    def join(self) -> None:
        """A parameter server's work, until the last worker has left. A worker has nothing to wait for."""
        if not self._is_server:
            return
        from colla import _core
        from colla._world import horovod_settings

        _core.Job(horovod_settings(os.environ), _torch_version()).serve()


def _torch_version() -> str:
    """What the workers will say. They have this program, of which a server may have run less."""
    if "torch" not in sys.modules and ("tensorflow" in sys.modules or importlib.util.find_spec("torch") is None):
        return ""
    import torch  # noqa: F401  # The libraries of colla._torch.

    from colla import _torch

    return _torch.torch_version


def start_cluster_server(ctx: Any, num_gpus: int = 1, rdma: bool = False) -> tuple[dict[str, list[str]], Server]:
    """The addresses of the cluster, and this process's server: ``join()`` it on a ``ps``.

    On a worker ``init()`` of ``colla.torch``, ``colla.tensorflow`` or ``colla.keras`` joins the job.
    """
    return {job: list(tasks) for job, tasks in ctx.cluster_spec.items()}, Server(ctx.job_name == "ps")


def hdfs_path(ctx: Any, path: str) -> str:
    """`path` with the scheme of the default file system, absolute; one that has a scheme stays."""
    if any(path.startswith(scheme + "://") for scheme in _SCHEMES):
        return path
    if path.startswith("/"):
        return f"{ctx.defaultFS}{path}"
    if ctx.defaultFS.startswith(("hdfs://", "viewfs://")):
        return f"{ctx.defaultFS}/user/{getpass.getuser()}/{path}"
    if ctx.defaultFS.startswith("file://"):
        return f"{ctx.defaultFS}/{ctx.working_dir[1:]}/{path}"
    return f"{ctx.defaultFS}/{path}"


def release_port(ctx: Any) -> None:
    """Frees this process's port in ``ctx.cluster_spec``, for what is to listen there."""
    ctx.free_port()
