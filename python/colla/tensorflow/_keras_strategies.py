"""Optimizers of Keras under local-sgd: Keras 3 and tf-keras, which is Keras 2."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from colla.tensorflow._keras_optimizer import _Keras2ListedOptimizer, _Keras2Optimizer, _Keras3Optimizer, _kind_of
from colla.tensorflow._local_sgd import LocalRounds
from colla.tensorflow._strategy import Exchange
from colla.tensorflow.optimizer import derive

_Pairs = Sequence[tuple[Any, Any]]


class _Strategy:
    """What is done with this rank's gradients. Comes before the classes of _keras_optimizer."""

    _rounds: LocalRounds

    def _change(self, pairs: _Pairs, apply: Callable[[_Pairs], Any]) -> None:
        """Makes a step. `apply` has the wrapped optimizer change variables."""
        there = [pair for pair in pairs if pair[0] is not None]
        self._rounds.step([variable for _, variable in there], lambda: apply(there))


class _Keras3Strategy(_Strategy, _Keras3Optimizer):
    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Makes a step with this rank's gradients."""
        grads = list(grads)
        if not grads:
            return
        if trainable_variables is None:
            variables = list(self._trainable_variables)  # type: ignore[attr-defined]
        else:
            variables = list(trainable_variables)
            if not self.built:  # type: ignore[has-type]
                with tf.init_scope():
                    self.build(variables)  # type: ignore[attr-defined]
                self.built = True

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


def wrap_for(exchange: Exchange, optimizer: Any) -> Any:
    """An optimizer like `optimizer` that exchanges what the strategy has ranks exchange."""
    made = derive(optimizer, _KINDS[_kind_of(optimizer)])
    type(made)._wrapped = type(optimizer)
    type(made)._wrap = staticmethod(lambda other: wrap_for(exchange, other))
    # Keras would track what is set as an attribute, and save it.
    made.__dict__["_agg_helper"] = None
    return exchange.start_local(made)
