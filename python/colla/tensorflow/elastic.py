"""Training that goes on when hosts come and go, for TensorFlow.

Members can't join and leave yet: when a rank is lost, the others can't form a new job, and the run ends.
What is here is how programs are written for it, and what such a program does while all stay.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from colla import _objects, _world
from colla._elastic_run import run_loop
from colla._elastic_state import ObjectState, State
from colla.exceptions import HorovodInternalError
from colla.tensorflow import _world as _place
from colla.tensorflow import functions

__all__ = ["ObjectState", "State", "TensorFlowKerasState", "TensorFlowState", "run"]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator for the training, a function whose first argument is a ``State``.

    Ranks start from the state of rank 0. When a collective fails, all go back to their last commit and start it again;
    when hosts have changed they start it again as they are. A training that fails three times without a commit in
    between is not started again: the last error is raised.
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except (tf.errors.UnknownError, tf.errors.AbortedError) as error:
            # What kernels say of a lost rank, a stall and a shutdown: src/tf_kernels/session.cc.
            if "colla: " in error.message:
                raise HorovodInternalError(error.message) from error
            raise

    return run_loop(wrapper, _reset)


def _reset() -> None:
    _world.shutdown()
    _place.init()


class _VariablesState(ObjectState):
    """Variables, and objects as attributes with the names of the keyword arguments."""

    def __init__(self, session: Any, **kwargs: Any) -> None:
        self._session = session
        self._broadcast: Any = None
        self._copy()
        super().__init__(bcast_object=_objects.broadcast_object, get_rank=_world.rank, **kwargs)

    def _tracked(self) -> list[Any]:
        raise NotImplementedError

    def _copy(self) -> None:
        variables = self._tracked()
        if self._session is None:
            self._values = [tf.identity(variable) for variable in variables]
        else:
            self._values = self._session.run(variables)

    def save(self) -> None:
        """Copies what is there now."""
        self._copy()
        super().save()

    def restore(self) -> None:
        """Goes back to the copy."""
        for variable, value in zip(self._tracked(), self._values):
            if self._session is None:
                variable.assign(value)
            else:
                variable.load(value, self._session)
        super().restore()

    def sync(self) -> None:
        """Takes over what rank 0 has."""
        if self._session is None:
            functions.broadcast_variables(self._tracked(), root_rank=0)
        else:
            if self._broadcast is None:  # A graph only grows.
                self._broadcast = functions.broadcast_variables(self._tracked(), root_rank=0)
            self._session.run(self._broadcast)
        self._copy()
        super().sync()


class TensorFlowState(_VariablesState):
    """Variables of TensorFlow, and objects of a training as attributes with the names of the keyword arguments.

    Args:
        variables: By default all global variables of the graph.
        session: Of a graph; by default the one that is in use.
    """

    def __init__(self, variables: Sequence[Any] | None = None, session: Any = None, **kwargs: Any) -> None:
        self.variables = list(variables or tf.compat.v1.global_variables())
        self.session = session or (None if tf.executing_eagerly() else tf.compat.v1.get_default_session())
        super().__init__(self.session, **kwargs)

    def _tracked(self) -> list[Any]:
        return self.variables


class TensorFlowKerasState(_VariablesState):
    """A model of Keras with its optimizer, and objects of a training as attributes with the names of the keyword
    arguments.

    `optimizer` is by default the one that the model was compiled with. `backend` is there for Horovod's sake.
    """

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any) -> None:
        if not getattr(model, "built", True):
            raise ValueError("the model has no variables yet: call model.build(input_shape) first")
        self.model = model
        self.optimizer = optimizer or model.optimizer
        self.backend = backend
        super().__init__(None if tf.executing_eagerly() else tf.compat.v1.keras.backend.get_session(), **kwargs)

    def _tracked(self) -> list[Any]:
        listed = self.optimizer.variables if self.optimizer is not None else []
        return [*self.model.variables, *(listed() if callable(listed) else listed)]
