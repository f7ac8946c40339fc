"""How values are pickled: functions of the main script by name where the other side has them, otherwise by value.

By name is how multiprocessing sends a function, and what a function needs that reads the globals that an initializer
has set in its worker. What a worker can't have, because it was defined after the pool was made or inside of a
function, goes by value with the package cloudpickle, if that is installed.
"""

import collections
import copyreg
import functools
import importlib.util
import io
import pickle
import sys
import types
import weakref
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

_MAIN = ("__main__", "__mp_main__")
# A smaller buffer is part of the pickle.
_BESIDE = 16 << 10
_PROTOCOL = 5
# What every process knows, and no buffer is in: for these a pickler of our own costs more than the pickle.
_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})
_LONGEST_PLAIN = 16
_Beside = Callable[[pickle.PickleBuffer], bool]


class _Unknown(Exception):
    """The other side has no object of this name."""


class Pickling:
    """What the other side knows of this process's main script. Without an argument: everything.

    Thread safety: callable from any thread.
    """

    def __init__(self, known: dict[str, "weakref.ref[Any]"] | None = None) -> None:
        self._known = known

    @classmethod
    def of_main(cls) -> "Pickling":
        """For workers that know the main script as it is now."""
        main = vars(sys.modules["__main__"])
        return cls({name: weakref.ref(value) for name, value in main.items() if _is_main(value)})

    @classmethod
    def without_main(cls) -> "Pickling":
        """For workers that can't know the main script."""
        return cls({})

    def knows(self, obj: Any) -> bool:
        """Whether the other side finds a function or class of the main script by its name."""
        main = vars(sys.modules["__main__"])
        name, _, rest = obj.__qualname__.partition(".")
        here = main.get(name)
        if self._known is not None and (name not in self._known or self._known[name]() is not here):
            return False
        for part in rest.split(".") if rest else ():
            here = getattr(here, part, None)
        return here is obj

    def dumps(self, value: Any, buffers: list[memoryview] | None) -> bytes:
        """A pickle; appends the large buffers that it leaves out to `buffers`, if that is a list."""

        if _is_plain(value):
            return pickle.dumps(value, _PROTOCOL)

        def beside(buffer: pickle.PickleBuffer) -> bool:
            view = buffer.raw()
            if buffers is None or view.nbytes < _BESIDE:
                return True
            buffers.append(view)
            return False

        content = io.BytesIO()
        try:
            _Pickler(content, self, beside).dump(value)
            return content.getvalue()
        except (_Unknown, pickle.PicklingError, AttributeError, TypeError) as error:
            if importlib.util.find_spec("cloudpickle") is None:
                if isinstance(error, _Unknown):
                    raise pickle.PicklingError(str(error)) from None
                raise
        if buffers is not None:
            buffers.clear()
        content = io.BytesIO()
        _by_value()(content, self, beside).dump(value)
        return content.getvalue()


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind in _PLAIN:
        return True
    if kind is tuple or kind is list:
        if len(value) > _LONGEST_PLAIN:
            return False
        for item in value:
            if not _is_plain(item):
                return False
        return True
    return kind is dict and not value


def _is_main(obj: Any) -> bool:
    return isinstance(obj, (type, types.FunctionType)) and obj.__module__ in _MAIN


class _Pickler(pickle.Pickler):
    """By name, or not at all."""

    # What multiprocessing can send beyond pickle: connections, sockets, bound methods of C types.
    dispatch_table = collections.ChainMap(ForkingPickler._extra_reducers, copyreg.dispatch_table)  # type: ignore[attr-defined,arg-type]

    def __init__(self, file: io.BytesIO, pickling: Pickling, beside: _Beside) -> None:
        super().__init__(file, _PROTOCOL, buffer_callback=beside)
        self._pickling = pickling

    def reducer_override(self, obj: Any) -> Any:
        if _is_main(obj) and not self._pickling.knows(obj):
            raise _Unknown(
                f"workers don't know {obj.__qualname__}: define it at the top of the script and before the pool is"
                " made, or install cloudpickle"
            )
        return NotImplemented


@functools.cache
def _by_value() -> Callable[..., pickle.Pickler]:
    import cloudpickle  # type: ignore[import-not-found]

    class CloudPickler(cloudpickle.Pickler):  # type: ignore[misc]
        def __init__(self, file: io.BytesIO, pickling: Pickling, beside: _Beside) -> None:
            super().__init__(file, _PROTOCOL, beside)
            self._pickling = pickling
            self.dispatch_table = self.dispatch_table.new_child(ForkingPickler._extra_reducers)  # type: ignore[attr-defined]

        def reducer_override(self, obj: Any) -> Any:
            if _is_main(obj) and self._pickling.knows(obj):
                return NotImplemented
            return super().reducer_override(obj)

    return CloudPickler
