"""``parallel_run()``: in the process that a user starts, the start of the workers; in each of these, the graph's change."""

import dataclasses
import os
import pathlib
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

import colla.tensorflow as hvd
from colla._command import COMMAND
from colla._server_options import ServerOptions
from colla.parallax import _partitions
from colla.parallax._config import Config
from colla.parallax._log import log
from colla.parallax._session import Profile, Session
from colla.tensorflow._gradients import Reducer
from colla.tensorflow._programs import BeginTogether, ServedGraph, place_here, take_over
from colla.tensorflow._servers import Rule, Served

v1 = tf.compat.v1

_OPTIONS = ("HYBRID", "MPI", "PS")


@dataclasses.dataclass
class _Application:
    """What a program's optimizer does in a graph, and the operation that programs fetch to have it done."""

    optimizer: Any
    pairs: list[tuple[Any, Any]]
    global_step: Any
    own: Callable[..., Any]
    seam: Any


_applications: "weakref.WeakKeyDictionary[tf.Graph, list[_Application]]" = weakref.WeakKeyDictionary()


def _note(optimizer: Any, pairs: Sequence[Any], global_step: Any, name: str | None, own: Callable[..., Any]) -> Any:
    """TensorFlow's own operation, behind one whose place in the graph ``parallel_run()`` can change."""
    applied = own(pairs, global_step=global_step)
    if tf.executing_eagerly():
        return applied
    with tf.control_dependencies([applied]):
        seam = tf.no_op(name or "parallax_step")
    there = [pair for pair in pairs if pair[0] is not None]
    _applications.setdefault(v1.get_default_graph(), []).append(_Application(optimizer, there, global_step, own, seam))
    return seam


take_over(_note)


def parallel_run(
    single_gpu_graph: Any, resource_info: str, sync: bool = True, parallax_config: Config | None = None
) -> tuple[Session, int, int, int]:
    """Trains a graph in several workers. Gives the session, how many workers there are, which one this is, and 1.

    In the process that the user has started, it starts the workers, and ends the process when they have ended.

    Args:
        single_gpu_graph: A complete graph for one process, whose optimizer is one of TensorFlow's.
        resource_info: A file with a host in each line. ``host: 0,1`` is a host with as many workers as numbers.
        sync: A step waits for all workers. Otherwise servers take each worker's gradients as they come.
        parallax_config: The rest.
    """
    config = parallax_config or Config()
    if config.run_option not in _OPTIONS:
        raise ValueError(f"run_option is {config.run_option!r}, but takes {', '.join(_OPTIONS)}")
    if not sync and config.run_option == "MPI":
        raise ValueError("sync=False is for servers, and run_option MPI has none")
    applications = _applications.get(single_gpu_graph, [])
    if not applications:
        raise ValueError(
            "the graph has no optimizer of tf.compat.v1.train, or it was made before `import parallax`, which has to know"
        )
    if "COLLA_ROLE" not in os.environ:
        sys.exit(_start_workers(resource_info, _strategy(applications, sync, config), config))
    hvd.init()  # A server serves here, and ends.
    with single_gpu_graph.as_default():
        _change(applications, _strategy(applications, sync, config), config)
        session = _session(single_gpu_graph, config)
    log.info("worker %d of %d", hvd.rank(), hvd.size())
    return Session(session), hvd.size(), hvd.rank(), 1


def _strategy(applications: list[_Application], sync: bool, config: Config) -> str:
    if not sync:
        return "ps-async"
    if config.run_option == "PS":
        return "ps-sync"
    has_rows = any(isinstance(gradient, tf.IndexedSlices) for one in applications for gradient, _ in one.pairs)
    return "hybrid" if config.run_option == "HYBRID" and has_rows else "allreduce"


