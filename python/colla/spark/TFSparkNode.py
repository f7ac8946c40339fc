"""TensorFlowOnSpark's ``TFSparkNode``: the context of a map_fun."""

import os
from collections.abc import Mapping
from typing import Any

from colla.spark import TFNode

__all__ = ["TFNodeContext"]


class TFNodeContext:
    """What a process of a cluster knows about itself: ``ctx`` of ``map_fun(args, ctx)``."""

    def __init__(
        self,
        executor_id: int = 0,
        job_name: str = "",
        task_index: int = 0,
        cluster_spec: Mapping[str, list[str]] | None = None,
        defaultFS: str = "file://",
        working_dir: str = ".",
        mgr: Any = None,
        num_workers: int | None = None,
    ) -> None:
        self.worker_num = executor_id
        """This process's number in the cluster."""
        self.executor_id = executor_id
        """The same."""
        self.job_name = job_name
        """``ps``, ``chief``, ``master``, ``evaluator`` or ``worker``."""
        self.task_index = task_index
        """Its number among those of the same name."""
        self.cluster_spec = dict(cluster_spec or {})
        """The addresses of all processes, by the names of their jobs."""
        workers = sum(len(self.cluster_spec.get(job, [])) for job in ("master", "chief", "worker"))
        self.num_workers = workers if num_workers is None else num_workers
        """How many processes train."""
        self.defaultFS = defaultFS
        """Hadoop's default file system."""
        self.working_dir = working_dir
        """Where the driver was started."""
        self.mgr = mgr
        self._port: int | None = None

    def absolute_path(self, path: str) -> str:
        """``TFNode.hdfs_path()``."""
        return TFNode.hdfs_path(self, path)

    def start_cluster_server(self, num_gpus: int = 1, rdma: bool = False) -> tuple[dict[str, list[str]], TFNode.Server]:
        """``TFNode.start_cluster_server()``."""
        return TFNode.start_cluster_server(self, num_gpus, rdma)

    def get_data_feed(
        self,
        train_mode: bool = True,
        qname_in: str = "input",
        qname_out: str = "output",
        input_mapping: Mapping[str, str] | None = None,
    ) -> TFNode.DataFeed:
        """The rows that the driver feeds to this worker."""
        return TFNode.DataFeed(self.mgr, train_mode, qname_in, qname_out, input_mapping)

    def release_port(self) -> None:
        """``TFNode.release_port()``."""
        TFNode.release_port(self)

    def hold_port(self, descriptor: int) -> None:
        """Keeps this process's port in ``cluster_spec`` from others."""
        self._port = descriptor

    def free_port(self) -> None:
        """The opposite; once is enough."""
        if self._port is not None:
            os.close(self._port)
            self._port = None
