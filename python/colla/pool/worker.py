"""What a worker of a pool does: one task after another, until its pool has no more, or is gone."""

import fcntl
import itertools
import os
import select
import signal
import socket
import traceback
import types
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.pool import MaybeEncodingError, RemoteTraceback  # type: ignore[attr-defined]
from typing import Any

from colla.pool.channel import Channel, Kind
from colla.pool.parcel import Parcel, pack
from colla.pool.pickling import Pickling

# How a task calls its function: with arguments, or on each item of a chunk.
CALL, MAP, STARMAP = range(3)

_KEPT_FUNCTIONS = 64


def main(
    end: socket.socket,
    lifeline: Connection,
    initializer: Callable[..., object] | None,
    initargs: Sequence[Any],
    most_tasks: int | None,
) -> None:
    """Runs in a process of its own, until `end` ends or `most_tasks` are done."""
    end_with(lifeline)
    # Ctrl-C is the pool's affair. A handler, not SIG_IGN: what a task starts shall stop.
    signal.signal(signal.SIGINT, _ignore)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    channel = Channel(end)
    try:
        _work(channel, initializer, initargs, most_tasks)
    except (EOFError, ConnectionError):
        pass  # The pool is done, or gone.


def end_with(lifeline: Connection) -> None:
    """Has this process killed when the other end of a pipe is closed, at whatever it is then: a process that
    is killed by SIGKILL closes it too."""
    file = lifeline.fileno()
    fcntl.fcntl(file, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(file, 0)
    if poll.poll(0):  # It was closed before.
        os.kill(os.getpid(), signal.SIGKILL)


def _ignore(*_: Any) -> None:
    pass


def _work(
    channel: Channel, initializer: Callable[..., object] | None, initargs: Sequence[Any], most_tasks: int | None
) -> None:
    pickling = Pickling()
    functions = _Functions()
    if initializer is not None:
        try:
            initializer(*initargs)
        except Exception as error:
            channel.send(Kind.ERROR, 0, _pack_error(error, pickling))
            return
    channel.send(Kind.READY, 0, Parcel(b""))
    for _ in itertools.count() if most_tasks is None else range(most_tasks):
        _, number, parcel = channel.receive()
        try:
            value = _do(functions, *parcel.unpack())
        except Exception as error:
            kind, answer = Kind.ERROR, _pack_error(error, pickling)
        else:
            kind, answer = _pack_result(value, pickling)
            value = None  # Not kept while this waits.
        channel.send(kind, number, answer)


def _do(functions: "_Functions", how: int, function: Any, args: Sequence[Any], kwargs: dict[str, Any] | None) -> Any:
    if type(function) is bytes:
        function = functions.load(function)
    if how == CALL:
        return function(*args, **(kwargs or {}))
    return list(map(function, args) if how == MAP else itertools.starmap(function, args))


class _Functions:
    """Unpickles functions, each once. Other callables may have a state, which is that of each task."""

    def __init__(self) -> None:
        self._known: dict[bytes, Callable[..., Any]] = {}

    def load(self, content: bytes) -> Callable[..., Any]:
        function = self._known.get(content)
        if function is None:
            function = Parcel(content).unpack()
            if isinstance(function, (types.FunctionType, types.BuiltinFunctionType, type)):
                if len(self._known) >= _KEPT_FUNCTIONS:
                    self._known.clear()
                self._known[content] = function
        return function


def _pack_result(value: Any, pickling: Pickling) -> tuple[Kind, Parcel]:
    try:
        return Kind.RESULT, pack(value, pickling)
    except Exception as error:
        return Kind.ERROR, pack(MaybeEncodingError(error, value), pickling)


def _pack_error(error: Exception, pickling: Pickling) -> Parcel:
    text = f'\n"""\n{"".join(traceback.format_exception(error))}"""'
    try:
        return pack(_Raised(error, text), pickling)
    except Exception as problem:
        return pack(_Raised(MaybeEncodingError(problem, error), text), pickling)


class _Raised:
    """Is unpickled as an exception, whose cause shows the worker's traceback."""

    def __init__(self, error: Exception, text: str) -> None:
        self.error = error
        self.text = text

    def __reduce__(self) -> Any:
        return _raised, (self.error, self.text)


def _raised(error: Exception, text: str) -> Exception:
    error.__cause__ = RemoteTraceback(text)
    return error