def hosts_of(resource_info: str) -> dict[str, int]:
    """The hosts of a file, and how many workers each has. ValueError for a line that is none."""
    hosts: dict[str, int] = {}
    for line in pathlib.Path(resource_info).read_text().splitlines():
        text = line.partition("#")[0].strip()
        if not text:
            continue
        host, _, devices = (part.strip() for part in text.partition(":"))
        numbers = [number.strip() for number in devices.split(",")] if devices else ["0"]
        if not host or any(not number.isdigit() for number in numbers):
            raise ValueError(f"{resource_info} has {line!r}, but takes HOST or HOST: 0,1,...")
        hosts[host] = hosts.get(host, 0) + len(numbers)
    if not hosts:
        raise ValueError(f"{resource_info} names no host")
    return hosts


def _start_workers(resource_info: str, strategy: str, config: Config) -> int:
    """Starts this program again as each worker, and as servers if it needs them: one for each host."""
    hosts = hosts_of(resource_info)
    command = [COMMAND, "run", "-np", str(sum(hosts.values()))]
    if strategy != "allreduce":
        command += ["--ps", str(len(hosts))]
    if list(hosts) not in (["localhost"], ["127.0.0.1"]):
        command += ["-H", ",".join(f"{host}:{slots}" for host, slots in hosts.items())]
    if config.redirect_path:
        command += ["--output-dir", config.redirect_path]
    program = [sys.executable, *sys.orig_argv[1:]]
    return subprocess.run([*command, "--", *program]).returncode


def _change(applications: list[_Application], strategy: str, config: Config) -> None:
    """Has each optimizer's operation take gradients of all workers, or servers take its place."""
    for number, one in enumerate(applications):
        whole = [pair for pair in one.pairs if not isinstance(pair[0], tf.IndexedSlices)]
        rows = [pair for pair in one.pairs if isinstance(pair[0], tf.IndexedSlices)]
        steps = []
        if strategy in ("allreduce", "hybrid"):
            own = _reduced(f"Parallax_{number}", whole, hvd.Average)
            if strategy == "allreduce":
                own += _reduced(f"Parallax_rows_{number}", rows, hvd.Average if config.average_sparse else hvd.Sum)
            if own:
                steps.append(one.own(own, global_step=None if strategy == "hybrid" else one.global_step))
        if strategy != "allreduce":
            mean = strategy != "ps-async"
            served = Served(
                strategy, Rule(one.optimizer), ServerOptions(partitions=_partitions.wanted[0]),
                mean, mean and config.average_sparse,
            )
            graph = ServedGraph(served, rows if strategy == "hybrid" else one.pairs, one.global_step)
            # A thread of TensorFlow waits for the servers, so that what others wait for comes first.
            with tf.control_dependencies(steps):
                steps = [graph.update()]
        one.seam._remove_all_control_inputs()
        one.seam._add_control_inputs([step if isinstance(step, tf.Operation) else step.op for step in steps])


def _reduced(name: str, pairs: list[tuple[Any, Any]], op: Any) -> list[tuple[Any, Any]]:
    variables = [variable for _, variable in pairs]
    return list(zip(Reducer(name, op=op)([gradient for gradient, _ in pairs], variables), variables))


def _session(graph: Any, config: Config) -> Any:
    place_here(graph)
    chief = hvd.rank() == 0
    checkpoints = config.ckpt_config
    saves = {}
    if checkpoints.save_ckpt_steps is not None:
        saves["save_checkpoint_steps"] = checkpoints.save_ckpt_steps
    if checkpoints.save_ckpt_secs is not None:
        saves["save_checkpoint_secs"] = checkpoints.save_ckpt_secs
    profile = config.profile_config
    traced = profile.profile_dir is not None and (profile.profile_worker or 0) == hvd.rank()
    return v1.train.MonitoredTrainingSession(
        is_chief=True,  # Each worker makes variables of its own.
        checkpoint_dir=checkpoints.ckpt_dir if chief else None,
        hooks=[BeginTogether(), *([Profile(profile)] if traced else [])],
        config=config.sess_config,
        **(saves if chief else {}),
    )
