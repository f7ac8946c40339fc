"""Gradients of all ranks as one: what tapes and optimizers have in common."""

import os
import warnings
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from colla import _strategies
from colla._core import Op
from colla._process_sets import ProcessSet, global_process_set
from colla.tensorflow import mpi_ops
from colla.tensorflow.compression import Compression, Compressor
from colla.tensorflow.util import dense

Groups = int | Sequence[Sequence[Any]] | None


def reference(variable: Any) -> Any:
    """Stands for a variable in a set: TensorFlow's own can't be compared to find one."""
    return variable.ref() if hasattr(variable, "ref") else id(variable)


def check_groups(groups: Groups, num_groups: int) -> Groups:
    """`groups`, or what its forerunner asks for; ValueError for what can't be."""
    if num_groups != 0:
        warnings.warn("num_groups is deprecated: use groups", DeprecationWarning, stacklevel=3)
        groups = num_groups if groups is None else groups
    if groups is None or (isinstance(groups, int) and groups > 0) or isinstance(groups, (list, tuple)):
        return groups
    raise ValueError(f"groups takes a number above 0 or lists of variables, not {groups!r}")


def check_strategy(strategy: str | None) -> str:
    """The name of the strategy: without one, that of ``colla run --strategy``."""
    name = strategy or os.environ.get("COLLA_STRATEGY") or "allreduce"
    _strategies.find(name)
    return name


def variables_of(local_layers: Any) -> list[Any]:
    """What is trained in layers of Keras: one, several, or None."""
    layers = [local_layers] if hasattr(local_layers, "trainable_weights") else list(local_layers or [])
    if any(not hasattr(layer, "trainable_weights") for layer in layers):
        raise ValueError("local_layers takes layers of Keras")
    return [variable for layer in layers for variable in layer.trainable_weights]


class Reducer:
    """Reduces gradients over the ranks of a process set, but for those of local variables.

    Args:
        name: Begins the names of its operations in a graph.
        compression: How gradients travel.
        sparse_as_dense: ``tf.IndexedSlices`` are reduced as dense tensors.
        op: The reduction.
        predivide: With Average: gradients are divided by it before they are added, and multiplied by it after it.
        groups: Gradients that travel together: how many such groups, or lists of variables.
        process_set: The ranks that take part. On others, gradients stay as they are.
        scale_local: Gradients of local variables are divided by the number of ranks, as fits an average.
    """

    def __init__(
        self,
        name: str,
        compression: type[Compressor] = Compression.none,
        sparse_as_dense: bool = False,
        op: Op = Op.AVERAGE,
        predivide: float = 1.0,
        groups: Groups = None,
        process_set: ProcessSet = global_process_set,
        scale_local: bool = True,
    ) -> None:
        if predivide != 1.0 and op != Op.AVERAGE:
            raise ValueError("gradient_predivide_factor is for op=Average alone")
        self.name = name
        self.process_set = process_set
        self.sparse_as_dense = sparse_as_dense
        self._compression = compression
        self._op = op
        self._predivide = predivide
        self._groups = groups
        self._scale_local = scale_local
        self._local: set[Any] = set()

    def register_local(self, variable: Any) -> None:
        """Leaves the gradient of `variable` to this rank."""
        self._local.add(reference(variable))

    def is_local(self, variable: Any) -> bool:
        """Whether it was registered as local."""
        return reference(variable) in self._local

    def __call__(
        self, gradients: Sequence[Any], variables: Sequence[Any], use_generic_names: bool = False
    ) -> list[Any]:
        """The gradients of all ranks, in the place of this rank's; None stays None."""
        results = list(gradients)
        if self.sparse_as_dense:
            results = [dense(gradient) for gradient in results]
        size = self.process_set.size() if self.process_set.included() else 1
        if size is None or size == 1:
            return results
        shared = [
            i for i, gradient in enumerate(results) if gradient is not None and not self.is_local(variables[i])
        ]
        with tf.name_scope(f"{self.name}_Allreduce"):
            for number, unit in enumerate(self._units(shared, variables)):
                names = {"name": f"grad_{number}", "ignore_name_scope": True} if use_generic_names else {}
                reduced = mpi_ops.grouped_allreduce(
                    [results[i] for i in unit],
                    compression=self._compression,
                    op=self._op,
                    prescale_factor=1 / self._predivide,
                    postscale_factor=self._predivide,
                    process_set=self.process_set,
                    **names,
                )
                for i, result in zip(unit, reduced):
                    results[i] = result
        if self._scale_local:
            for i, gradient in enumerate(results):
                if gradient is not None and self.is_local(variables[i]):
                    results[i] = _divided(gradient, size)
        return results

    def _units(self, shared: list[int], variables: Sequence[Any]) -> list[list[int]]:
        """The numbers of gradients that travel together.

        In a graph each goes by itself, while others are still computed. Eagerly all are there: one operation takes
        them.
        """
        if self._groups is None:
            if not shared:
                return []
            return [shared] if tf.executing_eagerly() else [[i] for i in shared]
        if isinstance(self._groups, int):
            count, more = divmod(len(shared), self._groups)
            ends = [i * count + min(i, more) for i in range(self._groups + 1)]
            return [shared[begin:end] for begin, end in zip(ends, ends[1:]) if begin < end]
        numbers = {reference(variables[i]): i for i in shared}
        units = [[numbers.pop(reference(v)) for v in group if reference(v) in numbers] for group in self._groups]
        return [unit for unit in units if unit] + [[i] for i in numbers.values()]


def _divided(gradient: Any, size: int) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values / size, gradient.indices, gradient.dense_shape)
    return gradient / size
