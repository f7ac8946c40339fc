"""Variables on parameter servers: the strategies ps-sync, ps-async, ps-ssp and hybrid.

Servers hold the variables and run the optimizer; what a rank computes are gradients. A gradient that is a
``tf.IndexedSlices`` makes its variable a table, of which rows alone travel.
"""

import dataclasses
import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

from colla import _core, _world
from colla._core import Kind
from colla._server_options import ServerOptions
from colla.tensorflow.functions import _variable
from colla.tensorflow.util import dense, in_order

_Pairs = Sequence[tuple[Any, Any]]

# What servers can run, by the name of TensorFlow's class: Colla's name, and the attributes with its numbers by Colla's
# names for them (colla/optimizer.h). First those of tf.compat.v1.train, then those of Keras.
_V1: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "GradientDescentOptimizer": ("sgd", {}),
    "MomentumOptimizer": ("sgd", {"momentum": "_momentum", "nesterov": "_use_nesterov"}),
    "AdagradOptimizer": ("adagrad", {"initial_accumulator": "_initial_accumulator_value"}),
    "AdamOptimizer": ("adam", {"beta1": "_beta1", "beta2": "_beta2", "epsilon": "_epsilon"}),
    "RMSPropOptimizer": (
        "rmsprop",
        {"alpha": "_decay", "momentum": "_momentum", "epsilon": "_epsilon", "centered": "_centered"},
    ),
}
_KERAS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "SGD": ("sgd", {"momentum": "momentum", "nesterov": "nesterov"}),
    "Adagrad": ("adagrad", {"initial_accumulator": "initial_accumulator_value", "epsilon": "epsilon"}),
    "Adam": ("adam", {"beta1": "beta_1", "beta2": "beta_2", "epsilon": "epsilon", "amsgrad": "amsgrad"}),
    "AdamW": (
        "adamw",
        {"beta1": "beta_1", "beta2": "beta_2", "epsilon": "epsilon", "amsgrad": "amsgrad", "weight_decay": "weight_decay"},
    ),
    "RMSprop": (
        "rmsprop",
        {"alpha": "rho", "momentum": "momentum", "epsilon": "epsilon", "centered": "centered"},
    ),
}

# What Keras' optimizers do beside their rule, which servers do not.
_BESIDE = ("clipnorm", "clipvalue", "global_clipnorm", "use_ema", "gradient_accumulation_steps", "loss_scale_factor")


class Rule:
    """What servers run in the place of an optimizer: ValueError for one that they can't.

    ``text`` is that as Colla writes it: ``sgd lr=0.1 momentum=0.9``.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._is_v1 = isinstance(optimizer, tf.compat.v1.train.Optimizer)
        known = _V1 if self._is_v1 else _KERAS
        name = type(optimizer).__name__
        if name not in known:
            raise ValueError(f"servers can't run {name}: they know {', '.join(known)}")
        for option in _BESIDE:
            if getattr(optimizer, option, None):
                raise ValueError(f"servers can't run {name} with {option}: leave it out")
        ours, attributes = known[name]
        if ours != "adamw" and getattr(optimizer, "weight_decay", None):
            raise ValueError(f"servers can't run {name} with weight_decay: add it to the loss")
        rate = self._rate()
        # A rate that is a tensor of a graph is known when the graph runs: it is all of the factor then.
        self._base = 1.0 if tf.is_tensor(rate) else _number(rate)
        if not self._base > 0:
            raise ValueError("servers need a learning rate above 0")
        texts = [f"lr={self._base!r}"]
        for option, attribute in attributes.items():
            value = getattr(optimizer, attribute)
            value = _number(value() if callable(value) and self._is_v1 else value)
            texts.append(f"{option}={value!r}" if option not in ("nesterov", "centered", "amsgrad") else _flag(option, value))
        self.text = " ".join([ours, *texts])

    def _rate(self) -> Any:
        if self._is_v1:
            kept = getattr(self._optimizer, "_learning_rate", None)
            rate = self._optimizer._lr if kept is None else kept
            return rate() if callable(rate) else rate
        rate = self._optimizer.learning_rate
        if not tf.executing_eagerly() and not isinstance(rate, (int, float)):
            return tf.convert_to_tensor(_variable(rate))
        return rate

    def factor(self) -> Any:
        """What the servers' learning rate is to be multiplied by in a step: a tensor."""
        rate = self._rate()
        if isinstance(rate, (int, float)):
            return tf.constant(float(rate) / self._base, tf.float64)
        return tf.cast(_variable(rate), tf.float64) / self._base


def _number(value: Any) -> float:
    return float(_variable(value))


