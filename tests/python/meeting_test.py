"""`colla.Meeting`: processes that no launcher started form jobs, one after another, with different peers."""

import os
import pathlib
import subprocess
import sys

import pytest

import colla

# Takes part in the meetings that its arguments name, each DIRECTORY RANK SIZE, and says the sum of ranks + 1.
BEGIN = """
import itertools, os, pathlib, sys, time
import colla

def through(directory, rank, size):
    rounds = itertools.count()
    def allgather(text):
        base = pathlib.Path(directory) / str(next(rounds))
        base.mkdir(exist_ok=True)
        (base / f"{rank}.part").write_text(text)
        (base / f"{rank}.part").rename(base / str(rank))
        deadline = time.monotonic() + 60
        while not all((base / str(other)).exists() for other in range(size)):
            assert time.monotonic() < deadline, "somebody did not come"
            time.sleep(0.01)
        return [(base / str(other)).read_text() for other in range(size)]
    secret = os.environ.get("TEST_SECRET")
    return colla.Meeting(rank, size, allgather, secret and bytes.fromhex(secret))

meetings = [(sys.argv[i], int(sys.argv[i + 1]), int(sys.argv[i + 2])) for i in range(1, len(sys.argv), 3)]
"""

WITHOUT_TORCH = BEGIN + """
import array
from colla._core import Kind

for directory, rank, size in meetings:
    world = colla.World(through(directory, rank, size))
    assert (world.job.rank, world.job.size) == (rank, size)
    mine, total = array.array("q", [rank + 1]), array.array("q", [0])
    handle = world.exchange.submit(Kind.ALLREDUCE, "sum", [mine], [total], 0, lambda results, _: results[0])
    print("sum", world.exchange.synchronize(handle)[0], "of", size, flush=True)
    world.exchange.barrier(0)
    world.close()
assert "torch" not in sys.modules
"""

WITH_TORCH = BEGIN + """
import torch
import colla.torch as hvd

for directory, rank, size in meetings:
    hvd.init(meeting=through(directory, rank, size))
    assert (hvd.rank(), hvd.size()) == (rank, size)
    assert hvd.local_size() == size and hvd.cross_size() == 1 and hvd.is_homogeneous()
    total = hvd.allreduce(torch.tensor([rank + 1]), op=hvd.Sum)
    print("sum", int(total), "of", size, flush=True)
    hvd.barrier()
    hvd.shutdown()
    assert not hvd.is_initialized()
"""


@pytest.fixture
def start(tmp_path):
    """Starts a member of some meetings, without a variable that could lead it to its peers."""
    clean = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    started = []

    def member(script, *meetings, prefix=(), variables=()):
        path = tmp_path / f"member-{len(started)}.py"
        path.write_text(script)
        arguments = [str(word) for meeting in meetings for word in meeting]
        for directory, _, _ in meetings:
            pathlib.Path(directory).mkdir(exist_ok=True)
        started.append(
            subprocess.Popen(
                [*prefix, sys.executable, path, *arguments],
                env=clean | dict(variables),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return started[-1]

    yield member
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("script", [WITHOUT_TORCH, WITH_TORCH], ids=["without torch", "with torch"])
def test_a_process_meets_others_one_after_another(start, tmp_path, script):
    first, second = tmp_path / "first", tmp_path / "second"
    stays = start(script, (first, 1, 2), (second, 0, 3))
    leaves = start(script, (first, 0, 2))
    assert leaves.communicate(timeout=100)[0].splitlines() == ["sum 3 of 2"]
    # The peers of the second job start when the first one is over.
    new = [start(script, (second, rank, 3)) for rank in (1, 2)]
    assert stays.communicate(timeout=100)[0].splitlines() == ["sum 3 of 2", "sum 6 of 3"]
    for process in new:
        assert process.communicate(timeout=100)[0].splitlines() == ["sum 6 of 3"]
    assert [process.returncode for process in (stays, leaves, *new)] == [0] * 4


def test_the_same_processes_meet_again(start, tmp_path):
    turns = [(tmp_path / str(turn), 0, 2) for turn in range(3)]
    one = start(WITHOUT_TORCH, *turns)
    other = start(WITHOUT_TORCH, *((directory, 1, size) for directory, _, size in turns))
    for process in (one, other):
        assert process.communicate(timeout=100)[0].splitlines() == ["sum 3 of 2"] * 3


def test_one_rank_alone(start, tmp_path):
    alone = start(WITHOUT_TORCH, (tmp_path / "alone", 0, 1))
    assert alone.communicate(timeout=100)[0].splitlines() == ["sum 1 of 1"]


def test_between_hosts_with_a_secret(start, tmp_path, hosts):
    prefixes, _ = hosts
    secret = os.urandom(32).hex()
    members = [
        start(
            WITHOUT_TORCH,
            (tmp_path / "hosts", rank, 2),
            prefix=prefixes[rank],
            variables={"TEST_SECRET": secret, "COLLA_INTERFACE": ("va", "vb")[rank]},
        )
        for rank in range(2)
    ]
    for member in members:
        assert member.communicate(timeout=100)[0].splitlines() == ["sum 3 of 2"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((2, 2, list), "there is no rank 2 of 2"),
        ((-1, 2, list), "there is no rank -1 of 2"),
        ((0, 2, list, b"short"), "at least 32 bytes, not 5"),
    ],
)
def test_refuses_what_cannot_be(arguments, says):
    with pytest.raises(ValueError, match=says):
        colla.Meeting(*arguments)


def test_hosts_need_a_secret():
    """What the ranks say about their hosts decides."""

    def allgather(text):
        return [text, "elsewhere\nother.example"] if text.count("\n") == 1 else [text, ""]

    with pytest.raises(ValueError, match=r"spans 2 hosts \(.*, other.example\), and the meeting has no secret"):
        colla.World(colla.Meeting(0, 2, allgather))


def test_a_wrong_answer_is_refused():
    with pytest.raises(ValueError, match="has 1 introductions"):
        colla.World(colla.Meeting(0, 2, lambda text: [text]))
    with pytest.raises(ValueError, match="is not rank 0's invitation"):
        colla.World(colla.Meeting(1, 2, lambda text: ["hello", "hello"]))
