"""The ``colla`` command of an installed wheel."""

import os
import pathlib
import sys

COMMAND = pathlib.Path(__file__).parent / "bin" / "colla"


def main() -> None:
    """Becomes the built command, with the same arguments."""
    if sys.argv[1:2] == ["horovodrun"]:
        from colla import aliases

        aliases.prepare("horovod", os.environ)
    # The Python that draws the reports of `colla study`.
    os.environ.setdefault("COLLA_PYTHON", sys.executable)
    # By the name that was typed, for commands that a run offers; ``python -m colla`` is no such name.
    typed = sys.argv[0] if os.access(sys.argv[0], os.X_OK) else str(COMMAND)
    os.execv(COMMAND, [typed, *sys.argv[1:]])
