"""TensorFlow's own distributed API, between graphs, on Colla's servers.

    from colla.tensorflow import train           # was: from tensorflow.compat.v1 import train

    cluster = train.ClusterSpec({"ps": ps_hosts.split(","), "worker": worker_hosts.split(",")})
    server = train.Server(cluster, job_name=job_name, task_index=task_index)
    if job_name == "ps":
        server.join()
    else:
        with tf.device(train.replica_device_setter(cluster=cluster)):
            ...
            train_op = train.AdagradOptimizer(0.01).minimize(loss, global_step=global_step)
        with train.MonitoredTrainingSession(server.target, is_chief=(task_index == 0), hooks=hooks) as session:
            while not session.should_stop():
                session.run(train_op)

All other names are those of ``tf.compat.v1.train``. ``import colla.tensorflow.v1 as tf`` gives all of ``tf.compat.v1`` with this
module as ``tf.train``.

Each worker has the variables in its own memory. Those that an optimizer trains are changed by Colla's servers: at once with each
worker's gradients or, with SyncReplicasOptimizer, by the mean of several workers' gradients.
"""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from colla import _core, _world
from colla.tensorflow import _world as _place
from colla.tensorflow._programs import BeginTogether, ServedGraph, local_device, place_here, take_over
from colla.tensorflow._servers import Rule, Served, ServerOptions

v1 = tf.compat.v1
ClusterSpec = tf.train.ClusterSpec

# TensorFlow's names of jobs whose tasks are workers; the first of them is the chief.
_WORKERS = ("chief", "master", "worker")


def __getattr__(name: str) -> Any:
    return getattr(v1.train, name)


class Server:
    """This process's place in a cluster.

    Args:
        server_or_cluster_def: A ClusterSpec, or what makes one: lists of HOST:PORT of the jobs ``ps`` and ``worker``.
        job_name: The job of this process,
        task_index: and its number there.
        protocol, config: There for TensorFlow's sake.
        start: A worker meets the others here; otherwise in ``start()``.
    """

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: Any = None,
        start: bool = True,
    ) -> None:
        cluster = ClusterSpec(server_or_cluster_def)
        strange = [job for job in cluster.jobs if job not in (*_WORKERS, "ps")]
        if strange:
            raise ValueError(f"the cluster has a job {strange[0]}: Colla knows {', '.join(_WORKERS)} and ps")
        self._tasks = {job: cluster.job_tasks(job) for job in cluster.jobs}
        if job_name not in self._tasks:
            raise ValueError(f"job_name is {job_name!r}, but the cluster has {', '.join(sorted(self._tasks))}")
        self._job = job_name
        self._task = int(task_index or 0)
        if not 0 <= self._task < len(self._tasks[job_name]):
            raise ValueError(f"task_index is {task_index}, but {job_name} has {len(self._tasks[job_name])} tasks")
        if not self._tasks.get("ps"):
            raise ValueError("the cluster has no task of the job ps: variables need a server")
        self._started = False
        if start:
            self.start()

    @property
    def target(self) -> str:
        """What sessions take: each worker's graph runs in its own process."""
        return ""

    def _set_lists(self) -> None:
        before = [len(self._tasks.get(job, [])) for job in _WORKERS[: _WORKERS.index(self._job)]] if self._job != "ps" else []
        os.environ["COLLA_PS_HOSTS"] = ",".join(self._tasks["ps"])
        os.environ["COLLA_WORKER_HOSTS"] = ",".join(
            address for job in _WORKERS for address in self._tasks.get(job, [])
        )
        os.environ["COLLA_JOB_NAME"] = "ps" if self._job == "ps" else "worker"
        os.environ["COLLA_TASK_INDEX"] = str(sum(before) + self._task)

    def start(self) -> None:
        """Meets the others, if this is a worker: from here on, servers do what optimizers did."""
        if self._started or self._job == "ps":
            return
        self._set_lists()
        _place.init()
        take_over(_apply_at_once)
        self._started = True

    def join(self) -> None:
        """Serves until all workers have left, if this is a server. A worker has nobody to serve, and goes on at once."""
        if self._job != "ps":
            return
        self._set_lists()
        job = _core.Job(_world.horovod_settings(os.environ))
        job.serve()


