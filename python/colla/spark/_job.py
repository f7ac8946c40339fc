"""The driver's end: the processes of a job on executors, from their start to their end."""

import collections
import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from colla.spark import _control, _task

START = 600.0
"""Seconds in which all processes of a job must have started, unless the program says otherwise."""

_SETTLING = 5.0  # Seconds that the others have to end by themselves once a process has failed.
_ENDING = 10.0  # Seconds for all processes to end after the order to stop.


class Job:
    """Processes of a job, one for each of `roles`, on the executors of `sc`.

    Args:
        call: What each process calls, as `_call.pack()` made it.
        roles: Name and number of each process, as TensorFlow calls it: ``("worker", 0)``.
        kept: Which of them keep their places on their executors while they run.
        timeout: Seconds in which all of them must have started.
        context: What map_fun's context says, the same on all; None: the function gets no context.
    """

    def __init__(
        self,
        sc: Any,
        call: bytes,
        roles: list[tuple[str, int]],
        kept: list[bool],
        timeout: float,
        *,
        context: dict[str, Any] | None = None,
        release_port: bool = True,
    ) -> None:
        from pyspark import InheritableThread

        check_context(sc)
        check_slots(sc, len(roles))
        self.sc = sc
        self.roles = roles
        self.nodes: dict[int, dict[str, Any]] = {}
        self.secret = os.urandom(32)
        self.group = f"colla-spark-{os.urandom(8).hex()}"
        self.over = threading.Event()  # A program has ended its feed.
        self._changed = threading.Condition()
        self._channels: dict[_control.Channel, int] = {}
        self._asked: set[int] = set()
        self._ended: dict[int, dict[str, Any]] = {}
        self._over: set[int] = set()
        self._first: int | None = None  # Of those that failed.
        self._problem = ""  # Of Spark's, or of a task that feeds.
        self._fed: set[tuple[str, int]] = set()
        self._questions: dict[int, dict[str, Any]] = {}
        self._numbers = itertools.count()
        self._results: dict[int, Any] = {}
        self._finished = False
        conf = sc.getConf()
        host = conf.get("spark.driver.host", "localhost")
        self._desk = _control.Desk(conf.get("spark.driver.bindAddress", host), self.secret, self._hear, self._gone)
        self.address = (host, self._desk.port)
        self._plan = _task.Plan(
            driver=self.address,
            secret=self.secret,
            job=self.group,
            call=call,
            roles=roles,
            kept=kept,
            context=context,
            release_port=release_port,
            aliases=os.environ.get("COLLA_ALIASES", ""),
        )
        self._spark = InheritableThread(target=self._run_stage, name="colla-spark-start", daemon=True)
        self._spark.start()
        try:
            self._await_start(timeout)
        except BaseException:
            self.stop()
            raise

    # The stage, and what its processes say.

    def _run_stage(self) -> None:
        plan, count = self._plan, len(self.roles)
        try:
            self.sc.setJobGroup(self.group, f"Colla: {count} processes", interruptOnCancel=True)
            stage = self.sc.parallelize(range(count), count).barrier()
            results = dict(stage.mapPartitions(lambda _: _task.start(plan)).collect())
        except Exception as error:
            with self._changed:
                self._problem = self._problem or f"Spark could not run the processes: {first_line(error)}"
                self._finished = True
                self._changed.notify_all()
            return
        with self._changed:
            self._results = results
            self._finished = True
            self._changed.notify_all()

    def _hear(self, channel: _control.Channel, message: dict[str, Any]) -> None:
        answer: dict[str, Any] | None = None
        kind = message["kind"]
        if kind == "feed":
            answer = {"rows": self._rows_of(message["feed"], message["partition"])}
        with self._changed:
            rank = message.get("rank", -1)
            if kind == "start":
                answer = {"first": rank not in self._asked}
                self._asked.add(rank)
            elif kind == "started":
                self.nodes[rank] = message | {"name": self.name_of(rank)}
                self._channels[channel] = rank
            elif kind == "ended":
                self._end(rank, message)
            elif kind == "over":
                self._over.add(rank)
                self.over.set()
            elif kind == "why":
                self._changed.wait_for(lambda: rank in self._ended, timeout=_SETTLING)
                answer = {"over": rank in self._over, "text": self._why(rank)}
            elif kind == "failed":
                self._problem = self._problem or message["text"]
                answer = {}
            elif kind == "taken":
                question = self._questions.get(message["id"])
                if question is not None:
                    question["rows"] += message["rows"]
                    question["left"].discard(rank)
            self._changed.notify_all()
        if answer is not None:
            channel.send(answer)

    def _gone(self, channel: _control.Channel) -> None:
        with self._changed:
            rank = self._channels.pop(channel, None)
            if rank is not None and rank not in self._ended:
                self._end(rank, {"code": None, "lines": [], "stopped": False})
            for question in self._questions.values():
                question["left"].discard(rank)
            self._changed.notify_all()

    def _end(self, rank: int, how: dict[str, Any]) -> None:
        self._ended[rank] = how
        if how.get("over"):
            self._over.add(rank)
        if how["code"] != 0 and not how["stopped"] and self._first is None:
            self._first = rank

    def _rows_of(self, feed: str, partition: int) -> int:
        """How many rows of a partition the processes have; 0 if no task has fed it before."""
        with self._changed:
            if (feed, partition) not in self._fed:
                self._fed.add((feed, partition))
                return 0
            number = next(self._numbers)
            question = {"rows": 0, "left": set(self._channels.values()) - set(self._ended)}
            self._questions[number] = question
            channels = [channel for channel, rank in self._channels.items() if rank in question["left"]]
        for channel in channels:
            try:
                channel.send({"kind": "taken", "id": number, "feed": feed, "partition": partition})
            except OSError:
                pass  # _gone() hears of it.
        with self._changed:
            self._changed.wait_for(lambda: not question["left"], timeout=_ENDING)
            del self._questions[number]
            rows: int = question["rows"]
            return rows

    # What the driver's program waits for.

    def name_of(self, rank: int) -> str:
        """For messages."""
        job, index = self.roles[rank]
        return f"rank {rank} ({job}:{index})"

    def _why(self, rank: int) -> str:
        how = self._ended.get(rank)
        where = f"{self.name_of(rank)} on {self.nodes[rank]['host']}"
        if how is None:
            return f"{where} does not answer"
        if how["code"] == 0:
            return f"{where} has ended before the data did: call terminate() of its feed when it wants no more"
        if how["stopped"]:
            return f"{where} was stopped"
        lines = [line for line in how["lines"] if line.strip()]
        if how["code"] is None:
            return f"{where} was lost with its executor"
        ended = f"was killed by signal {-how['code']}" if how["code"] < 0 else f"ended with exit code {how['code']}"
        if "error" in how:
            return f"{where} failed:\n{how['error'].rstrip()}" + _said(lines, how["error"])
        return f"{where} {ended}" + _said(lines, "")

    def failure(self) -> str | None:
        """Why this job can't go on; None if it can."""
        with self._changed:
            return self._failure()

    def _failure(self) -> str | None:
        if self._first is None:
            return self._problem or None
        others = [rank for rank, how in self._ended.items() if how["code"] != 0 and rank != self._first]
        lines = [self._why(self._first)]
        for rank in sorted(others):
            if not self._ended[rank]["stopped"]:
                lines.append("and " + self._why(rank).replace(":\n", ": ").splitlines()[0])
        return "\n".join(lines)

    def _await_start(self, timeout: float) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: len(self.nodes) == len(self.roles) or self._first is not None or self._problem, timeout
            )
            if len(self.nodes) == len(self.roles):
                return
            problem = self._failure()
            missing = [self.name_of(rank) for rank in range(len(self.roles)) if rank not in self.nodes]
        raise RuntimeError(
            problem
            or f"{', '.join(missing)} did not start within {timeout:g} s: the executors may be busy with other tasks"
        )

    def wait(self, ranks: list[int], timeout: float | None = None) -> bool:
        """Whether the processes have ended well within `timeout` seconds. RuntimeError if one failed."""
        limit = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            self._changed.wait_for(
                lambda: all(rank in self._ended for rank in ranks) or self._failure() is not None,
                None if limit is None else max(0, limit - time.monotonic()),
            )
            failed = self._failure() is not None
            done = all(rank in self._ended for rank in ranks)
        if failed:
            self.fail()
        return done

    def fail(self) -> None:
        """Stops everything and raises the failure."""
        with self._changed:
            self._changed.wait_for(
                lambda: all(rank in self._ended for rank in self.nodes), _SETTLING if self._first is not None else 0
            )
        self.stop()
        raise RuntimeError(self.failure())

    def watch(self, action: Callable[[], Any], description: str) -> Any:
        """What `action`, a job of Spark's, returns. Cancels it and raises when a process or a task of its fails."""
        from pyspark import InheritableThread

        group = f"{self.group}-{os.urandom(4).hex()}"
        outcome: dict[str, Any] = {}

        def run() -> None:
            try:
                self.sc.setJobGroup(group, description, interruptOnCancel=True)
                outcome["result"] = action()
            except Exception as error:
                outcome["error"] = error
            with self._changed:
                outcome["done"] = True
                self._changed.notify_all()

        thread = InheritableThread(target=run, name="colla-spark-feed", daemon=True)
        thread.start()
        try:
            with self._changed:
                self._changed.wait_for(lambda: "done" in outcome or self._failure() is not None)
                failed = self._failure() is not None
        except BaseException:
            self.sc.cancelJobGroup(group)
            raise
        if failed:
            self.sc.cancelJobGroup(group)
            self.fail()
        if "error" in outcome:
            raise outcome["error"]
        return outcome["result"]

    def tell(self, message: dict[str, Any], ranks: list[int]) -> None:
        """To processes that are still there."""
        with self._changed:
            channels = [channel for channel, rank in self._channels.items() if rank in ranks]
        for channel in channels:
            try:
                channel.send(message)
            except OSError:
                pass

    def results(self) -> list[Any]:
        """What the processes' functions have returned, by rank."""
        import pickle

        with self._changed:
            self._changed.wait_for(lambda: self._finished, _ENDING)
            problem = self._problem
            results = self._results
        if problem or len(results) < len(self.roles):
            self.stop()
            raise RuntimeError(problem or "Spark has not delivered the results")
        return [pickle.loads(results[rank]) for rank in range(len(self.roles))]

    def all_over(self, ranks: list[int]) -> bool:
        """Whether all of these have ended their feeds."""
        with self._changed:
            return all(rank in self._over for rank in ranks)

    def ended(self) -> collections.abc.Set[int]:
        """Ranks that have."""
        with self._changed:
            return set(self._ended)

    def stop(self) -> None:
        """Ends all processes that are left, and the stage."""
        self.tell({"kind": "stop"}, list(range(len(self.roles))))
        with self._changed:
            self._changed.wait_for(lambda: not set(self.nodes) - set(self._ended), _ENDING)
            finished = self._changed.wait_for(lambda: self._finished, 1)
        if not finished:
            try:
                self.sc.cancelJobGroup(self.group)
            except Exception:
                pass  # The context was stopped.
        self._desk.close()


