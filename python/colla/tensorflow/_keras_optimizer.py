"""Optimizers of Keras that reduce gradients over ranks: those of Keras 3, and those of tf-keras, which is Keras 2."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from colla.tensorflow._gradients import Reducer
from colla.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from colla.tensorflow.optimizer import derive


class _CallableList(list):  # type: ignore[type-arg]
    """``optimizer.variables`` for programs that call it, as Keras 2 had it."""

    def __call__(self) -> "_CallableList":
        return self


class _Distributed:
    """What optimizers of both versions have in common. Comes before the class that it takes the place of."""

    _reducer: Reducer
    _agg_helper: LocalGradientAggregationHelper | None

    def register_local_var(self, var: Any) -> None:
        """Leaves the gradient of `var` to this rank."""
        self._reducer.register_local(var)

    @classmethod
    def from_config(cls, config: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """An optimizer of the wrapped class that reduces as this one does."""
        made = cls._wrapped.from_config(config, *args, **kwargs)  # type: ignore[attr-defined]
        return cls._wrap(made)  # type: ignore[attr-defined]

    def _reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        reduce = self._reducer if self._agg_helper is None else self._agg_helper.compute_gradients
        return reduce(gradients, variables)


class _Keras3Optimizer(_Distributed):
    """``apply()`` takes what this rank has computed, from ``fit()`` as well as from a program's own loop."""

    def _variables_of(self, trainable_variables: Sequence[Any] | None) -> list[Any]:
        """The variables of a call of ``apply()``; the optimizer is built for them."""
        if trainable_variables is None:
            return list(self._trainable_variables)  # type: ignore[attr-defined]
        variables = list(trainable_variables)
        if not self.built:  # type: ignore[has-type]
            with tf.init_scope():
                self.build(variables)  # type: ignore[attr-defined]
            self.built = True
        return variables

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Changes the variables by the gradients of all ranks."""
        grads = list(grads)
        if not grads:
            return
        variables = self._variables_of(trainable_variables)
        reduced = self._reduce(grads, variables)

        def apply() -> Any:
            super(_Keras3Optimizer, self).apply(reduced, variables)  # type: ignore[misc]
            return tf.no_op()

        if self._agg_helper is None:
            apply()
            return

        def skip() -> Any:
            self._iterations.assign_add(1)  # type: ignore[attr-defined]
            return tf.no_op()

        self._agg_helper.apply_gradients(apply, skip, reduced)

    @property
    def variables(self) -> Any:
        """The optimizer's state, as a list."""
        return _CallableList(super().variables)  # type: ignore[misc]


class _Keras2Optimizer(_Distributed):
    """``minimize()``, which ``fit()`` calls, computes gradients of all ranks. ``apply_gradients()`` takes gradients as
    they are: a program's own loop has a DistributedGradientTape."""

    _HAS_AGGREGATE_GRAD = True

    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> list[tuple[Any, Any]]:
        """Pairs of a gradient of all ranks and its variable."""
        return self._compute_gradients(loss, var_list, None, tape)

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Any, Any]]:
        base: Any = super()
        tape = tf.GradientTape() if tape is None else tape
        if hasattr(base, "_compute_gradients"):
            pairs = base._compute_gradients(loss, var_list, grad_loss, tape=tape)
        else:
            pairs = base.compute_gradients(loss, var_list, tape=tape)
        gradients, variables = zip(*pairs)
        return list(zip(self._reduce(gradients, variables), variables))

    def get_gradients(self, loss: Any, params: Any) -> list[Any]:
        """The gradients of all ranks, in a graph of TensorFlow 1."""
        return self._reduce(super().get_gradients(loss, params), params)  # type: ignore[misc]

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """Changes the variables."""
        pairs = list(grads_and_vars)
        base: Any = super()
        if self._agg_helper is None:
            return base.apply_gradients(pairs, *args, **kwargs)
        if hasattr(base, "build") and not getattr(self, "_built", False):
            with tf.init_scope():
                base.build([variable for _, variable in pairs])

        def apply() -> Any:
            base.apply_gradients(pairs, *args, **kwargs)
            return tf.no_op()

        def skip() -> Any:
            self.iterations.assign_add(1)  # type: ignore[attr-defined]
            return tf.no_op()

        return self._agg_helper.apply_gradients(apply, skip, [gradient for gradient, _ in pairs])


class _Keras2ListedOptimizer(_Keras2Optimizer):
    """For those of tf-keras whose ``variables`` is a property."""

    @property
    def variables(self) -> Any:
        """The optimizer's state, as a list."""
        return _CallableList(super().variables)  # type: ignore[misc]


def _kind_of(optimizer: Any) -> type:
    if hasattr(optimizer, "apply") and hasattr(optimizer, "stateless_apply"):
        return _Keras3Optimizer
    if hasattr(optimizer, "apply_gradients") and hasattr(optimizer, "iterations"):
        return _Keras2ListedOptimizer if isinstance(type(optimizer).variables, property) else _Keras2Optimizer
    raise ValueError(
        "DistributedOptimizer takes an optimizer of tf.compat.v1.train, Keras or tf-keras, not"
        f" {type(optimizer).__module__}.{type(optimizer).__name__}"
    )


def wrap(optimizer: Any, reducer: Reducer, passes: int, average: bool) -> Any:
    """An optimizer like `optimizer` that reduces by `reducer`, each `passes`-th time."""
    made = derive(optimizer, _kind_of(optimizer))
    type(made)._wrapped = type(optimizer)
    type(made)._wrap = staticmethod(lambda other: wrap(other, reducer, passes, average))
    # Keras would track what is set as an attribute, and save it.
    made.__dict__["_reducer"] = reducer
    helper = LocalGradientAggregationHelper(passes, reducer, reducer.sparse_as_dense, average) if passes > 1 else None
    made.__dict__["_agg_helper"] = helper
    return made
