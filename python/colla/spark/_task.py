"""What tasks of Spark do: start processes of a job on executors, and feed them."""

import dataclasses
import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from colla.spark import _control, _processes


@dataclasses.dataclass(frozen=True)
class Plan:
    """Which processes a job has, and what they need to know. It travels to executors through Spark's own channel."""

    driver: tuple[str, int]
    secret: bytes
    job: str
    call: bytes
    roles: list[tuple[str, int]]
    """Of each process, by its number: the name of its job, as TensorFlow calls it, and its number there."""
    kept: list[bool]
    """Whether a process's task waits for it, and so keeps its place on the executor."""
    context: dict[str, Any] | None = None
    release_port: bool = True
    aliases: str = ""
    """Systems whose modules mean Colla in the driver (`colla.aliases`), and so in the processes."""


# The jobs, as TensorFlow calls them, whose processes are workers of Colla's.
WORKERS = ("chief", "master", "worker")
# And the name of processes that form no job.
ALONE = "alone"


def start(plan: Plan) -> Iterator[Any]:
    """A task of the barrier stage: starts its process, and waits for it if that is wanted."""
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    rank = context.partitionId()
    if not _ask(plan.driver, plan.secret, {"kind": "start", "rank": rank})["first"]:
        return iter([(rank, None)])  # Spark tries again what was lost with an executor. The driver knows it.
    host = context.getTaskInfos()[rank].address.rpartition(":")[0] or context.getTaskInfos()[rank].address
    ports = [_reserve() for _ in range(2)]
    everybody = context.allGather(" ".join([host, *(str(port.getsockname()[1]) for port in ports)]))
    places = [words.split() for words in everybody]
    order = {
        "rank": rank,
        "host": host,
        "driver": plan.driver,
        "secret": plan.secret,
        "executor": _processes.executor(),
        "attached": plan.kept[rank],
        "ports": [port.fileno() for port in ports],
        "node": _node(plan, rank, places, context),
    }
    keeper = subprocess.Popen(
        [sys.executable, "-m", "colla.spark._keeper"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_environment(plan),
        pass_fds=order["ports"],
        start_new_session=True,
    )
    assert keeper.stdin is not None and keeper.stdout is not None
    try:
        _processes.write_value(keeper.stdin, order)
        for port in ports:
            port.close()
        keeper.wait()  # It goes on as nobody's child.
        if not plan.kept[rank]:
            return iter([(rank, None)])
        try:
            return iter([(rank, _processes.read_value(keeper.stdout))])
        except EOFError:
            return iter([(rank, None)])
    finally:
        keeper.stdin.close()
        keeper.stdout.close()


def _environment(plan: Plan) -> dict[str, str]:
    """Of the process: it finds the modules that this one finds."""
    from colla import aliases

    variables = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    for system in filter(None, plan.aliases.split(",")):
        aliases.prepare(system, variables)
    return variables


def _reserve() -> socket.socket:
    """A port that nobody else gets while the socket is open."""
    port = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port.bind(("", 0))
    return port


def _node(plan: Plan, rank: int, places: list[list[str]], context: Any) -> dict[str, Any]:
    """What a process needs to know."""
    cluster: dict[str, list[str]] = {}
    for (job, _), (host, port, _) in zip(plan.roles, places):
        cluster.setdefault(job, []).append(f"{host}:{port}")
    job, index = plan.roles[rank]
    workers = [i for i, (name, _) in enumerate(plan.roles) if name in WORKERS]
    variables = {}
    if job in (*WORKERS, "ps"):
        variables |= {
            "COLLA_JOB_ID": plan.job,
            "COLLA_WORKER_HOSTS": ",".join(f"{places[i][0]}:{places[i][1]}" for i in workers),
            "COLLA_JOB_NAME": "ps" if job == "ps" else "worker",
            "COLLA_TASK_INDEX": str(index if job == "ps" else workers.index(rank)),
        }
        if "ps" in cluster:
            variables["COLLA_PS_HOSTS"] = ",".join(cluster["ps"])
    if job in WORKERS:
        beside = [i for i in workers if places[i][0] == places[rank][0]]
        variables |= {
            "MASTER_ADDR": places[workers[0]][0],
            "MASTER_PORT": places[workers[0]][2],
            "RANK": str(workers.index(rank)),
            "WORLD_SIZE": str(len(workers)),
            "LOCAL_RANK": str(beside.index(rank)),
            "LOCAL_WORLD_SIZE": str(len(beside)),
        }
    if "chief" in cluster or "master" in cluster:
        import json

        task = {"type": job, "index": index}
        variables["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})
    gpus = (context.resources() or {}).get("gpu")
    if gpus is not None:
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(gpus.addresses)
    order: dict[str, Any] = {
        "variables": variables,
        "secret": plan.secret if len({host for host, _, _ in places}) > 1 else b"",
        "path": [path for path in sys.path if path],
        "call": plan.call,
        "context": None,
        "release_port": plan.release_port,
    }
    if plan.context is not None:
        order["context"] = plan.context | {"executor_id": rank}
        if job == ALONE:
            order["context"] |= {"num_workers": len(plan.roles)}
        else:
            order["context"] |= {"job_name": job, "task_index": index, "cluster_spec": cluster}
    return order


@dataclasses.dataclass(frozen=True)
class Feed:
    """Whom tasks feed, and how."""

    driver: tuple[str, int]
    secret: bytes
    id: str
    nodes: list[dict[str, Any]]
    queue: str
    timeout: float
    answers: bool = False


def feed_rows(feed: Feed, rows: Iterable[Any]) -> Iterator[Any]:
    """Feeds a partition of an RDD. Returns nothing, or the trainer's answers."""
    from colla.spark import _feeding, _rows

    return _feed(feed, rows, lambda left: _feeding.in_batches(left, _rows.encode), 1)


def feed_batches(feed: Feed, batches: Iterable[Any]) -> Iterator[Any]:
    """Feeds a partition of a DataFrame in batches of Arrow."""
    for _ in _feed(feed, batches, _cut, None):
        pass
    return iter(())


_ROWS = 2048  # In one batch of a DataFrame; Spark's own have 10,000.


def _cut(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        for begin in range(0, batch.num_rows, _ROWS):
            yield batch.slice(begin, _ROWS)


def _feed(feed: Feed, items: Iterable[Any], to_batches: Callable[[Iterable[Any]], Iterator[Any]], one: int | None) -> Iterator[Any]:
    from colla.spark import _feeding, _rows
    from pyspark import TaskContext

    context = TaskContext.get()

    def ask(question: dict[str, Any]) -> dict[str, Any]:
        return _ask(feed.driver, feed.secret, question)

    try:
        node = _node_here(feed, context.partitionId())
        skip = 0  # Rows that an earlier task has fed before it was lost.
        if not feed.answers:
            skip = ask({"kind": "feed", "feed": feed.id, "partition": context.partitionId()})["rows"]
        left = itertools.islice(items, skip, None) if one else _skip(items, skip)
        try:
            greeting = {"feed": feed.id, "partition": context.partitionId(), "queue": feed.queue, "answers": feed.answers}
            feeder = _feeding.Feeder(_feeding.reach(node["feed"]), feed.timeout, greeting)
            if feed.answers:
                for batch in feeder.answers(to_batches(left)):
                    answers = _rows.Batch(batch)
                    yield from answers.rows(0, len(answers))
            else:
                feeder.feed(to_batches(left))
        except (_feeding.Ended, ConnectionError):
            state = ask({"kind": "why", "rank": node["rank"]})
            if not state["over"]:
                raise RuntimeError(state["text"]) from None
        except _feeding.Unread:
            raise RuntimeError(
                f"{node['name']} on {node['host']} has not read a row for {feed.timeout:g} s (feed_timeout): map_fun must"
                " call next_batch() of ctx.get_data_feed() until should_stop()"
            ) from None
    except Exception as error:
        if not feed.answers:
            ask({"kind": "failed", "text": str(error) or type(error).__name__})
        raise


def _skip(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """Batches without the first `rows` rows."""
    for batch in batches:
        if rows < batch.num_rows:
            yield batch.slice(rows)
        rows = max(0, rows - batch.num_rows)


def _node_here(feed: Feed, partition: int) -> dict[str, Any]:
    """The process that this task feeds: its executor's, or else one on the same machine."""
    machine, executor = _processes.machine(), _processes.executor()
    near = [node for node in feed.nodes if node["machine"] == machine]
    own = [node for node in near if node["executor"] == executor]
    if not near:
        hosts = ", ".join(sorted({node["host"] for node in feed.nodes}))
        raise RuntimeError(
            f"a task runs on {socket.gethostname()}, where the cluster has no worker (they are on {hosts}): start the"
            " cluster with num_executors = the executors of the application"
        )
    chosen = own or near
    return chosen[partition % len(chosen)]


def _ask(driver: tuple[str, int], secret: bytes, question: dict[str, Any]) -> dict[str, Any]:
    channel = _control.call(driver, secret)
    try:
        channel.send(question)
        answer = channel.receive()
        if answer is None:
            raise RuntimeError("the driver has shut down what this task belongs to")
        return answer
    finally:
        channel.close()
