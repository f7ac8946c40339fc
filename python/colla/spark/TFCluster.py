"""TensorFlowOnSpark's ``TFCluster``: training processes on the executors, and the rows of an RDD for them."""

import functools
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from colla.spark import _call, _job, _task
from colla.spark._input import InputMode, check_rows

__all__ = ["InputMode", "TFCluster", "run"]

_SERVERS_END = 10.0  # Seconds for servers to end by themselves after the last worker.


class TFCluster:
    """A cluster that ``run()`` has started."""

    def __init__(self, job: _job.Job, input_mode: int, queues: Sequence[str], tensorboard: str | None) -> None:
        self.sc = job.sc
        self.input_mode = input_mode
        self.queues = list(queues)
        self.cluster_info = [
            {"executor_id": rank, "host": node["host"], "job_name": job.roles[rank][0], "task_index": job.roles[rank][1]}
            for rank, node in sorted(job.nodes.items())
        ]
        self._job = job
        self._tensorboard = tensorboard
        self._over = False
        self._workers = [rank for rank, (name, _) in enumerate(job.roles) if name in _task.WORKERS]

    def train(self, dataRDD: Any, num_epochs: int = 0, feed_timeout: float = 600, qname: str = "input") -> None:
        """Feeds the rows of an RDD, a DataFrame or each RDD of a DStream; ``InputMode.SPARK`` only.

        Returns when the workers have read all rows, or want no more. A partition that Spark feeds again, because a
        task was lost, goes on behind the rows that workers have.

        Args:
            num_epochs: How often to feed the data; 0 means 10 times, unless a worker ends the feed before.
            feed_timeout: Seconds after which a feed fails whose worker reads nothing.
            qname: The queue.
        """
        self._check_feed(qname, feed_timeout)
        if num_epochs < 0:
            raise ValueError(f"num_epochs is {num_epochs}, but can't be negative")
        if _is_stream(dataRDD):
            dataRDD.foreachRDD(lambda rdd: self._feed(rdd, 1, feed_timeout, qname))
            return
        check_rows(dataRDD)
        self._feed(dataRDD, num_epochs or 10, feed_timeout, qname)

    def _feed(self, data: Any, num_epochs: int, feed_timeout: float, qname: str) -> None:
        problem = self._job.failure()
        if problem is not None:
            self._job.fail()
        for epoch in range(num_epochs):
            if self._job.all_over(self._workers):
                return
            feed = self._plan(feed_timeout, qname, answers=False)
            if hasattr(data, "mapInArrow"):
                frame = data.mapInArrow(functools.partial(_task.feed_batches, feed), "nothing long")
                action: Callable[[], Any] = frame.collect
            else:
                action = data.mapPartitions(functools.partial(_task.feed_rows, feed)).collect
            self._job.watch(action, f"Colla: feed epoch {epoch + 1}")

    def inference(self, dataRDD: Any, feed_timeout: float = 600, qname: str = "input") -> Any:
        """An RDD of what the workers answer for each row of `dataRDD`; ``InputMode.SPARK`` only.

        The rows are fed when an action needs the RDD.
        """
        self._check_feed(qname, feed_timeout)
        check_rows(dataRDD)
        rows = dataRDD.rdd if hasattr(dataRDD, "mapInArrow") else dataRDD
        return rows.mapPartitions(functools.partial(_task.feed_rows, self._plan(feed_timeout, qname, answers=True)))

    def _plan(self, feed_timeout: float, qname: str, answers: bool) -> _task.Feed:
        job = self._job
        nodes = [job.nodes[rank] for rank in self._workers]
        return _task.Feed(job.address, job.secret, uuid.uuid4().hex, nodes, qname, feed_timeout, answers)

    def _check_feed(self, qname: str, feed_timeout: float) -> None:
        if self.input_mode != InputMode.SPARK:
            raise ValueError("this cluster reads its own data: start it with input_mode=InputMode.SPARK to feed it")
        if qname not in self.queues:
            raise ValueError(f"there is no queue {qname!r}: the cluster has {', '.join(self.queues)}")
        if self._over:
            raise ValueError("the cluster was shut down")
        if feed_timeout <= 0:
            raise ValueError(f"feed_timeout is {feed_timeout}, but must be above 0 seconds")

    def shutdown(self, ssc: Any = None, grace_secs: float = 0, timeout: float = 259200) -> None:
        """Ends the cluster: the feed, then the workers when their map_fun returns, then the servers.

        Args:
            ssc: A StreamingContext: the cluster ends when that does, or when a worker ends its feed.
            grace_secs: Seconds to wait after that, for what workers still write.
            timeout: Seconds for the workers to return; -1: as long as they want.

        RuntimeError with the traceback if a map_fun failed; TimeoutError when the time is over. In any case nothing
        is left on the executors.
        """
        if self._over:
            return
        self._over = True
        job = self._job
        others = [rank for rank in range(len(job.roles)) if rank not in self._workers]
        try:
            if ssc is not None:
                while not ssc.awaitTerminationOrTimeout(1):
                    if job.over.is_set() or job.failure() is not None:
                        ssc.stop(stopSparkContext=False, stopGraceFully=True)
                        break
            job.tell({"kind": "end"}, self._workers)
            if not job.wait(self._workers, timeout if timeout > 0 else None):
                left = ", ".join(job.name_of(rank) for rank in self._workers if rank not in job.ended())
                raise TimeoutError(f"{left} did not return within {timeout:g} s of shutdown(), and was ended")
            job.wait(others, _SERVERS_END)
            if grace_secs > 0:
                time.sleep(grace_secs)
        finally:
            job.stop()

    def tensorboard_url(self) -> str | None:
        """Where TensorBoard is; None if there is none."""
        return self._tensorboard


