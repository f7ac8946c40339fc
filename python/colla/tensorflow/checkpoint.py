"""Checkpoints in the format of Colla's C++ side, of models of Keras and of sessions of TensorFlow 1: ``colla inspect``,
``compare`` and ``export`` take them."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context as eager_context
from tensorflow.python.ops.variables import PartitionedVariable

from colla import _core, _objects, _world
from colla.tensorflow.functions import broadcast_variables


class CheckpointInfo(NamedTuple):
    """Where training stood when a checkpoint was written."""

    step: int
    epoch: int
    samples: int
    """Of this epoch, that have been consumed."""
    extra: dict[str, str]
    """What the writer wanted to find again."""


def save_checkpoint(
    directory: str | os.PathLike[str],
    model: Any = None,
    optimizer: Any = None,
    step: int = 0,
    *,
    session: Any = None,
    epoch: int = 0,
    samples: int = 0,
    extra: dict[str, str] | None = None,
    keep: int = 0,
) -> str:
    """Writes ``directory/step-…``, and returns its path when it is on the disk.

    Rank 0 writes; other ranks may call it, and return at once. A checkpoint is there as a whole or not at all, whenever
    the process or the machine stops.

    Args:
        model: A model of Keras or a list of variables; of a session, by default all of its global variables.
        optimizer: One of Keras, whose state is saved beside the model.
        step: How many steps were made; names the checkpoint.
        session: Of a graph of TensorFlow 1. Hooks of a MonitoredSession are not run: this is not a step.
        epoch: The number of the epoch,
        samples: and how many of its samples were consumed.
        extra: More to find again: names and texts.
        keep: Remove older ones but so many; 0: keep all.
    """
    path = os.fspath(directory)
    if _world.is_initialized() and _world.rank() != 0:
        return os.path.join(path, f"step-{step:08d}")
    session = _raw(session)
    manifest = _core.Manifest()
    manifest.step, manifest.epoch, manifest.samples = step, epoch, samples
    manifest.workers = manifest.slices = _world.size() if _world.is_initialized() else 1
    manifest.strategy = "allreduce" if manifest.workers > 1 else "single"
    manifest.model = "" if model is None or isinstance(model, (list, tuple)) else type(model).__name__
    manifest.optimizer = "" if optimizer is None else type(optimizer).__name__
    manifest.extra = dict(extra or {})
    trained, others = _parts(model)
    arrays = [_arrays(named, session) for named in (_named(trained), _named(others), _named(_state(optimizer)))]
    return _core.save_checkpoint(path, manifest, *arrays, keep)


def load_checkpoint(
    directory: str | os.PathLike[str],
    model: Any = None,
    optimizer: Any = None,
    step: int | None = None,
    *,
    session: Any = None,
) -> CheckpointInfo:
    """Gives variables the values of a checkpoint: of the newest one, or of that of `step`.

    Every rank calls it; rank 0 reads, and the others get it from there. An optimizer of Keras must have been built.
    FileNotFoundError when there is none; ValueError when it is damaged, or is of different variables.
    """
    session = _raw(session)
    path = os.fspath(directory) if step is None else f"{os.fspath(directory)}@{step}"
    together = _world.is_initialized() and _world.size() > 1
    variables = _named([*(part for parts in _parts(model) for part in parts), *_state(optimizer)])
    info: CheckpointInfo | None = None
    error: Exception | None = None
    if not together or _world.rank() == 0:
        try:
            info = _load(path, variables, optimizer is not None, session)
        except (OSError, ValueError, RuntimeError) as raised:
            error = raised
    if together:
        info, error = _objects.broadcast_object((info, error))
    if error is not None:
        raise error
    assert info is not None
    if together:
        if session is None:
            broadcast_variables(list(variables.values()), 0)
        else:  # A graph may be complete, so that no operation can be added to it.
            values = _objects.broadcast_object(session.run(list(variables.values())) if _world.rank() == 0 else None)
            for variable, value in zip(variables.values(), values):
                _assign(variable, value, session)
    return info


def _raw(session: Any) -> Any:
    """Without the hooks, which would count a step, and may end the training."""
    if not hasattr(session, "run_step_fn"):
        return session
    return session.run_step_fn(lambda step_context: step_context.session)


def _parts(model: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """What is trained, and the other variables."""
    if model is None:
        if tf.executing_eagerly():
            raise ValueError("a model of Keras or a list of variables is needed, or a session of TensorFlow 1")
        return tf.compat.v1.global_variables(), []
    if isinstance(model, (list, tuple)):
        # Of a variable in parts, each part is one.
        return [part for one in model for part in (one if isinstance(one, PartitionedVariable) else [one])], []
    trained = {id(variable) for variable in model.trainable_variables}
    return list(model.trainable_variables), [one for one in model.variables if id(one) not in trained]


def _state(optimizer: Any) -> Sequence[Any]:
    listed = optimizer.variables if optimizer is not None else []
    return listed() if callable(listed) else listed


def _named(variables: Sequence[Any]) -> dict[str, Any]:
    """By their names, which differ."""
    named: dict[str, Any] = {}
    for variable in variables:
        name = getattr(variable, "path", None) or variable.name.removesuffix(":0")
        if name in named:
            raise ValueError(f"two variables are called {name}: give layers names that differ")
        named[name] = variable
    return named


def _arrays(named: dict[str, Any], session: Any) -> list[tuple[str, Any]]:
    values = [np.asarray(one) for one in named.values()] if session is None else session.run(list(named.values()))
    return [(name, _storable(np.asarray(value))) for name, value in zip(named, values)]


def _storable(value: Any) -> Any:
    """In a type that checkpoints have: Keras counts seeds in uint32. numpy lends no memory of bfloat16, but TensorFlow
    does."""
    if value.dtype == tf.bfloat16.as_numpy_dtype:
        with eager_context.eager_mode():  # In programs of TensorFlow 1 too.
            return _Lent(tf.constant(value))
    if value.dtype.kind == "u" and value.dtype.itemsize > 1:
        value = value.astype(np.int64)
    return np.ascontiguousarray(value).reshape(value.shape)


class _Lent:
    """A tensor that has DLPack alone: its other protocol fails for bfloat16."""

    def __init__(self, tensor: Any) -> None:
        self.__dlpack__ = tensor.__dlpack__
        self.__dlpack_device__ = tensor.__dlpack_device__


def _load(path: str, variables: dict[str, Any], with_optimizer: bool, session: Any) -> CheckpointInfo:
    checkpoint = _core.load_checkpoint(path)
    saved = dict(checkpoint.model) | (dict(checkpoint.optimizer) if with_optimizer else {})
    if saved.keys() != variables.keys():
        missing, more = sorted(variables.keys() - saved.keys()), sorted(saved.keys() - variables.keys())
        raise ValueError(
            f"the checkpoint is of different variables: it lacks {', '.join(missing) or 'none'}, and has"
            f" {', '.join(more) or 'none'} more"
        )
    for name, variable in variables.items():
        if saved[name].shape != tuple(variable.shape):
            raise ValueError(
                f"{name} has the shape {tuple(variable.shape)}, but {saved[name].shape} in the checkpoint"
            )
    for name, variable in variables.items():
        _assign(variable, _value(saved[name]), session)
    manifest = checkpoint.manifest
    return CheckpointInfo(manifest.step, manifest.epoch, manifest.samples, dict(manifest.extra))


def _value(array: _core.Array) -> Any:
    if array.dtype == "bfloat16":  # numpy has none, and TensorFlow's is of its own.
        with eager_context.eager_mode():
            return tf.experimental.dlpack.from_dlpack(array.__dlpack__()).numpy()
    return np.asarray(memoryview(array)).reshape(array.shape)


def _assign(variable: Any, value: Any, session: Any) -> None:
    if session is not None:
        variable.load(value, session)
        return
    wanted = tf.as_dtype(variable.dtype)
    variable.assign(value if tf.as_dtype(value.dtype) == wanted else tf.cast(value, wanted))
