"""Elastic training with ``keras``: ``colla.tensorflow.elastic`` says what there is."""

import keras

from colla.tensorflow import _keras_elastic
from colla.tensorflow.elastic import TensorFlowKerasState, run

__all__ = ["CommitStateCallback", "KerasState", "UpdateBatchStateCallback", "UpdateEpochStateCallback", "run"]


class KerasState(TensorFlowKerasState):
    """A model of Keras with its optimizer, and objects of a training."""


class CommitStateCallback(_keras_elastic.CommitState, keras.callbacks.Callback):
    """Commits the state now and then."""


class UpdateBatchStateCallback(_keras_elastic.UpdateBatchState, keras.callbacks.Callback):
    """Keeps the number of the batch in the state."""


class UpdateEpochStateCallback(_keras_elastic.UpdateEpochState, keras.callbacks.Callback):
    """Keeps the number of the epoch in the state."""
