"""``python -m colla._run_worker FOLDER``: a worker of ``colla.run()``. It calls the function and keeps the result."""

import multiprocessing.spawn
import os
import pathlib
import pickle
import sys

from colla import _run


def main(folder: pathlib.Path) -> None:
    task = pickle.loads((folder / "task").read_bytes())
    _run.importing_main = True
    multiprocessing.spawn.prepare(task["prepare"])  # sys.path, and the caller's script if the function is there.
    _run.importing_main = False
    func, args, kwargs = pickle.loads(task["call"])
    result, _ = _run.dumps(func(*args, **kwargs))
    # So many digits that the order of names is that of ranks.
    (folder / f"result-{int(os.environ['COLLA_RANK']):08d}").write_bytes(result)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
