"""``colla.run()``: a function as the workers of a job."""

import importlib.util
import io
import pathlib
import pickle
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from colla._command import COMMAND

# The options of horovod.run() that are flags of colla horovodrun; those of _SWITCHES have no value.
_FLAGS: Mapping[str, str] = {
    "hosts": "--hosts",
    "hostfile": "--hostfile",
    "max_np": "--max-np",
    "max_num_proc": "--max-np",
    "min_np": "--min-np",
    "min_num_proc": "--min-np",
    "network_interface": "--network-interfaces",
    "network_interfaces": "--network-interfaces",
    "ssh_port": "--ssh-port",
    "start_timeout": "--start-timeout",
}
_SWITCHES: Mapping[str, str] = {"use_gloo": "--gloo", "use_mpi": "--mpi", "verbose": "--verbose"}

# Options of horovod.run() that change nothing here, and why.
_WITHOUT_EFFECT: Mapping[str, str] = {
    "cooldown_range": "the number of workers does not change yet",
    "disable_cache": "no choice of a host is kept",
    "mpi_args": "Colla has a transport of its own",
    "output_filename": "the workers' output goes where this program's does",
    "reset_limit": "the number of workers does not change yet",
    "slots": "the number of workers does not change yet",
    "ssh_identity_file": "no host is reached by ssh here",
}

# What a worker's Python takes over from the one that called run(), by multiprocessing's names.
_TAKEN_OVER = ("sys_path", "sys_argv", "dir")
_MAIN = ("init_main_from_name", "init_main_from_path")

# Set in a worker while it imports the caller's script.
importing_main = False


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    np: int | None = None,
    *,
    num_proc: int | None = None,
    executable: str | None = None,
    **options: Any,
) -> list[Any]:
    """Calls ``func(*args, **kwargs)`` in each of `np` workers of a job, and returns the results, by rank.

    The function, its arguments and its results travel by pickle. A function of the program's main script is found
    there again: the script starts the job under ``if __name__ == "__main__":``. With the package cloudpickle
    installed that is not needed, and lambdas and nested functions can be sent too.

    Args:
        np: How many workers. By default as many as `hosts` or `hostfile` have slots, or one.
        num_proc: Horovod's newer name for `np`.
        executable: The workers' Python; by default that of this program.
        options: As horovod.run() has them: hosts, hostfile, max_np, min_np, network_interface, ssh_port,
            start_timeout, use_gloo, use_mpi, verbose; each does what the flag of ``colla horovodrun`` does. Its
            others are accepted, with a line on standard error that says why they change nothing.

    RuntimeError when a worker fails; the worker's own error is on standard error. ValueError for what can't be sent.
    """
    import subprocess  # `import colla` is quicker without these.
    import tempfile

    if importing_main:
        raise RuntimeError(
            "colla.run() was called by the script while a worker imports it: call it under"
            ' if __name__ == "__main__": or install cloudpickle'
        )
    workers = np if np is not None else num_proc
    if workers is None and not any(options.get(name) for name in ("hosts", "hostfile", "min_np", "min_num_proc")):
        workers = 1
    flags = [] if workers is None else ["-np", str(workers)]
    for option, value in options.items():
        if option not in (*_FLAGS, *_SWITCHES, *_WITHOUT_EFFECT):
            raise TypeError(f"run() takes no option {option!r}: use {', '.join([*_FLAGS, *_SWITCHES])}")
        if not value:
            continue
        if option in _FLAGS:
            flags += [_FLAGS[option], str(value)]
        elif option in _SWITCHES:
            flags.append(_SWITCHES[option])
        else:
            print(f"colla: run() ignores {option}: {_WITHOUT_EFFECT[option]}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="colla-run-") as folder:
        pathlib.Path(folder, "task").write_bytes(_task(func, args, kwargs))
        worker = [executable or sys.executable, "-P", "-m", "colla._run_worker", folder]
        code = subprocess.run([COMMAND, "horovodrun", *flags, *worker]).returncode
        if code != 0:
            raise RuntimeError(f"the job of colla.run() ended with exit code {code}: see the lines above")
        results = sorted(pathlib.Path(folder).glob("result-*"))
        return [pickle.loads(result.read_bytes()) for result in results]


def _task(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> bytes:
    """What a worker needs to know, for ``_run_worker``."""
    import multiprocessing.spawn

    data = multiprocessing.spawn.get_preparation_data("colla.run")
    main = {key: data[key] for key in _MAIN if key in data}
    if not pathlib.Path(main.get("init_main_from_path", __file__)).is_file():
        main = {}  # Standard input has a name, but is not a file.
    call, needs_main = dumps((func, tuple(args), dict(kwargs or {})))
    if needs_main and not main:
        raise ValueError(f"workers can't find {func!r}, which is in no file: define it in a module, or install cloudpickle")
    prepared = {key: data[key] for key in _TAKEN_OVER if key in data} | (main if needs_main else {})
    return pickle.dumps({"prepare": prepared, "call": call})


class _Pickler(pickle.Pickler):
    """Notices what can only be found again in the main script."""

    needs_main = False

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, types.FunctionType)) and obj.__module__ in ("__main__", "__mp_main__"):
            self.needs_main = True
        return NotImplemented


def dumps(value: Any) -> tuple[bytes, bool]:
    """A pickle of `value`, and whether the reader needs the main script. By cloudpickle if pickle would need the script
    or can't do it, and if it is installed."""
    content = io.BytesIO()
    pickler = _Pickler(content)
    problem: Exception | None = None
    try:
        pickler.dump(value)
        if not pickler.needs_main:
            return content.getvalue(), False
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        problem = error
    if importlib.util.find_spec("cloudpickle") is not None:
        import cloudpickle  # type: ignore[import-not-found]

        return cloudpickle.dumps(value), False
    if problem is not None:
        raise ValueError(f"{problem}: use what is defined at the top of a module, or install cloudpickle") from problem
    return content.getvalue(), True
