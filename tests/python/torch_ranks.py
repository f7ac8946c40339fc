"""Runs a script as the ranks of one torch.distributed job: real processes, which a test can stop or kill."""

import os
import pathlib
import signal
import subprocess
import sys
import time

# What a script of ranks begins with.
PROLOGUE = """
import datetime, os, signal, sys, time
import torch
import torch.distributed as dist
import colla.torch

torch.set_num_threads(1)
rank, size = int(sys.argv[1]), int(sys.argv[2])
store = dist.FileStore(sys.argv[3], size)


def init(backend="colla", seconds=180):
    dist.init_process_group(
        backend, store=store, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=seconds)
    )


def say(*words):
    print(*words, flush=True)
"""


class TorchRanks:
    """The processes of one run; each writes to a file of its own."""

    def __init__(
        self,
        directory: pathlib.Path,
        script: str,
        size: int,
        env: dict[str, str] | None = None,
        prefixes: list[list[str]] | None = None,
    ):
        """`prefixes` are commands that start each rank's."""
        self._directory = directory
        path = directory / "script.py"
        path.write_text(PROLOGUE + script)
        store = directory / "store"
        store.unlink(missing_ok=True)
        environment = os.environ | {"OMP_NUM_THREADS": "1"} | (env or {})
        self.processes = []
        for rank in range(size):
            with open(self._output(rank), "w") as output:
                self.processes.append(
                    subprocess.Popen(
                        [*(prefixes[rank] if prefixes else []), sys.executable, path, str(rank), str(size), store],
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        env=environment,
                    )
                )

    def _output(self, rank: int) -> pathlib.Path:
        return self._directory / f"output.{rank}"

    def text(self, rank: int) -> str:
        return self._output(rank).read_text()

    def await_text(self, rank: int, text: str, seconds: float = 180) -> None:
        """Returns once `rank` has said `text`."""
        deadline = time.monotonic() + seconds
        while text not in self.text(rank):
            assert self.processes[rank].poll() is None, self.text(rank)
            assert time.monotonic() < deadline, f"rank {rank} did not say {text}: {self.text(rank)}"
            time.sleep(0.02)

    def signal(self, rank: int, number: signal.Signals) -> None:
        self.processes[rank].send_signal(number)

    def wait(self, seconds: float = 300) -> list[int]:
        """Exit codes by rank. Whoever does not end in time fails the test."""
        deadline = time.monotonic() + seconds
        for rank, process in enumerate(self.processes):
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"rank {rank} did not end: {self.text(rank)}") from None
        return [process.returncode for process in self.processes]

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
