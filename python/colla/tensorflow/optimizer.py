"""Optimizers that agree with the other ranks before they change variables."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from colla._core import Op
from colla._process_sets import ProcessSet, global_process_set
from colla._reductions import Adasum, Average
from colla.tensorflow import mpi_ops
from colla.tensorflow._gradients import Groups, Reducer, check_groups
from colla.tensorflow._local_sgd import LocalRounds, LocalSgdOptions
from colla.tensorflow._servers import Served, ServerOptions, split
from colla.tensorflow._strategy import Exchange
from colla.tensorflow.compression import Compression, Compressor
from colla.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from colla.tensorflow.util import dense, in_order

_Pairs = Sequence[tuple[Any, Any]]


def derive(optimizer: Any, kind: type) -> Any:
    """An optimizer with the state of `optimizer`, of a class derived from its own, whose methods `kind` overrides."""
    wrapped = type(optimizer)
    derived: Any = type(wrapped.__name__, (kind, wrapped), {"__module__": wrapped.__module__})
    made = derived.__new__(derived)
    made.__dict__.update(vars(optimizer))
    return made


class _GraphOptimizer(tf.compat.v1.train.Optimizer):
    """Reduces gradients of an optimizer of TensorFlow 1. Comes before the class that it takes the place of."""

    _reducer: Reducer
    _agg_helper: LocalGradientAggregationHelper | None

    def register_local_var(self, var: Any) -> None:
        """Leaves the gradient of `var` to this rank."""
        self._reducer.register_local(var)

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Pairs of a gradient of all ranks and its variable."""
        pairs = super().compute_gradients(*args, **kwargs)
        gradients = [gradient for gradient, _ in pairs]
        variables = [variable for _, variable in pairs]
        reduce = self._reducer if self._agg_helper is None else self._agg_helper.compute_gradients
        return list(zip(reduce(gradients, variables), variables))

    def apply_gradients(self, grads_and_vars: _Pairs, global_step: Any = None, name: str | None = None) -> Any:
        """Changes the variables."""
        pairs = list(grads_and_vars)

        def apply() -> Any:
            return super(_GraphOptimizer, self).apply_gradients(pairs, global_step=global_step, name=name)

        if self._agg_helper is None:
            return apply()

        def skip() -> Any:
            return tf.no_op() if global_step is None else global_step.assign_add(1, read_value=False)

        return self._agg_helper.apply_gradients(
            lambda: tf.group(apply()), lambda: tf.group(skip()), [gradient for gradient, _ in pairs]
        )


class _ServedOptimizer(_GraphOptimizer):
    """Has servers change the variables: all of them or, with hybrid, those with gradients of rows."""

    _served: Served
    _hybrid: bool

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Pairs of a gradient and its variable. Those that go to servers are this rank's, the others of all ranks."""
        pairs = super(_GraphOptimizer, self).compute_gradients(*args, **kwargs)
        if not self._hybrid:
            return list(pairs)
        return _reduced_beside_tables(self._reducer, _as_asked(self._reducer, pairs))

    def apply_gradients(self, grads_and_vars: _Pairs, global_step: Any = None, name: str | None = None) -> Any:
        """Ends this rank's step: the next values of all variables are in place then."""
        served, others = split(_as_asked(self._reducer, grads_and_vars), self._hybrid)
        # A thread of TensorFlow waits for the servers, so that what others wait for comes first.
        with tf.control_dependencies(in_order([gradient for gradient, _ in others])):
            updated = [self._served.update(served)]
        if others:
            updated.append(super(_GraphOptimizer, self).apply_gradients(others))
        with tf.control_dependencies(in_order(updated)):
            if global_step is not None:
                return tf.compat.v1.assign_add(global_step, 1, name=name)
            return tf.no_op(name) if not tf.executing_eagerly() else None


def _as_asked(reducer: Reducer, pairs: _Pairs) -> list[tuple[Any, Any]]:
    """The pairs, with whole gradients alone under ``sparse_as_dense``."""
    return [(dense(gradient) if reducer.sparse_as_dense else gradient, variable) for gradient, variable in pairs]


