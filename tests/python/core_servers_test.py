"""colla._core.Servers, which the frameworks' strategies are made of: steps with arrays of numpy."""

import pytest

SCRIPT = """
import numpy as np
from colla import _core

job = _core.Job()
if job.is_server:
    job.serve()
    raise SystemExit
rank = job.rank

def numpy(array):
    return np.asarray(memoryview(array)).reshape(array.shape)

def wrong(text, action, *arguments):
    try:
        action(*arguments)
    except ValueError as error:
        assert text in str(error), error
    else:
        raise AssertionError("nothing was raised")

wrong("has no servers", _core.Servers, job, [("w", np.zeros(2, np.float32))], 1, _core.ServerChoice("allreduce", "sgd lr=1"))
wrong("lr", _core.ServerChoice("ps-sync", "sgd lr=-1").check)

# Rank 0's values are everybody's, and gradients are added up.
w, table = np.full([3, 2], 1 + rank, np.float32), np.full([10, 4], 2 - rank, np.float32)
servers = _core.Servers(job, [("w", w), ("table", table)], 1, _core.ServerChoice("ps-sync", "sgd lr=0.5", partitions=3))
assert numpy(servers.value(0)).tolist() == [[1, 1]] * 3
wrong("different shape or type", servers.step, [np.zeros(5, np.float32)], [None])
wrong("has no row 10: it has 10", servers.step, [None], [(np.array([10]), np.zeros([1, 4], np.float32))])
wrong("for each variable", servers.step, [None], [])
rows = np.array([rank, 9, 9])
assert servers.step([np.full([3, 2], rank + 1, np.float32)], [(rows, np.ones([3, 4], np.float32))]) == (True, 1)
assert numpy(servers.value(0)).tolist() == [[-0.5, -0.5]] * 3
assert numpy(servers.pull(1, np.array([0, 1, 2, 9])))[:, 3].tolist() == [1.5, 1.5, 2, 0]
# A factor of the rate; and nothing from rank 1.
assert servers.step([np.ones([3, 2], np.float32) if rank == 0 else None], [None], 2.0) == (True, 2)
assert numpy(servers.value(0)).tolist() == [[-1.5, -1.5]] * 3
servers.leave(again=True)

# Others on the same servers, that count from 7.
servers = _core.Servers(job, [("b", np.zeros(4, np.float64))], 1, _core.ServerChoice("ps-async", "sgd lr=1"), step=7)
taken, updates = servers.step([np.ones(4)], [])
assert taken and updates in (8, 9), updates
servers.leave()
job.close()
print("done")
"""


@pytest.mark.parametrize("servers", ["1", "2"])
def test_steps(run_ranks, servers):
    done = run_ranks(SCRIPT, flags=("--ps", servers))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == 2
