"""Gradient tapes whose gradients are those of all ranks."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from colla._core import Op
from colla._process_sets import ProcessSet, global_process_set
from colla._reductions import Average
from colla.tensorflow._gradients import Groups, Reducer, check_groups, variables_of
from colla.tensorflow.compression import Compression, Compressor


class _DistributedTape(tf.GradientTape):
    """Comes before the class of the tape that it takes the place of."""

    _reducer: Reducer

    def register_local_source(self, source: Any) -> None:
        """Leaves the gradient with respect to `source` to this rank."""
        self._reducer.register_local(source)

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = tf.UnconnectedGradients.NONE,
        use_generic_names: bool = False,
    ) -> Any:
        """The gradients of all ranks, in the structure of `sources`.

        With `use_generic_names`, operations of a graph are named by the gradients' numbers, for ranks whose graphs have
        different names.
        """
        gradients = super().gradient(target, sources, output_gradients, unconnected_gradients)
        flat = tf.nest.flatten(sources)
        reduced = self._reducer(tf.nest.flatten(gradients), flat, use_generic_names)
        return tf.nest.pack_sequence_as(sources, reduced)

    def get_local_and_global_gradients(
        self, target: Any, sources: Sequence[Any], output_gradients: Any = None, use_generic_names: bool = False
    ) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Any]]]:
        """Pairs of a source and its gradient: of local sources, and of all others."""
        gradients = self.gradient(target, sources, output_gradients, use_generic_names=use_generic_names)
        pairs = list(zip(sources, gradients))
        return (
            [pair for pair in pairs if self._reducer.is_local(pair[0])],
            [pair for pair in pairs if not self._reducer.is_local(pair[0])],
        )


def DistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: Op = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
    strategy: str | None = None,
) -> Any:
    """A tape like `gradtape`, with what it has recorded, whose ``gradient()`` gives the gradients of all ranks.

    Args:
        device_dense, device_sparse: There for Horovod's sake.
        compression: ``Compression.fp16`` or ``bf16``: gradients travel with 16 bits.
        sparse_as_dense: ``tf.IndexedSlices`` are reduced as dense tensors.
        op: Average, Sum, Min, Max, Product or Adasum.
        gradient_predivide_factor: With Average: gradients are divided by it before they are added, and by
            size / factor after it.
        num_groups: The old name of `groups`.
        groups: Gradients that travel together: how many such groups, or lists of variables.
        process_set: The ranks that take part.
        scale_local_gradients: Gradients of local sources are divided by the number of ranks.
        strategy: Refused: a tape has no parameters that servers could hold.
    """
    if strategy not in (None, "allreduce"):
        raise ValueError(f"strategy={strategy!r} is for DistributedOptimizer: a tape reduces gradients, and no more")
    reducer = Reducer(
        "DistributedGradientTape",
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        check_groups(groups, num_groups),
        process_set,
        scale_local_gradients,
    )
    wrapped = type(gradtape)
    derived = type(wrapped.__name__, (_DistributedTape, wrapped) if wrapped is not tf.GradientTape else (_DistributedTape,), {})
    made = derived.__new__(derived)
    made.__dict__.update(vars(gradtape))
    made._reducer = reducer
    return made


def PartialDistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: Op = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """``DistributedGradientTape()`` that leaves the gradients of `local_layers`, one layer of Keras or several, to each
    rank."""
    local = variables_of(local_layers)
    tape = DistributedGradientTape(
        gradtape,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    for variable in local:
        tape.register_local_source(variable)
    return tape