def _reduced_beside_tables(reducer: Reducer, pairs: _Pairs) -> list[tuple[Any, Any]]:
    """The pairs, with gradients of all ranks where they are whole."""
    whole = [pair for pair in pairs if not isinstance(pair[0], tf.IndexedSlices)]
    reduced = iter(reducer([gradient for gradient, _ in whole], [variable for _, variable in whole]))
    return [
        (gradient if isinstance(gradient, tf.IndexedSlices) else next(reduced), variable) for gradient, variable in pairs
    ]


class _LocalOptimizer(tf.compat.v1.train.Optimizer):
    """Makes this rank's own steps; every so often all ranks average their variables."""

    _rounds: LocalRounds

    def apply_gradients(self, grads_and_vars: _Pairs, global_step: Any = None, name: str | None = None) -> Any:
        """Changes this rank's variables, and averages them when it is time."""
        pairs = [pair for pair in grads_and_vars if pair[0] is not None]
        return self._rounds.step(
            [variable for _, variable in pairs],
            lambda: super(_LocalOptimizer, self).apply_gradients(pairs, global_step=global_step, name=name),
        )


class _DeltaOptimizer(tf.compat.v1.train.Optimizer):
    """Lets the optimizer of TensorFlow 1 make its own steps, and combines them with Adasum."""

    _compression: type[Compressor]
    _passes: int

    def apply_gradients(self, grads_and_vars: _Pairs, global_step: Any = None, name: str | None = None) -> Any:
        """Makes this rank's step. Every `backward_passes_per_step`-th time, all ranks' steps since then are combined."""
        pairs = [pair for pair in grads_and_vars if pair[0] is not None]
        variables = [variable for _, variable in pairs]
        if self._passes == 1:
            # Not a view of the variable, which is about to change.
            starts = [tf.raw_ops.DeepCopy(x=variable) for variable in variables]
            first = starts
        else:
            with tf.init_scope() if tf.executing_eagerly() else tf.name_scope("start"):
                self._start(variables)
            starts = self._starts
            first = [self._begin(variables)]
        with tf.control_dependencies(in_order(first)):
            done = super().apply_gradients(pairs, global_step=global_step, name=name)
        with tf.control_dependencies(in_order([done])):
            if self._passes == 1:
                return tf.group(*_operations(self._combine(variables, starts)))
            count = self._counter.assign_add(1)
            with tf.control_dependencies(in_order([count])):
                last = tf.equal(self._counter.read_value() % self._passes, 0)
                return tf.cond(
                    last, lambda: tf.group(*_operations(self._combine(variables, starts))), lambda: tf.group(tf.no_op())
                )

    _starts: list[Any]
    _counter: Any = None

    def _start(self, variables: list[Any]) -> None:
        """Makes the variables that hold the values at the first of several passes."""
        if self._counter is not None:
            return
        make = tf.compat.v1.Variable
        self._counter = make(tf.constant(0, tf.int64), trainable=False, name="step_count", use_resource=True)
        self._starts = [
            make(tf.zeros(variable.shape, variable.dtype.base_dtype), trainable=False, name="delta_start", use_resource=True)
            for variable in variables
        ]

    def _begin(self, variables: list[Any]) -> Any:
        return tf.cond(
            tf.equal(self._counter.read_value() % self._passes, 0),
            lambda: tf.group(*_operations([start.assign(variable) for start, variable in zip(self._starts, variables)])),
            lambda: tf.group(tf.no_op()),
        )

    def _combine(self, variables: list[Any], starts: list[Any]) -> list[Any]:
        steps = [variable - start for variable, start in zip(variables, starts)]
        combined = [mpi_ops.allreduce(step, op=Adasum, compression=self._compression) for step in steps]
        return [variable.assign(start + step) for variable, start, step in zip(variables, starts, combined)]