def _flag(option: str, value: float) -> str:
    return f"{option}={'true' if value else 'false'}"


class Served:
    """This rank's end of the servers, from the first step to ``shutdown()``.

    Args:
        strategy: One with servers.
        rule: What they run.
        options: How they work.
        mean, mean_rows: Whole gradients, and those of rows, are divided by the number of ranks; otherwise each counts in
            full.
    """

    def __init__(
        self, strategy: str, rule: Rule, options: ServerOptions, mean: bool = True, mean_rows: bool = True
    ) -> None:
        options.check(strategy)
        if _world.is_initialized() and _world.current().job.servers == 0:
            raise ValueError(f"strategy {strategy} needs parameter servers: start the job with colla run --ps 1")
        self.strategy = strategy
        self._rule = rule
        self._mean = mean
        self._mean_rows = mean_rows
        self._choice = _core.ServerChoice(strategy, rule.text, **dataclasses.asdict(options))
        self._choice.check()  # Refuses a number that can't be used where the user's mistake is.
        # Every update is of all ranks, so that they may meet for more than that.
        self._in_step = strategy in ("ps-sync", "hybrid") and options.backup == 0
        self._using = threading.Lock()  # TensorFlow calls from threads of its own.
        self._core: _core.Servers | None = None
        self._numbers: dict[str, int] = {}  # Of variables, by name.
        self._rows: dict[str, int] = {}  # Of tables: how many.

    def update(self, pairs: _Pairs) -> Any:
        """Ends this rank's step: the servers change the variables, which have their values then. Gives how many updates the
        servers have made.
        """
        variables, tables = _sorted(pairs)
        opened = self.open(pairs)
        gradients = {_name(variable): gradient for gradient, variable in pairs}
        inputs = [self._rule.factor()]
        for variable in variables:
            inputs.append(tf.cast(dense(gradients[_name(variable)]), _kind(variable)))
        for table in tables:
            slices = gradients[_name(table)]
            inputs += [tf.cast(slices.indices, tf.int64), tf.cast(slices.values, _kind(table))]
        kinds = [tf.int64, *(_kind(variable) for variable in variables)]
        for table in tables:
            kinds += [tf.int64, _kind(table)]
        step = functools.partial(self._alone, self._step, [_name(v) for v in variables], [_name(t) for t in tables])
        with tf.control_dependencies(in_order([opened])):
            updates, *values = tf.numpy_function(step, inputs, kinds)
        changes = _assign(variables, values[: len(variables)])
        for i, table in enumerate(tables):
            rows, changed = values[len(variables) + 2 * i : len(variables) + 2 * i + 2]
            rows = tf.ensure_shape(rows, [None])
            changed = tf.ensure_shape(changed, [None, *table.shape[1:]])
            changes.append(_scatter(table, rows, changed))
        with tf.control_dependencies(in_order(changes)):
            return tf.ensure_shape(tf.identity(updates), [])

    def open(self, pairs: _Pairs, step: Any = 0) -> Any:
        """Meets the servers, unless this rank has: they get the variables of rank 0, and all ranks get those.

        `step` is the number that the servers count updates from.
        """
        variables, tables = _sorted(pairs)
        everything = [*variables, *tables]
        names = [_name(variable) for variable in everything]
        begin = functools.partial(self._alone, self._open, names, len(variables))

        def meet() -> Any:
            inputs = [tf.cast(step, tf.int64), *(tf.convert_to_tensor(variable) for variable in everything)]
            values = tf.numpy_function(begin, inputs, [_kind(variable) for variable in everything])
            with tf.control_dependencies(in_order(_assign(everything, values))):
                return tf.constant(True)

        if tf.executing_eagerly():
            return None if self._core is not None else meet()
        there = tf.numpy_function(lambda: np.bool_(self._core is not None), [], tf.bool)
        return tf.cond(tf.ensure_shape(there, []), lambda: tf.constant(True), meet)

    def _alone(self, action: Any, *arguments: Any) -> Any:
        with self._using:
            return action(*arguments)

    def _open(self, names: list[str], dense_ones: int, step: Any, *values: Any) -> list[Any]:
        world = _world.current()
        before = _present.get(world)
        if before is not None:
            before.leave(again=True)
        arrays = [np.ascontiguousarray(value) for value in values]
        self._core = _core.Servers(world.job, list(zip(names, arrays)), dense_ones, self._choice, step=int(step))
        self._numbers = {name: number for number, name in enumerate(names)}
        self._rows = {name: len(table) for name, table in zip(names[dense_ones:], arrays[dense_ones:])}
        _present.clear()
        _present[world] = self
        world.at_close(self.leave)
        whole = [self._value(number) for number in range(dense_ones)]
        for number, table in enumerate(arrays[dense_ones:]):
            whole.append(self._pull(dense_ones + number, np.arange(len(table), dtype=np.int64)))
        return whole

    def _step(self, dense_names: list[str], table_names: list[str], factor: Any, *arrays: Any) -> list[Any]:
        core = self._core
        if core is None:
            raise RuntimeError("this rank has left the servers: a different optimizer has taken their place")
        share = _world.size() if self._mean else 1
        share_of_rows = _world.size() if self._mean_rows else 1
        first_table = len(self._numbers) - len(self._rows)
        gradients: list[Any] = [None] * first_table
        for name, gradient in zip(dense_names, arrays):
            gradients[self._numbers[name]] = np.ascontiguousarray(gradient if share == 1 else gradient / share)
        rows: list[Any] = [None] * len(self._rows)
        slices = arrays[len(dense_names) :]
        for i, name in enumerate(table_names):
            values = slices[2 * i + 1]
            rows[self._numbers[name] - first_table] = (
                np.ascontiguousarray(slices[2 * i]),
                np.ascontiguousarray(values if share_of_rows == 1 else values / share_of_rows),
            )
        _, updates = core.step(gradients, rows, float(factor))
        results = [np.int64(updates), *(self._value(self._numbers[name]) for name in dense_names)]
        for i, name in enumerate(table_names):
            changed = self._changed_rows(name, slices[2 * i])
            results += [changed, self._pull(self._numbers[name], changed)]
        return results

    def _changed_rows(self, name: str, mine: Any) -> Any:
        """The rows that may have changed since this rank has seen them."""
        if not self._in_step:
            return np.arange(self._rows[name], dtype=np.int64)  # Others have made updates that nobody here knows of.
        exchange = _world.current().exchange
        ids = np.unique(mine)
        if _world.size() == 1:
            return ids
        gathered = exchange.synchronize(
            exchange.submit(Kind.ALLGATHER, f"colla.servers.rows.{name}", [ids], [], 0, lambda results, _: results[0])
        )
        return np.unique(np.asarray(memoryview(gathered)))

    def _value(self, number: int) -> Any:
        """A copy: the next step changes what the servers have here."""
        assert self._core is not None
        return _numpy(self._core.value(number)).copy()

    def _pull(self, number: int, rows: Any) -> Any:
        assert self._core is not None
        return _numpy(self._core.pull(number, rows))

    def leave(self, again: bool = False) -> None:
        """Once; `again`: others are to follow on these servers."""
        core, self._core = self._core, None
        if core is not None:
            _present.clear()
            core.leave(again)


