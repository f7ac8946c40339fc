"""``colla.Pool``."""

import functools
import itertools
import multiprocessing
import os
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import util
from typing import Any

from colla.pool.crew import Call, Crew
from colla.pool.local import LocalWorker, Plan, start_all
from colla.pool.parcel import INLINE
from colla.pool.pickling import Pickling
from colla.pool.remote import RemoteWorker, parse_hosts, start_hosts
from colla.pool.results import AsyncResult, IMapIterator, MapResult
from colla.pool.worker import CALL, MAP, STARMAP

_Callback = Callable[[Any], object] | None
# By default a call is cut into so many chunks for each worker.
_CHUNKS = 4


class Pool:
    """Processes that call functions: ``multiprocessing.Pool``, quicker for arrays, and sound when a worker dies.

    Thread safety: callable from any thread. The pool owns its processes; they end with it, however it ends.

    Args:
        processes: How many. By default as many as this process may use processors.
        initializer: Called with `initargs` in each process before its first task. If it raises, all calls of the
            pool fail with what it raised.
        initargs: See `initializer`.
        maxtasksperchild: After so many tasks a process is replaced by a new one.
        context: How processes are started, as ``multiprocessing.get_context()`` says; by default as
            multiprocessing would.
        hosts: Where the processes are, by ssh: ``"a:4,b:4"`` or ``["a:4", "b:4"]``. Without it, on this host.
        python: The interpreter on these hosts; by default the path of this one.
    """

    _running = False

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        context: Any = None,
        *,
        hosts: str | Iterable[str] | None = None,
        python: str = sys.executable,
    ) -> None:
        places = parse_hosts(hosts) if hosts is not None else []
        if places:
            if processes is not None or context is not None:
                raise ValueError("hosts says how many processes there are, and how they start")
            processes = sum(count for _, count in places)
        if processes is None:
            processes = len(os.sched_getaffinity(0))
        if processes < 1:
            raise ValueError("Number of processes must be at least 1")
        if maxtasksperchild is not None and (not isinstance(maxtasksperchild, int) or maxtasksperchild < 1):
            raise ValueError("maxtasksperchild must be a positive int or None")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        plan = Plan(context or multiprocessing.get_context(), initializer, tuple(initargs), maxtasksperchild)
        self._pickling = Pickling.without_main() if places else Pickling.of_main()
        start: Callable[[list[str]], Sequence[LocalWorker | RemoteWorker]]
        if places:
            start = functools.partial(start_hosts, plan, places, python)
        else:
            start = functools.partial(start_all, plan)
        self._crew = Crew(processes, start, maxtasksperchild, self._pickling)
        self._running = True
        # Also at exit, before multiprocessing ends the processes of its own.
        self._terminate = util.Finalize(self, self._crew.terminate, exitpriority=15)

    def apply(self, func: Callable[..., Any], args: Iterable[Any] = (), kwds: dict[str, Any] = {}) -> Any:
        """``func(*args, **kwds)``, in a worker."""
        return self.apply_async(func, args, kwds).get()

    def apply_async(
        self,
        func: Callable[..., Any],
        args: Iterable[Any] = (),
        kwds: dict[str, Any] = {},
        callback: _Callback = None,
        error_callback: _Callback = None,
    ) -> AsyncResult:
        """Like ``apply()``, but returns at once. A callback runs in a thread of the pool and should be quick."""
        self._check_running()
        result = AsyncResult(self, callback, error_callback)
        self._crew.submit(Call(_label(func), ((CALL, func, tuple(args), kwds),), result))
        return result

    def map(self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int | None = None) -> list[Any]:
        """``[func(x) for x in iterable]``, by the workers."""
        return self.map_async(func, iterable, chunksize).get()

    def starmap(
        self, func: Callable[..., Any], iterable: Iterable[Iterable[Any]], chunksize: int | None = None
    ) -> list[Any]:
        """``[func(*x) for x in iterable]``, by the workers."""
        return self.starmap_async(func, iterable, chunksize).get()

    def map_async(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: _Callback = None,
        error_callback: _Callback = None,
    ) -> AsyncResult:
        """Like ``map()``, but returns at once."""
        return self._map(func, iterable, MAP, chunksize, callback, error_callback)

    def starmap_async(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        callback: _Callback = None,
        error_callback: _Callback = None,
    ) -> AsyncResult:
        """Like ``starmap()``, but returns at once."""
        return self._map(func, iterable, STARMAP, chunksize, callback, error_callback)

    def imap(self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int = 1) -> Iterator[Any]:
        """The results in order, each as soon as it is there. With a `chunksize` of 1 the iterator has ``next(timeout)``."""
        return self._imap(func, iterable, chunksize, ordered=True)

    def imap_unordered(self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int = 1) -> Iterator[Any]:
        """The results in the order in which they come."""
        return self._imap(func, iterable, chunksize, ordered=False)

    def close(self) -> None:
        """Takes no more calls. The processes end when all that was asked for is done."""
        if self._running:
            self._running = False
            self._crew.close()

    def terminate(self) -> None:
        """Ends all processes now. What is not done fails with ``PoolEnded``."""
        self._running = False
        self._terminate()

    def join(self) -> None:
        """Waits until all processes have ended, after ``close()`` or ``terminate()``."""
        if self._running:
            raise ValueError("Pool is still running")
        self._crew.join()

    def __enter__(self) -> "Pool":
        self._check_running()
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        if self._running:
            _warn(f"unclosed running pool {self!r}", ResourceWarning, source=self)

    def __repr__(self) -> str:
        return f"<colla.Pool of {self._crew.size} processes, {'running' if self._running else 'closed'}>"

    def __reduce__(self) -> Any:
        raise NotImplementedError("pool objects cannot be passed between processes or pickled")

    def _check_running(self) -> None:
        if not self._running:
            raise ValueError("Pool not running")

    def _map(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Any],
        how: int,
        chunk: int | None,
        callback: _Callback,
        error_callback: _Callback,
    ) -> AsyncResult:
        self._check_running()
        items = iterable if isinstance(iterable, Sequence) else list(iterable)
        if chunk is None:
            chunk = max(-(-len(items) // (_CHUNKS * self._crew.size)), 1)
        elif chunk < 1:
            raise ValueError(f"Chunksize must be 1+, not {chunk}")
        result = MapResult(self, len(items), chunk, callback, error_callback)
        if not result.done:
            self._submit(result, func, how, _chunks(items, chunk))
        return result

    def _imap(
        self, func: Callable[..., Any], iterable: Iterable[Any], chunk: int, ordered: bool
    ) -> Iterator[Any]:
        self._check_running()
        if chunk < 1:
            raise ValueError(f"Chunksize must be 1+, not {chunk}")
        result = IMapIterator(self, ordered)
        if chunk == 1:
            self._submit(result, func, CALL, (((item,), None) for item in iterable))
            return result
        self._submit(result, func, MAP, _chunks(iterable, chunk))
        return itertools.chain.from_iterable(result)

    def _submit(
        self,
        result: AsyncResult | IMapIterator,
        func: Callable[..., Any],
        how: int,
        arguments: Iterable[tuple[Sequence[Any], dict[str, Any] | None]],
    ) -> None:
        self._crew.submit(Call(_label(func), _Payloads(func, how, arguments, self._pickling), result))


def _label(func: Callable[..., Any]) -> str:
    return getattr(func, "__qualname__", None) or repr(func)


class _Payloads:
    """What the workers get, for each of `arguments`. A small function is pickled once for all of them."""

    def __init__(
        self,
        func: Callable[..., Any],
        how: int,
        arguments: Iterable[tuple[Sequence[Any], dict[str, Any] | None]],
        pickling: Pickling,
    ) -> None:
        self._func = func
        self._how = how
        self._arguments = arguments
        self._pickling = pickling

    def __iter__(self) -> Iterator[Any]:
        function: Any = self._func
        if isinstance(function, (types.FunctionType, types.BuiltinFunctionType, type)):
            try:
                buffers: list[memoryview] = []
                content = self._pickling.dumps(function, buffers)
                if not buffers and len(content) < INLINE // 2:
                    function = content
            except Exception:
                pass  # Each task fails by itself.
        for args, kwargs in self._arguments:
            yield self._how, function, args, kwargs


def _chunks(items: Iterable[Any], size: int) -> Iterator[tuple[tuple[Any, ...], None]]:
    iterator = iter(items)
    while chunk := tuple(itertools.islice(iterator, size)):
        yield chunk, None
