"""Parallax' API: a graph of TensorFlow 1 for one process, run by several.

    import colla.parallax as parallax            # was: import parallax

    session, num_workers, worker_id, num_replicas_per_worker = parallax.parallel_run(graph, "resource_info", sync=True)
    loss, _ = session.run([loss_op, train_op], {images: [batch]})

The program is started once. It starts itself as the workers that the file ``resource_info`` names, and ends when they have.
"""

from colla.parallax import shard
from colla.parallax._config import (
    CheckPointConfig,
    CommunicationConfig,
    Config,
    MPIConfig,
    ProfileConfig,
    PSConfig,
)
from colla.parallax._log import log
from colla.parallax._partitions import get_partitioner
from colla.parallax._run import parallel_run

__all__ = [
    "CheckPointConfig",
    "CommunicationConfig",
    "Config",
    "MPIConfig",
    "PSConfig",
    "ProfileConfig",
    "get_partitioner",
    "log",
    "parallel_run",
    "shard",
]
