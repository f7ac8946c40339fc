"""``from colla import Pool``: multiprocessing's Pool, with arrays in shared memory. docs/pool.md."""

from colla.pool.crew import PoolEnded, WorkerLost
from colla.pool.pool import Pool
from colla.pool.results import AsyncResult

__all__ = ["AsyncResult", "Pool", "PoolEnded", "WorkerLost"]
