"""How programs come to the backend, and to a job, that others have started them for."""

import base64
import os
import socket
import subprocess
import sys

import pytest

# The whole program: it does not import Colla.
PLAIN = """
import sys
import torch
import torch.distributed as dist

print(sorted(name for name in sys.modules if name.partition(".")[0] == "colla"))
dist.init_process_group("colla", store=dist.HashStore(), rank=0, world_size=1)
print(dist.get_backend())
"""


def test_torch_alone_knows_the_backend():
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['colla', 'colla._registration']\ncolla\n"


# The whole program: neither imports Colla nor says who it is.
UNDER_COLLA_RUN = """
import os, sys
import torch
import torch.distributed as dist

loaded = sorted(name for name in sys.modules if name.partition(".")[0] == "colla")
assert loaded == ["colla", "colla._registration"], loaded
backend = os.environ["TEST_BACKEND"]
dist.init_process_group(backend)
total = torch.full((3,), float(dist.get_rank() + 1))
dist.all_reduce(total)
print(backend, dist.get_rank(), "of", dist.get_world_size(), os.environ["LOCAL_RANK"], total.tolist())
dist.destroy_process_group()
"""


@pytest.mark.parametrize("backend", ["colla", "gloo"])
def test_colla_run_sets_what_torch_expects(run_ranks, backend):
    # What an outer launcher has set is not this job's.
    flags = ("--env", f"TEST_BACKEND={backend}")
    before = {"RANK": "5", "WORLD_SIZE": "6", "MASTER_ADDR": "nowhere.invalid", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    os.environ.update(before)
    try:
        done = run_ranks(UNDER_COLLA_RUN, flags=flags)
    finally:
        for name in before:
            del os.environ[name]
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert f"{backend} {rank} of 2 {rank} [3.0, 3.0, 3.0]" in done.stdout, done.stdout


AGENTS = """
import os
import torch
import colla.torch as hvd


def say(*words):  # In one piece: two processes write to one pipe.
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())


for _ in range(2):  # A program may leave and come back.
    hvd.init()
    say("place", hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_size())
    say("sum", hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist())
    hvd.shutdown()
# The agents start all processes again, and serve them the same store.
assert os.environ["TORCHELASTIC_RESTART_COUNT"] == os.environ["TEST_RESTARTS"]
torch.distributed.init_process_group("colla")
total = torch.ones(1)
torch.distributed.all_reduce(total)
say("group", total.item())
torch.distributed.destroy_process_group()
"""


@pytest.mark.parametrize(("agents", "each", "restarts", "secret"), [(2, 1, 1, False), (2, 2, 0, True)])
def test_an_agent_of_torchrun_is_not_a_host(tmp_path, agents, each, restarts, secret):
    script = tmp_path / "script.py"
    script.write_text(AGENTS)
    env = os.environ | {"TEST_RESTARTS": str(restarts)}
    if secret:  # It harms nothing where nobody needs it.
        file = tmp_path / "secret"
        file.touch(mode=0o600)
        file.write_bytes(base64.b64encode(os.urandom(32)))
        env["COLLA_SECRET_FILE"] = str(file)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(agents), "--nproc-per-node", str(each)]
    torchrun += ["--master-addr", "127.0.0.1", "--master-port", str(port), "--max-restarts", str(restarts)]
    processes = [
        subprocess.Popen(
            [*torchrun, "--node-rank", str(node), script],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=env,
        )
        for node in range(agents)
    ]
    try:
        texts = [process.communicate(timeout=150)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    size = agents * each
    for node, text in enumerate(texts):
        assert processes[node].returncode == 0, text
        for rank in range(node * each, (node + 1) * each):
            assert text.count(f"place {rank} {size} {rank} {size} 1\n") == 2 * (restarts + 1), text
        assert text.count(f"sum [{size:.1f}, {size:.1f}]\n") == 2 * each * (restarts + 1), text
        assert text.count(f"group {size:.1f}\n") == each, text
        assert "did not come" not in text, text