def _operations(values: list[Any]) -> list[Any]:
    """What ``tf.group()`` takes in a graph; eagerly all has been done."""
    return [] if tf.executing_eagerly() else values


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: Op = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
    strategy: str | None = None,
    server_options: ServerOptions | None = None,
    local_sgd_options: LocalSgdOptions | None = None,
) -> Any:
    """An optimizer like `optimizer`, of a class derived from its own, that reduces gradients over ranks.

    What the optimizer holds is that of `optimizer`, which is not to be used any more.

    Args:
        optimizer: One of ``tf.compat.v1.train`` or of Keras.
        name: Begins the names of its operations in a graph.
        use_locking, device_dense, device_sparse: There for Horovod's sake.
        compression: ``Compression.fp16`` or ``bf16``: gradients travel with 16 bits.
        sparse_as_dense: ``tf.IndexedSlices`` are reduced as dense tensors.
        backward_passes_per_step: Gradients of so many passes are added up before they are sent.
        op: Average, Sum, Min, Max, Product, or, for an optimizer of TensorFlow 1, Adasum, which combines the steps of
            ranks' optimizers instead of gradients. For one of Keras: Average or Sum.
        gradient_predivide_factor: With Average: gradients are divided by it before they are added, and by
            size / factor after it.
        average_aggregated_gradients: Gradients of several passes are averaged.
        num_groups: The old name of `groups`.
        groups: Gradients that travel together: how many such groups, or lists of variables.
        process_set: The ranks that take part. On others the optimizer is as it was.
        scale_local_gradients: Gradients of local variables are divided by the number of ranks.
        strategy: Beyond Horovod: ``allreduce``; ``ps-sync``, ``ps-async`` or ``ps-ssp``, where parameter servers hold the
            variables and run the optimizer; ``hybrid``, where they do so for variables whose gradients are
            ``tf.IndexedSlices``; or ``local-sgd``, where ranks train by themselves and average variables now and then.
            None: what ``colla run --strategy`` says.
        server_options: How the servers work; ValueError for an option that the strategy does not use.
        local_sgd_options: How often local-sgd averages, and its outer optimizer.
    """
    exchange = Exchange(strategy, server_options, local_sgd_options, op, process_set, backward_passes_per_step)
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor is for op=Average alone")
    if op == Adasum and average_aggregated_gradients:
        raise ValueError("average_aggregated_gradients is not for op=Adasum, which combines steps")
    if backward_passes_per_step <= 0:
        raise ValueError(f"backward_passes_per_step must be above 0, not {backward_passes_per_step}")
    groups = check_groups(groups, num_groups)
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        from colla.tensorflow import keras

        return keras.DistributedOptimizer(
            optimizer,
            name,
            device_dense,
            device_sparse,
            compression,
            sparse_as_dense,
            gradient_predivide_factor,
            op,
            backward_passes_per_step,
            average_aggregated_gradients,
            groups=groups,
            process_set=process_set,
            scale_local_gradients=scale_local_gradients,
            strategy=strategy,
            server_options=server_options,
            local_sgd_options=local_sgd_options,
        )
    if exchange.local:
        return exchange.start_local(derive(optimizer, _LocalOptimizer))
    if op == Adasum:
        if process_set is not global_process_set:
            raise NotImplementedError("op=Adasum is for the set of all ranks alone")
        made = derive(optimizer, _DeltaOptimizer)
        made._compression, made._passes = compression, backward_passes_per_step
        return made
    made = derive(optimizer, _ServedOptimizer if exchange.servers else _GraphOptimizer)
    if exchange.servers:
        made._served, made._hybrid = exchange.serve(optimizer), exchange.hybrid
    made._optimizer = optimizer  # Where programs for Horovod look for it.
    made._reducer = Reducer(
        name or f"Distributed{type(optimizer).__name__}",
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        groups,
        process_set,
        scale_local_gradients,
    )
    made._agg_helper = None
    if backward_passes_per_step > 1:
        made._agg_helper = LocalGradientAggregationHelper(
            backward_passes_per_step, made._reducer, sparse_as_dense, average_aggregated_gradients
        )
    return made