def _apply_at_once(
    optimizer: Any, pairs: Sequence[tuple[Any, Any]], global_step: Any, name: str | None, own: Callable[..., Any]
) -> Any:
    """Each worker's gradients are an update of their own, as by TensorFlow's servers."""
    served = Served("ps-async", Rule(optimizer), ServerOptions(), mean=False, mean_rows=False)
    return ServedGraph(served, pairs, global_step).update(name)


def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    merge_devices: bool = True,
    cluster: Any = None,
    ps_ops: Sequence[str] | None = None,
    ps_strategy: Callable[[Any], int] | None = None,
) -> Callable[[Any], str]:
    """A function for ``tf.device()``: everything is in the worker's own process. The servers cut variables themselves."""
    here = local_device(worker_device)
    return lambda operation: local_device(operation.device) or here


class SyncReplicasOptimizer(v1.train.Optimizer):
    """Servers wait for the gradients of several workers, and make one update with their mean.

    Args:
        opt: The optimizer that the servers run.
        replicas_to_aggregate: How many workers' gradients an update takes. Those that come later are dropped: if there
            are more workers, the others are backups.
        total_num_replicas: How many workers there are: by default as many as the cluster has.
        variable_averages, variables_to_average: Refused: make ExponentialMovingAverage's operation yourself.
        use_locking, name: As TensorFlow has them.
    """

    def __init__(
        self,
        opt: Any,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: Any = None,
        variables_to_average: Any = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
    ) -> None:
        super().__init__(use_locking, name)
        if variable_averages is not None or variables_to_average is not None:
            raise NotImplementedError("SyncReplicasOptimizer makes no averages of variables: run their operation with train_op")
        workers = _world.size()
        if total_num_replicas not in (None, workers):
            raise ValueError(f"total_num_replicas is {total_num_replicas}, but the cluster has {workers} workers")
        if not 1 <= replicas_to_aggregate <= workers:
            raise ValueError(
                f"replicas_to_aggregate is {replicas_to_aggregate}, but takes 1 to {workers}, the number of workers"
            )
        self._opt = opt
        self._backup = workers - replicas_to_aggregate

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Pairs of this worker's gradient and its variable."""
        return list(self._opt.compute_gradients(*args, **kwargs))

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Ends this worker's step; the variables are those of the next one then."""
        if global_step is None:
            raise ValueError("global_step is needed: it counts the updates")
        served = Served("ps-sync", Rule(self._opt), ServerOptions(backup=self._backup))
        return ServedGraph(served, list(grads_and_vars), global_step).update(name)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's; servers have its values."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> Any:
        """The optimizer's."""
        return self._opt.variables()

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> Any:
        """A hook for the session. There is nothing left for it to do: servers have workers wait for each other."""
        return v1.train.SessionRunHook()


@functools.wraps(v1.train.MonitoredTrainingSession)
def MonitoredTrainingSession(
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: str | None = None,
    scaffold: Any = None,
    hooks: Sequence[Any] | None = None,
    chief_only_hooks: Sequence[Any] | None = None,
    **kwargs: Any,
) -> Any:
    """TensorFlow's, of a graph in this process. The chief saves, and restores; all workers begin with what it has."""
    made = functools.partial(v1.train.MonitoredTrainingSession, master="", scaffold=scaffold)
    if not _world.is_initialized():
        return made(
            is_chief=is_chief, checkpoint_dir=checkpoint_dir, hooks=hooks, chief_only_hooks=chief_only_hooks, **kwargs
        )
    place_here(v1.get_default_graph())
    if not is_chief:
        kwargs.pop("summary_dir", None)
    return made(
        is_chief=True,  # Each worker makes variables of its own.
        checkpoint_dir=checkpoint_dir if is_chief else None,
        hooks=[BeginTogether(), *(hooks or [])],
        chief_only_hooks=chief_only_hooks if is_chief else None,
        **kwargs,
    )
