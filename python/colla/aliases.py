"""Modules of other systems that mean Colla, so that their programs run without a changed line.

    colla horovodrun -np 2 python train.py
    python -m colla.aliases horovod train.py

Both put the folder ``_site`` on PYTHONPATH, for the program and for every Python that it starts. There Python finds
a ``sitecustomize`` that asks ``find_spec()`` for modules that Python finds nowhere else: an installed Horovod comes
first.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import types
from collections.abc import Mapping, MutableMapping

from colla import _core

# Their module, and ours that takes its place. A module below theirs is the one of that name below ours.
ALIASES: Mapping[str, str] = {
    "horovod": "colla.horovod",
    "horovod.common": "colla.horovod",
    "horovod.common.exceptions": "colla.exceptions",
    "horovod.common.process_sets": "colla._process_sets",
    "horovod.runner": "colla.horovod",
    "horovod.spark": "colla.spark",
    "horovod.tensorflow": "colla.tensorflow",
    "horovod.keras": "colla.keras",
    "horovod.torch": "colla.torch",
    "parallax": "colla.parallax",
    "tensorflowonspark": "colla.spark",
}

# Which systems' modules are replaced: their names, with commas. sitecustomize reads it.
_VARIABLE = "COLLA_ALIASES"

# What launchers call a process's number in its job.
_RANKS = ("COLLA_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK", "RANK")

_said: set[str] = set()


def systems() -> list[str]:
    """Those that have modules in the table."""
    return sorted({name.partition(".")[0] for name in ALIASES})


def find_spec(name: str) -> importlib.machinery.ModuleSpec | None:
    """How to import `name`, the module of a different system; None if Colla has nothing in its place."""
    target = _target_of(name)
    if target is None:
        return None
    system = name.partition(".")[0]
    if system not in _said:
        _said.add(system)
        if next((os.environ[rank] for rank in _RANKS if rank in os.environ), "0") == "0":
            print(f"colla: {system} is not installed: import {system} means Colla {_core.version}", file=sys.stderr)
    return importlib.machinery.ModuleSpec(name, _Loader(target), is_package=True)


def _target_of(name: str) -> str | None:
    row = name
    while row not in ALIASES:
        row = row.rpartition(".")[0]
        if not row:
            return None
    target = ALIASES[row] + name.removeprefix(row)
    return target if row == name or importlib.util.find_spec(target) is not None else None


class _Loader(importlib.abc.Loader):
    """Gives a module that has a name of its own a second one."""

    def __init__(self, target: str) -> None:
        self._target = target

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Python's own placeholder will do."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Python takes what is in sys.modules after this."""
        sys.modules[module.__name__] = importlib.import_module(self._target)


def prepare(system: str, environment: MutableMapping[str, str]) -> None:
    """Has Pythons with these variables take Colla's modules for those of `system`, where it is not installed."""
    installed = importlib.util.find_spec(system)
    if installed is not None and not isinstance(installed.loader, _Loader):
        print(f"colla: {system} is installed: import {system} means {installed.origin}, not Colla", file=sys.stderr)
        return
    others = [name for name in environment.get(_VARIABLE, "").split(",") if name not in ("", system)]
    environment[_VARIABLE] = ",".join([*others, system])
    site = str(pathlib.Path(__file__).parent / "_site")
    paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path not in ("", site)]
    environment["PYTHONPATH"] = os.pathsep.join([site, *paths])


def main() -> None:
    """Becomes ``python ARGUMENTS…`` with the modules of a system in place."""
    if len(sys.argv) < 3 or sys.argv[1] not in systems():
        known = " or ".join(systems())
        print(f"colla: usage: python -m colla.aliases {known} SCRIPT [ARGUMENTS]", file=sys.stderr)
        sys.exit(2)
    prepare(sys.argv[1], os.environ)
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    os.execv(sys.executable, [sys.executable, *flags, *sys.argv[2:]])


if __name__ == "__main__":
    main()