def run(
    sc: Any,
    map_fun: Callable[[Any, Any], Any],
    tf_args: Any,
    num_executors: int,
    num_ps: int = 0,
    tensorboard: bool = False,
    input_mode: int = InputMode.TENSORFLOW,
    log_dir: str | None = None,
    driver_ps_nodes: bool = False,
    master_node: str | None = None,
    reservation_timeout: float = 600,
    queues: Sequence[str] = ("input", "output", "error"),
    eval_node: bool = False,
    release_port: bool = True,
) -> TFCluster:
    """Starts a process on each of `num_executors` executors, which calls ``map_fun(tf_args, ctx)``.

    The first `num_ps` are parameter servers, then come the one that `master_node` names ("chief" or "master") and the
    evaluator of `eval_node`; the rest are workers. Servers and evaluators keep their slots; so do all processes with
    ``InputMode.TENSORFLOW``. With ``InputMode.SPARK`` the workers' slots are free for ``train()``.

    Args:
        tf_args: What map_fun gets; a list becomes ``sys.argv`` too.
        input_mode: Whether map_fun reads its data itself, or gets it by ``train()`` and ``inference()``.
        reservation_timeout: Seconds in which all processes must have started.
        release_port: Whether the port in ``ctx.cluster_spec`` is freed before map_fun is called, or by
            ``ctx.release_port()``.

    ValueError, before anything starts, for what can't be.
    """
    roles = _roles(num_executors, num_ps, master_node, eval_node)
    if tensorboard or log_dir:
        raise NotImplementedError("tensorboard=True is not there yet: start tensorboard --logdir beside the driver")
    if driver_ps_nodes:
        raise NotImplementedError("driver_ps_nodes=True is not there yet: the servers need executors")
    if input_mode not in (InputMode.SPARK, InputMode.TENSORFLOW):
        raise ValueError(f"input_mode is {input_mode!r}, but must be InputMode.SPARK or InputMode.TENSORFLOW")
    if eval_node and input_mode == InputMode.SPARK:
        raise ValueError("eval_node is for InputMode.TENSORFLOW: nobody feeds an evaluator")
    if not callable(map_fun):
        raise TypeError(f"map_fun must be a function of (args, ctx), not {type(map_fun).__name__}")
    _job.check_context(sc)
    kept = [name not in _task.WORKERS or input_mode != InputMode.SPARK for name, _ in roles]
    job = _job.Job(
        sc,
        _call.pack(map_fun, tf_args, None),
        roles,
        kept,
        reservation_timeout,
        context=_job.places(sc),
        release_port=release_port,
    )
    return TFCluster(job, input_mode, queues, None)


def _roles(num_executors: int, num_ps: int, master_node: str | None, eval_node: bool) -> list[tuple[str, int]]:
    if num_executors < 1 or num_ps < 0:
        raise ValueError(f"a cluster of {num_executors} executors with {num_ps} servers can't be")
    if master_node not in (None, "", "chief", "master"):
        raise ValueError(f"master_node is {master_node!r}, but must be 'chief' or 'master'")
    if num_ps + bool(eval_node) >= num_executors:
        evaluator = " and an evaluator" if eval_node else ""
        raise ValueError(f"{num_executors} executors with num_ps={num_ps}{evaluator} leave no worker")
    roles = [("ps", i) for i in range(num_ps)]
    if master_node:
        roles.append((master_node, 0))
    if eval_node:
        roles.append(("evaluator", 0))
    if len(roles) == num_ps + bool(eval_node) or num_executors > len(roles):
        roles += [("worker", i) for i in range(num_executors - len(roles))]
    return roles


def _is_stream(data: Any) -> bool:
    return any(kind.__module__ == "pyspark.streaming.dstream" for kind in type(data).__mro__)
