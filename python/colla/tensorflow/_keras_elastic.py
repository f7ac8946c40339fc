"""Callbacks of Keras for a training that can be started again, without the class of Keras that they are callbacks of."""

from typing import Any

from colla._elastic_state import State


class CommitState:
    """Commits the state after every `batches_per_commit` batches, and at the end of each epoch."""

    def __init__(self, state: State, batches_per_commit: int = 1) -> None:
        super().__init__()
        self.state = state
        self.batches_per_commit = batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs: Any = None) -> None:
        """Counts anew, so that all ranks commit together."""
        self.batches_remaining = self.batches_per_commit

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts."""
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.state.commit()
            self.batches_remaining = self.batches_per_commit

    on_batch_end = on_train_batch_end

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Commits."""
        self.state.commit()


class UpdateBatchState:
    """Keeps the number of the batch in ``state.batch``; it is 0 between epochs. An epoch that began before a restart has
    only the batches that are left."""

    params: dict[str, Any]

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.steps_per_epoch: int | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Forgets how many batches an epoch had."""
        self.steps_per_epoch = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Leaves out what was done before."""
        if self.params.get("steps"):
            self.steps_per_epoch = self.steps_per_epoch or self.params["steps"]
            self.params["steps"] = self.steps_per_epoch - self.state.batch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Remembers the batch."""
        self.state.batch = batch

    on_batch_end = on_train_batch_end

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """The next epoch begins with the first batch."""
        self.state.batch = 0


class UpdateEpochState:
    """Keeps the number of epochs that are done in ``state.epoch``, also those before a restart."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.initial_epoch = state.epoch

    def on_train_begin(self, logs: Any = None) -> None:
        """Remembers how many were done before."""
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Counts."""
        self.state.epoch = self.initial_epoch + epoch + 1