def _said(lines: list[str], known: str) -> str:
    """The last lines of a process's output, without those that are in its traceback."""
    new = [line for line in lines if line.rstrip() not in known]
    return "\nIts last lines:\n" + "\n".join(f"  {line}" for line in new) if new else ""


def first_line(error: BaseException) -> str:
    """What is worth reading of an error of Spark's."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def check_context(sc: Any) -> None:
    """Raises TypeError or ValueError, in one line, for what is not a SparkContext to work with."""
    from pyspark import SparkContext

    if isinstance(sc, SparkContext):
        if sc._jsc is None:
            raise ValueError("the SparkContext was stopped")
        if sc.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
            raise ValueError("spark.dynamicAllocation.enabled must be false: Spark's barrier stages need executors that stay")
        return
    if ".connect." in type(sc).__module__:
        raise TypeError("a Spark Connect session has no SparkContext: start the program with spark-submit, or a master")
    raise TypeError(f"sc must be a SparkContext, such as SparkSession's sparkContext, not {type(sc).__name__}")


def all_slots(sc: Any) -> int:
    """How many processes the executors can hold."""
    check_slots(sc, 1)
    return promised_slots(sc) or int(sc.defaultParallelism)


def places(sc: Any) -> dict[str, str]:
    """What the contexts of map_funs say about files: Hadoop's default, such as ``hdfs://namenode``, without a slash at its
    end, and where the driver runs."""
    system: str = sc._jsc.hadoopConfiguration().get("fs.defaultFS")
    if system.startswith("file://") and len(system) > len("file://") and system.endswith("/"):
        system = system[:-1]
    return {"defaultFS": system, "working_dir": os.getcwd()}


_REGISTERING = 120.0  # Seconds for executors to appear that the configuration promises.


def check_slots(sc: Any, wanted: int) -> None:
    """Raises ValueError, in one line, if the executors can't hold so many processes at a time."""
    scala = sc._jsc.sc()
    profile = scala.resourceProfileManager().defaultResourceProfile()
    promised = promised_slots(sc)
    limit = time.monotonic() + (_REGISTERING if promised is None or promised >= wanted else 0)
    while (there := scala.maxNumConcurrentTasks(profile)) < wanted:
        if time.monotonic() > limit:
            break
        time.sleep(0.05)
    else:
        return
    raise ValueError(
        f"{wanted} processes need {wanted} slots, but the executors of {sc.master} have {max(there, promised or 0)}: ask"
        " for fewer, or for more executors"
    )


def promised_slots(sc: Any) -> int | None:
    """How many slots the executors will have once all are there; None if nothing says so."""
    import re

    conf = sc.getConf()
    per_task = int(conf.get("spark.task.cpus", "1"))
    cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]", sc.master)
    if cluster:
        return int(cluster[1]) * (int(cluster[2]) // per_task)
    if re.fullmatch(r"local(\[.*\])?", sc.master):
        return int(sc._jsc.sc().maxNumConcurrentTasks(sc._jsc.sc().resourceProfileManager().defaultResourceProfile()))
    executors, cores = conf.get("spark.executor.instances"), conf.get("spark.executor.cores")
    if executors is not None:
        return int(executors) * max(1, int(cores or 1) // per_task)
    return None
