"""Python environments of peers and frameworks: found or made when they are asked for, and kept.

As a program: environments.py NAME [--make] [--beside FOLDER] prints the path of the Python to run.
As a module: python_of(NAME). A new environment is a row in PACKAGES.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys

# The environment's folder, what pip installs into it, and what it installs there without dependencies.
PACKAGES = {
    # MXNet still says np.bool, which newer numpy does not have.
    "mxnet": ("mxnet-1.9.1", ["mxnet==1.9.1", "numpy<1.24"], []),
    # A peer of `colla study`. MLlib asks for numpy, and Spark for a Java.
    "mllib": ("spark-4.3.0", ["pyspark==4.3.0", "numpy==2.4.6"], []),
    # A peer, and what tests/tensorflow runs in. tf_keras, which is Keras 2, asks for a TensorFlow with CUDA.
    "tf": ("tensorflow-2026.11", ["tensorflow-cpu==2.21.0"], ["tf_keras==2.21.0"]),
    # What tests/spark runs in, pytest included. PySpark warns about pandas 3.
    "spark": (
        "spark-2026.11",
        ["torch==2.13.0", "numpy==2.4.6", "pyspark==4.3.0", "pyarrow==26.0.1", "pandas<3"]
        + ["pytest==9.2.0"],
        [],
    ),
    # Not a peer: tests/frameworks trains with each of these on Colla's backend for torch.distributed.
    "frameworks": (
        "frameworks-2026.11",
        ["torch==2.13.0", "numpy==2.4.6", "lightning==2.6.6", "accelerate==1.15.0", "transformers==5.23.0"]
        + ["ray[train]==2.60.0", "pyspark==4.3.0", "cloudpickle==3.1.2"],
        [],
    ),
}


class NotThere(Exception):
    """There is no such environment; the text says what to do."""


def python_of(name, make=False, beside=None, tell=print):
    """The path of the Python that has what `name` stands for.

    "torch" is looked for where a user expects it. The others live in a cache; what is missing there
    is made if `make`, after `tell` has got a line that says so. An environment appears whole or not
    at all.
    """
    return find_torch(beside) if name == "torch" else find_cached(name, make, tell)


def find_torch(beside):
    """The user's choice, the environment that ./colla made next to the build, what is on the path."""
    candidates = [os.environ.get("COLLA_TORCH_PYTHON")]
    if not candidates[0]:
        folder = pathlib.Path(beside or __file__).absolute()
        venvs = [parent / ".venv/bin/python" for parent in (folder, *folder.parents)]
        candidates = [str(python) for python in venvs if python.exists()] + ["python3"]
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    for python in candidates:
        path = shutil.which(python)
        if path and subprocess.run([path, "-c", look], capture_output=True).returncode == 0:
            return path
    raise NotThere(
        f"no Python with torch (tried {', '.join(candidates)}): run ./colla once, which makes .venv, "
        "or pip install torch, or set COLLA_TORCH_PYTHON"
    )


def cache():
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):  # The specification says to ignore relative paths.
        if not os.environ.get("HOME"):
            raise NotThere("no directory for peers: set XDG_CACHE_HOME or HOME")
        base = os.environ["HOME"] + "/.cache"
    return pathlib.Path(base) / "colla/bench"


def find_cached(name, make, tell):
    folder, requirements, alone = PACKAGES[name]
    place = cache() / folder
    python = place / "bin/python"
    if python.exists():
        return str(python)
    if not make:
        raise NotThere(f"it is not in {place}: --peers {name} installs it there")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NotThere(
            f"make {place.parent}: {error.strerror}; set XDG_CACHE_HOME to a place that can be "
            "written to"
        )
    tell(f"install {' '.join(requirements + alone)} into {place} (once; it takes minutes)")
    # Python finds its environment by where it is started from, so it can be moved.
    unfinished = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        install(requirements, unfinished)
        if alone:
            fetch(alone, unfinished, "--no-deps")
        if not python.exists():  # Otherwise a different run was faster.
            unfinished.rename(place)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return str(python)


def install(requirements, place):
    base = os.environ.get("COLLA_PEER_PYTHON") or "python3"
    problem = run([base, "-m", "venv", str(place)])
    if problem:
        raise NotThere(
            "cannot make a Python environment: apt-get install python3-venv, or set "
            f"COLLA_PEER_PYTHON ({problem})"
        )
    fetch(requirements, place)


def fetch(requirements, place, *flags):
    pip = [f"{place}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    problem = run([*pip, *flags, *requirements])
    if problem:
        raise NotThere(
            f"cannot install {' '.join(requirements)} from PyPI: see that pip reaches it (a proxy, "
            "PIP_INDEX_URL), with Python 3.8 to 3.11 for mxnet (COLLA_PEER_PYTHON chooses one), or "
            f"leave it out of --peers ({problem})"
        )


def run(command):
    """What went wrong, in one line; nothing if all is well."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    lines = done.stdout.strip().splitlines() or ["no output"]
    return "" if done.returncode == 0 else f"exit code {done.returncode}: {lines[-1]}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=["torch", *PACKAGES])
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--beside")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # So that nothing unfinished is left.
    try:
        print(python_of(arguments.name, arguments.make, arguments.beside,
                        lambda line: print(line, flush=True)))
    except NotThere as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
