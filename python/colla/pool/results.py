"""What a pool's methods return before the work is done, with the methods of multiprocessing's classes."""

import collections
import multiprocessing
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

_Callback = Callable[[Any], object] | None


class Outcome:
    """What the pool tells a result: what became of each task, by number, and how many there are."""

    def set(self, index: int, ok: bool, value: Any) -> None:
        raise NotImplementedError

    def set_length(self, length: int) -> None:
        """All tasks are under way. From imap() alone: the others know it from the beginning."""

    @property
    def done(self) -> bool:
        raise NotImplementedError

    def fail(self, error: BaseException) -> None:
        """There will be no more results."""
        raise NotImplementedError


class AsyncResult(Outcome):
    """The result of ``apply_async()``. Thread safety: callable from any thread."""

    def __init__(self, keep: Any, callback: _Callback = None, error_callback: _Callback = None) -> None:
        self._keep = keep  # The pool, which must not be collected before this is done.
        self._callback = callback
        self._error_callback = error_callback
        self._pending = threading.Lock()  # Held until this is done: an Event costs five times as much.
        self._pending.acquire()
        self._ok = True
        self._value: Any = None

    def ready(self) -> bool:
        """Whether the result is there."""
        return not self._pending.locked() or self._keep is None

    def successful(self) -> bool:
        """Whether the call raised nothing; ValueError before it is done."""
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        return self._ok

    def wait(self, timeout: float | None = None) -> None:
        """Returns when the result is there, or after `timeout` seconds."""
        if self._pending.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            self._pending.release()

    def get(self, timeout: float | None = None) -> Any:
        """The result, or what the call raised; multiprocessing.TimeoutError if neither is there in time."""
        self.wait(timeout)
        if not self.ready():
            raise multiprocessing.TimeoutError
        if self._ok:
            return self._value
        raise self._value

    def set(self, index: int, ok: bool, value: Any) -> None:
        self._finish(ok, value)

    @property
    def done(self) -> bool:
        return self._keep is None

    def fail(self, error: BaseException) -> None:
        self._finish(False, error)

    def _finish(self, ok: bool, value: Any) -> None:
        self._ok, self._value = ok, value
        callback = self._callback if ok else self._error_callback
        if callback is not None:
            call(callback, value)
        self._keep = None
        self._pending.release()

    __class_getitem__ = classmethod(types.GenericAlias)  # type: ignore[var-annotated]


class MapResult(AsyncResult):
    """The result of ``map_async()``: done when all chunks are."""

    def __init__(
        self, keep: Any, length: int, chunk: int, callback: _Callback = None, error_callback: _Callback = None
    ) -> None:
        super().__init__(keep, callback, error_callback)
        self._values: list[Any] = [None] * length
        self._chunk = chunk
        self._left = -(-length // chunk)
        self._error: BaseException | None = None
        if self._left == 0:
            self._finish(True, self._values)

    def set(self, index: int, ok: bool, value: Any) -> None:
        if ok:
            self._values[index * self._chunk : (index + 1) * self._chunk] = value
        elif self._error is None:
            self._error = value
        self._left -= 1
        if self._left > 0:
            return
        values, self._values = self._values, []
        if self._error is None:
            self._finish(True, values)
        else:
            self._finish(False, self._error)

    def fail(self, error: BaseException) -> None:
        self._values = []
        self._finish(False, self._error or error)


class IMapIterator(Outcome):
    """The results of ``imap()`` in the order of arguments, or of ``imap_unordered()`` as they come."""

    def __init__(self, keep: Any, ordered: bool) -> None:
        self._keep = keep
        self._ordered = ordered
        self._changed = threading.Condition(threading.Lock())
        self._ready: collections.deque[tuple[bool, Any]] = collections.deque()
        self._early: dict[int, tuple[bool, Any]] = {}  # Those whose turn has not come.
        self._came = 0
        self._next = 0
        self._length: int | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self, timeout: float | None = None) -> Any:
        """The next result; multiprocessing.TimeoutError if it does not come in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._ready or self.done, timeout):
                raise multiprocessing.TimeoutError
            if not self._ready:
                raise StopIteration
            ok, value = self._ready.popleft()
        if ok:
            return value
        raise value

    def set(self, index: int, ok: bool, value: Any) -> None:
        with self._changed:
            self._came += 1
            if not self._ordered:
                self._ready.append((ok, value))
            else:
                self._early[index] = (ok, value)
                while self._next in self._early:
                    self._ready.append(self._early.pop(self._next))
                    self._next += 1
            self._notify()

    def set_length(self, length: int) -> None:
        with self._changed:
            self._length = length
            self._notify()

    @property
    def done(self) -> bool:
        return self._came == self._length

    def fail(self, error: BaseException) -> None:
        with self._changed:
            self._early.clear()
            self._ready.append((False, error))
            self._length = self._came
            self._notify()

    def _notify(self) -> None:
        if self.done:
            self._keep = None
        self._changed.notify_all()


def call(callback: Callable[[Any], object], value: Any) -> None:
    """A user's callback. What it raises must not end the pool's thread."""
    try:
        callback(value)
    except Exception:
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
