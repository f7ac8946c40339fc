"""The kernels' library: found or compiled for the TensorFlow that is installed, then loaded.

Its sources are in the package. Types of TensorFlow are handed over as they are in memory, so each version has a
library of its own. One that was built with the wheel is in the package; any other is compiled on first import, into a
cache.
"""

import contextlib
import ctypes
import fcntl
import hashlib
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import auto_control_deps

import colla

TESTED = "2.21"
_SOURCES = pathlib.Path(colla.__file__).parent / "_kernels"
_CAPSULE = b"colla.OperationsTable.1"
# How long a process waits for a different one that compiles: about ten times what it takes.
_PATIENCE = 300.0


def _cache() -> pathlib.Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):  # The specification says to ignore relative paths.
        base = os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "colla" / "tensorflow"


def _sources() -> list[pathlib.Path]:
    return sorted([*_SOURCES.glob("*/*.cc"), *_SOURCES.glob("*/*.h")])


def _command(output: pathlib.Path) -> list[str]:
    """How to compile them. Warnings are for those who change them: tests/tensorflow turns them on."""
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    flags = [flag.replace("-I", "-isystem", 1) if flag.startswith("-I") else flag for flag in tf.sysconfig.get_compile_flags()]
    ours = ["-O2", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{_SOURCES}"]
    return [*compiler, *flags, *ours, str(_SOURCES / "tf_kernels" / "all.cc"), "-o", str(output), *tf.sysconfig.get_link_flags()]


def _name() -> str:
    """Changes with whatever the library is made from."""
    flags = [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("-I")]
    digest = hashlib.sha256(repr((tf.version.VERSION, flags)).encode())
    for source in _sources():
        digest.update(source.read_bytes())
    return f"kernels-{tf.version.VERSION}-{digest.hexdigest()[:16]}.so"


def find() -> pathlib.Path:
    """The library for this TensorFlow, which is compiled if there is none. ImportError if that fails."""
    name = _name()
    place = _SOURCES / name
    if place.exists():
        return place
    place = _cache() / name
    if place.exists():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _alone(place.parent / "lock"):
            if not place.exists():  # Otherwise a different process was faster.
                build(place)
    except OSError as error:
        raise ImportError(f"colla.tensorflow keeps its kernels in {place.parent}: {error}; set XDG_CACHE_HOME") from None
    return place


@contextlib.contextmanager
def _alone(lock: pathlib.Path) -> Iterator[None]:
    """One process at a time is inside; the lock of one that dies is free again."""
    with open(lock, "a") as file:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ImportError(
                        f"a different process has held {lock} for {_PATIENCE:.0f} s: it compiles the kernels of"
                        " colla.tensorflow, or hangs"
                    ) from None
                time.sleep(0.1)
        yield


def build(place: pathlib.Path) -> None:
    """Compiles the library to `place`, where it appears whole or not at all."""
    unfinished = place.with_name(f"{place.name}.{os.getpid()}")
    command = _command(unfinished)
    if shutil.which(command[0]) is None:
        raise ImportError(
            f"colla.tensorflow compiles its kernels once, but there is no {command[0]}: install g++, or name a compiler"
            " in CXX"
        )
    print(
        f"colla: compiling the kernels for TensorFlow {tf.version.VERSION} into {place} (once; half a minute)",
        file=sys.stderr,
        flush=True,
    )
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            problem = next((line for line in done.stdout.splitlines() if "error" in line), "no output")
            raise ImportError(
                f"the kernels of colla.tensorflow do not compile for TensorFlow {tf.version.VERSION} (it is tested with"
                f" {TESTED}): {problem}"
            )
        unfinished.rename(place)
    finally:
        unfinished.unlink(missing_ok=True)


def _load() -> tuple[Any, Any]:
    if not tf.version.VERSION.startswith(TESTED + "."):
        print(f"colla: colla.tensorflow is tested with TensorFlow {TESTED}, not {tf.version.VERSION}", file=sys.stderr)
    path = find()
    return tf.load_op_library(str(path)), ctypes.CDLL(str(path))


kernels, _functions = _load()

# Collectives are stateful, so that they are neither computed beforehand nor merged. TensorFlow would carry out stateful
# operations of a function one after another. Those on its list of exceptions go on at the same time, and run also where
# nobody needs the result: the other ranks wait for them.
_COLLECTIVES = ("CollaAllreduce", "CollaReducescatter", "CollaAllgather", "CollaAlltoall", "CollaBroadcast")
auto_control_deps.MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS |= frozenset(_COLLECTIVES)
auto_control_deps.ASYNC_STATEFUL_OPS |= frozenset(["CollaNumber"])


def use(table: object | None) -> None:
    """Has the kernels work with the operations of ``Exchange.table``, or with none."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype = ctypes.c_void_p
    get.argtypes = [ctypes.py_object, ctypes.c_char_p]
    set_table = _functions.colla_tensorflow_use
    set_table.argtypes = [ctypes.c_void_p]
    set_table(None if table is None else get(table, _CAPSULE))
