"""Python runs this when it starts in an environment that ``colla.aliases`` has prepared."""

import importlib.machinery
import importlib.util
import os
import sys


class _Aliases:
    """The last of the finders: Python asks it for what it finds nowhere else. It loads Colla only then."""

    systems = os.environ.get("COLLA_ALIASES", "").split(",")

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in cls.systems:
            return None
        from colla import aliases

        return aliases.find_spec(name)


def _run_next():
    """Runs the sitecustomize that Python would have found without this one."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != folder]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None:
        module = sys.modules["sitecustomize"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


sys.meta_path.append(_Aliases)
_run_next()
