"""Optimizers of Keras under strategies with servers and under local-sgd: Keras 3 and tf-keras, which is Keras 2."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from colla.tensorflow._gradients import Reducer
from colla.tensorflow._keras_optimizer import _Keras2ListedOptimizer, _Keras2Optimizer, _Keras3Optimizer, _kind_of
from colla.tensorflow._local_sgd import LocalRounds
from colla.tensorflow._servers import Served, split
from colla.tensorflow._strategy import Exchange
from colla.tensorflow.optimizer import _as_asked, _reduced_beside_tables, derive
from colla.tensorflow.util import in_order

_Pairs = Sequence[tuple[Any, Any]]


class _Strategy:
    """What is done with this rank's gradients. Comes before the classes of _keras_optimizer."""

    _reducer: Reducer
    _served: Served | None
    _hybrid: bool
    _rounds: LocalRounds | None

    def _change(self, pairs: _Pairs, apply: Callable[[_Pairs], Any]) -> None:
        """Makes a step. `apply` has the wrapped optimizer change variables."""
        if self._rounds is not None:
            there = [pair for pair in pairs if pair[0] is not None]
            self._rounds.step([variable for _, variable in there], lambda: apply(there))
            return
        assert self._served is not None
        served, others = split(_as_asked(self._reducer, pairs), self._hybrid)
        if others and self._hybrid:
            others = _reduced_beside_tables(self._reducer, others)
        for _, variable in served:
            if getattr(variable, "constraint", None) is not None:
                raise ValueError(f"servers know no constraints, but {variable.name} has one")
        # A thread of TensorFlow waits for the servers, so that what others wait for comes first.
        with tf.control_dependencies(in_order([gradient for gradient, _ in others])):
            self._served.update(served)
        if others:
            apply(others)
        else:
            self.iterations.assign_add(1)  # type: ignore[attr-defined]


class _Keras3Strategy(_Strategy, _Keras3Optimizer):
    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Makes a step with this rank's gradients."""
        grads = list(grads)
        if not grads:
            return
        variables = self._variables_of(trainable_variables)

        def apply(pairs: _Pairs) -> Any:
            base: Any = super(_Keras3Optimizer, self)
            base.apply([gradient for gradient, _ in pairs], [variable for _, variable in pairs])

        self._change(list(zip(grads, variables)), apply)


class _Keras2Strategy(_Strategy, _Keras2Optimizer):
    def _reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        return list(gradients)

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """Makes a step with this rank's gradients."""
        pairs = list(grads_and_vars)
        base: Any = super(_Keras2Optimizer, self)
        if hasattr(base, "build") and not getattr(self, "_built", False):
            with tf.init_scope():
                base.build([variable for _, variable in pairs])
        kwargs["skip_gradients_aggregation"] = True
        self._change(pairs, lambda some: base.apply_gradients(some, *args, **kwargs))
        return self.iterations  # type: ignore[attr-defined]


class _Keras2ListedStrategy(_Keras2Strategy, _Keras2ListedOptimizer):
    """For those of tf-keras whose ``variables`` is a property."""


_KINDS = {
    _Keras3Optimizer: _Keras3Strategy,
    _Keras2Optimizer: _Keras2Strategy,
    _Keras2ListedOptimizer: _Keras2ListedStrategy,
}


def wrap_for(exchange: Exchange, optimizer: Any, reducer: Reducer) -> Any:
    """An optimizer like `optimizer` that exchanges what the strategy has ranks exchange."""
    served = exchange.serve(optimizer) if exchange.servers else None
    made = derive(optimizer, _KINDS[_kind_of(optimizer)])
    type(made)._wrapped = type(optimizer)
    type(made)._wrap = staticmethod(lambda other: wrap_for(exchange, other, reducer))
    # Keras would track what is set as an attribute, and save it.
    made.__dict__.update(_reducer=reducer, _agg_helper=None, _served=served, _hybrid=exchange.hybrid, _rounds=None)
    if exchange.local:
        exchange.start_local(made)
    return made
