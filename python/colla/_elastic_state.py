"""What a training keeps in memory in order to go on from there."""

import enum
import queue
from collections.abc import Callable, Iterable
from typing import Any

from colla.exceptions import HostsUpdatedInterrupt


class HostUpdateResult(enum.IntFlag):
    """What happened to the hosts of a job."""

    no_update = 0
    removed = 1
    added = 2
    mixed = 3


class State:
    """Something that all ranks have the same of, with a copy to go back to.

    Derived classes say how to ``save()``, ``restore()`` and ``sync()`` it.

    Args:
        bcast_object: Gives an object of rank 0 to all.
        get_rank: Gives this process's rank.
    """

    _commits = 0  # How often commit() was called.

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages: "queue.Queue[tuple[float, HostUpdateResult]]" = queue.Queue()
        self._last_updated_timestamp: float = 0
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Functions to call after a reset, for instance to fit the learning rate to the number of ranks."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Called when the job has formed again."""
        self._host_messages = queue.Queue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: HostUpdateResult) -> None:
        """Called, by any thread, when hosts have come or are about to go."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Makes this the state to go back to, and looks whether hosts have changed."""
        self.save()
        self._commits += 1
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt, on all ranks, when rank 0 has heard of other hosts."""
        before = latest = self._last_updated_timestamp
        update = HostUpdateResult.no_update
        while not self._host_messages.empty():
            timestamp, what = self._host_messages.get()
            if timestamp > latest:
                latest = timestamp
                update |= what
        before, self._last_updated_timestamp, update = self._bcast_object((before, latest, update))
        if self._last_updated_timestamp > before:
            raise HostsUpdatedInterrupt(update == HostUpdateResult.removed)

    def save(self) -> None:
        """Copies what is there now."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to the copy."""
        raise NotImplementedError

    def sync(self) -> None:
        """Takes over what rank 0 has."""
        raise NotImplementedError

    def reset(self) -> None:
        """Gets ready for a job of other ranks, before ``sync()``."""


class ObjectState(State):
    """Python objects, each an attribute with the name of its keyword argument."""

    def __init__(
        self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any
    ) -> None:
        self._saved_state = kwargs
        self._set_attributes()
        super().__init__(bcast_object=bcast_object, get_rank=get_rank)

    def save(self) -> None:
        """Keeps the attributes' values."""
        self._saved_state = {name: getattr(self, name) for name in self._saved_state}

    def restore(self) -> None:
        """Gives the attributes the values that were kept."""
        self._set_attributes()

    def sync(self) -> None:
        """Takes over the values that rank 0 has, and keeps them."""
        if self._saved_state:
            self.save()
            self._saved_state = self._bcast_object(self._saved_state)
            self._set_attributes()

    def _set_attributes(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, value)
