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
    os.execv(COMMAND, ["colla", *sys.argv[1:]])
