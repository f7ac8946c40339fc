"""The ``colla`` command of an installed wheel."""

import os
import pathlib
import sys


def main() -> None:
    """Becomes the built command, with the same arguments."""
    command = pathlib.Path(__file__).parent / "bin" / "colla"
    # Its benchmarks compare with the torch of this Python.
    os.environ.setdefault("COLLA_TORCH_PYTHON", sys.executable)
    os.execv(command, ["colla", *sys.argv[1:]])
