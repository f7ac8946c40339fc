"""Ranks that fail, and what the others say."""

import os
import subprocess

from conftest import RANKS


def test_a_rank_that_is_lost(python, environment):
    """Nobody launched these processes, so nobody ends the one that is left."""
    hosts = ",".join(f"localhost:{20000 + os.getpid() % 20000 + i}" for i in range(2))
    ranks = [
        subprocess.Popen(
            [python, RANKS / "lost.py"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment | {"COLLA_WORKER_HOSTS": hosts, "COLLA_TASK_INDEX": str(rank)},
        )
        for rank in range(2)
    ]
    try:
        said, errors = ranks[0].communicate(timeout=120)
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert ranks[1].returncode == 3
    unknown, internal = said.split("HorovodInternalError ")
    for text in (unknown, internal):
        assert "peer lost: " in text and "rank 1 on host" in text, said + errors
    assert unknown.startswith("UnknownError")