# Whose the servers of a world are.
_present: dict[_world.World, Served] = {}


def _numpy(array: _core.Array) -> Any:
    return np.asarray(memoryview(array)).reshape(array.shape)


def _name(variable: Any) -> str:
    return getattr(variable, "path", None) or variable.name.removesuffix(":0")


def _kind(variable: Any) -> Any:
    return tf.as_dtype(_variable(variable).dtype).base_dtype


def split(pairs: _Pairs, tables_alone: bool) -> tuple[list[Any], list[Any]]:
    """The pairs for servers, and the others. None are without a gradient."""
    there = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    if not there:
        raise ValueError("no variable has a gradient")
    served = [pair for pair in there if not tables_alone or isinstance(pair[0], tf.IndexedSlices)]
    if not served:
        raise ValueError(
            "no variable has gradients of rows (tf.IndexedSlices) for hybrid's servers: use the strategy allreduce"
        )
    return served, [pair for pair in there if not any(pair is other for other in served)]


def _sorted(pairs: _Pairs) -> tuple[list[Any], list[Any]]:
    """Variables with whole gradients, and tables."""
    variables = [variable for gradient, variable in pairs if not isinstance(gradient, tf.IndexedSlices)]
    tables = [variable for gradient, variable in pairs if isinstance(gradient, tf.IndexedSlices)]
    return variables, tables


def _assign(variables: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    assigned = []
    for variable, value in zip(variables, values if isinstance(values, (list, tuple)) else [values]):
        target = _variable(variable)
        assigned.append(target.assign(tf.ensure_shape(value, target.shape), read_value=False))
    return assigned


def _scatter(table: Any, rows: Any, values: Any) -> Any:
    target = _variable(table)
    if resource_variable_ops.is_resource_variable(target):
        return tf.raw_ops.ResourceScatterUpdate(resource=target.handle, indices=rows, updates=values)
    return tf.compat.v1.scatter_update(target, rows, values)
