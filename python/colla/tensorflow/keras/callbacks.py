"""Callbacks for ``tf.keras``, under Horovod's names: ``colla.tensorflow._callbacks`` says more of each."""

from typing import Any

from tensorflow import keras

from colla import _world
from colla.tensorflow import _callbacks


class BroadcastGlobalVariablesCallback(_callbacks.BroadcastGlobalVariables, keras.callbacks.Callback):
    """Begins with the variables of one rank."""


class MetricAverageCallback(_callbacks.MetricAverage, keras.callbacks.Callback):
    """Averages metrics over ranks."""


class LearningRateScheduleCallback(_callbacks.LearningRateSchedule, keras.callbacks.Callback):
    """Multiplies the learning rate."""


class LearningRateWarmupCallback(_callbacks.LearningRateWarmup, keras.callbacks.Callback):
    """Raises the learning rate in the first epochs."""


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """Has rank 0 save the best model so far, as `filepath`."""

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        mode: str = "auto",
        save_freq: Any = "epoch",
        filepath: Any = "best_model.keras",
    ) -> None:
        super().__init__(
            filepath=filepath, monitor=monitor, verbose=verbose, save_best_only=True, mode=mode, save_freq=save_freq
        )

    def _save_model(self, *args: Any, **kwargs: Any) -> None:
        if _world.rank() == 0:
            super()._save_model(*args, **kwargs)
