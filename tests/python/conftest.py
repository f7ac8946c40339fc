"""What the tests of the Python package share."""

import os
import pathlib
import subprocess
import sys

import pytest
from torch_ranks import TorchRanks

ROOT = pathlib.Path(__file__).parents[2]
COLLA = ROOT / "build" / "bin" / "colla"


@pytest.fixture
def run_ranks(tmp_path):
    """Runs a script, given as text or by its path, as a job of `np` workers and returns the finished process.

    The job ends by itself after `timeout` seconds, so that nothing is left behind.
    """

    def run(script: str | pathlib.Path, np: int = 2, *, flags: tuple[str, ...] = (), timeout: int = 120):
        path = script
        if isinstance(script, str):
            path = tmp_path / "script.py"
            path.write_text(script)
        return subprocess.run(
            [COLLA, "run", "-np", str(np), "--timeout", str(timeout), *flags, "--", sys.executable, path],
            capture_output=True,
            text=True,
            timeout=timeout + 30,
        )

    return run


@pytest.fixture
def torch_ranks(tmp_path):
    """Starts a script's text as `size` ranks of torch.distributed; see TorchRanks."""
    started = []

    def start(script: str, size: int, env=None, prefixes=None) -> TorchRanks:
        directory = tmp_path / str(len(started))
        directory.mkdir()
        started.append(TorchRanks(directory, script, size, env, prefixes))
        return started[-1]

    yield start
    for ranks in started:
        ranks.end()


@pytest.fixture
def hosts():
    """Two commands that each run another on a host of its own, and the first one's address."""
    names = [f"colla-{os.getpid()}-{side}" for side in "ab"]
    commands = [f"ip netns add {name}" for name in names]
    commands.append(f"ip link add va netns {names[0]} type veth peer name vb netns {names[1]}")
    for name, link, number in zip(names, ["va", "vb"], [1, 2]):
        commands.append(f"ip -n {name} addr add 10.231.0.{number}/24 dev {link}")
        commands += [f"ip -n {name} link set {device} up" for device in (link, "lo")]
    try:
        for command in commands:
            if subprocess.run(command.split(), capture_output=True).returncode != 0:
                pytest.skip(f"no network namespaces here: {command}")
        yield [["ip", "netns", "exec", name] for name in names], "10.231.0.1"
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
