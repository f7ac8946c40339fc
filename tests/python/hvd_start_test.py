"""How jobs start and end: launchers, shutdown, ranks that die, stalls, timelines."""

import json
import os
import shutil
import socket
import subprocess
import sys

import pytest
from conftest import COLLA

BEGIN = """
import os, sys, torch
import colla.torch as hvd
hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
"""


def test_use_before_init_and_after_shutdown(run_ranks):
    done = run_ranks("""
import torch, colla.torch as hvd
def refused():
    count = 0
    for call in (hvd.rank, hvd.size, hvd.local_rank, hvd.cross_size, hvd.is_homogeneous, hvd.barrier, hvd.join,
                 hvd.stop_timeline, lambda: hvd.allreduce(torch.ones(1)), lambda: hvd.poll(1),
                 lambda: hvd.add_process_set([0]), lambda: hvd.global_process_set.size(),
                 lambda: hvd.broadcast_object(1)):
        try:
            call()
        except ValueError as error:
            count += "init()" in str(error)
    assert count == 13, count
refused()
hvd.shutdown()
for turn in range(3):
    assert not hvd.is_initialized()
    sets = [hvd.ProcessSet([0]), hvd.ProcessSet([1])]
    hvd.init(process_sets=sets)
    assert sets[hvd.rank()].size() == 1 and sets[1].process_set_id is not None
    for _ in range(turn):
        assert hvd.allreduce(torch.ones(3), op=hvd.Sum).sum() == 3 * hvd.size()
    hvd.barrier()
    hvd.shutdown()
    assert sets[0].process_set_id is None
    refused()
try:
    hvd.init(process_sets=[hvd.ProcessSet([0]), hvd.ProcessSet([0])])
except ValueError as error:
    print("refused", error)
assert not hvd.is_initialized()
""")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("refused") == 2


def test_ends_without_shutdown(run_ranks):
    """Also when operations are under way, which nobody waits for."""
    done = run_ranks(BEGIN + """
if RANK == 0:
    hvd.allreduce_async(torch.ones(10), name="never")
for _ in range(3):
    hvd.allreduce(torch.ones(1000))
print("over")
""")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("over") == 2 and "Traceback" not in done.stderr


def test_a_lost_rank_is_named(run_ranks):
    done = run_ranks(BEGIN + """
import signal
hvd.allreduce(torch.ones(1))
if RANK == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    hvd.allreduce(torch.ones(1))
except hvd.HorovodInternalError as error:
    print("raised:", error, flush=True)
""", 3, flags=("--spare-workers", "2"))
    raised = [line for line in done.stdout.splitlines() if "raised:" in line]
    assert len(raised) == 2 and all("rank 1" in line for line in raised), done.stdout + done.stderr


def test_a_rank_that_shuts_down_is_named(run_ranks):
    done = run_ranks(BEGIN + """
hvd.allreduce(torch.ones(1))
if RANK == 1:
    hvd.shutdown()
else:
    try:
        hvd.allreduce(torch.ones(1))
    except hvd.HorovodInternalError as error:
        print("raised:", error)
""")
    assert done.returncode == 0, done.stderr
    assert "raised:" in done.stdout and "rank 1" in done.stdout


def test_a_stall_is_reported(run_ranks):
    done = run_ranks(BEGIN + """
if RANK == 0:
    try:
        hvd.allreduce(torch.ones(1), name="lonely")
    except hvd.HorovodInternalError as error:
        print("raised:", error)
else:
    try:
        hvd.allreduce(torch.ones(1), name="other")
    except hvd.HorovodInternalError as error:
        print("raised:", error)
""", flags=("--stall-warning", "0.2", "--stall-shutdown", "1"))
    assert done.stdout.count("raised:") == 2, done.stdout + done.stderr
    assert "lonely" in done.stderr and "other" in done.stderr


def test_timeline(run_ranks, tmp_path):
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    done = run_ranks(BEGIN + f"""
hvd.allreduce(torch.ones(1), name="at start")
hvd.stop_timeline()
hvd.start_timeline({str(second)!r}, mark_cycles=True)
hvd.allreduce(torch.ones(1), name="later")
hvd.stop_timeline()
""", flags=("--env", f"HOROVOD_TIMELINE={first}"))
    assert done.returncode == 0, done.stderr
    for path, name in ((first, "at start"), (second, "later")):
        assert json.loads(path.read_text())
        assert f"allreduce.{name}" in path.read_text()


SAY = BEGIN + """
total = hvd.allreduce(torch.tensor([float(RANK)]), op=hvd.Sum)
print(f"rank {RANK} of {SIZE}, local {hvd.local_rank()} of {hvd.local_size()}, sum {int(total)}", flush=True)
"""


def said_all(done, size):
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in range(size):
        assert f"rank {rank} of {size}, local {rank} of {size}, sum {size * (size - 1) // 2}" in done.stdout


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun", "srun"])
def test_launchers(launcher, tmp_path):
    script = tmp_path / "say.py"
    script.write_text(SAY)
    commands = {
        "torchrun": [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script],
        "mpirun": ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", sys.executable, script],
        "srun": ["srun", "-n", "2", sys.executable, script],
    }
    if launcher != "torchrun" and shutil.which(launcher) is None:
        pytest.skip(f"no {launcher} here")
    if launcher == "srun" and subprocess.run(["sinfo"], capture_output=True, timeout=20).returncode != 0:
        pytest.skip("no Slurm controller here")
    said_all(subprocess.run(commands[launcher], capture_output=True, text=True, timeout=100), 2)


@pytest.mark.parametrize("program", ["hvd", "World", "train"])
@pytest.mark.parametrize("master", ["127.0.0.1", socket.gethostname()])
def test_numbers_set_by_hand_count_no_hosts(program, master, tmp_path):
    """A process for each agent, which counts itself alone: where rank 0's host is decides."""
    script = tmp_path / "say.py"
    world = "import colla\njob = colla.World().job\nprint(f'rank {job.rank}, local {job.local_rank} of {job.local_size}')"
    script.write_text(SAY if program == "hvd" else world)
    train = [COLLA, "train", "mlp", "--data", "synthetic:mnist:60", "--steps", "2", "--strategy", "allreduce", "--no-eval"]
    command = train if program == "train" else [sys.executable, script]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": master, "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen(
            command,
            env=os.environ | place | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    ended = [(*process.communicate(timeout=100), process.returncode) for process in ranks]
    for rank, (out, err, code) in enumerate(ended):
        assert code == 0, err
        said = {"hvd": f"rank {rank} of 2, local {rank} of 2, sum 1", "World": f"rank {rank}, local {rank} of 2"}
        assert said.get(program, "") in out
    assert program != "train" or "allreduce, 2 workers" in ended[0][1]


def test_horovodrun(tmp_path):
    script = tmp_path / "say.py"
    script.write_text(SAY + "print(os.environ['COLLA_FUSION_MB'], os.environ['COLLA_CYCLE_US'])")
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=2  # this one\n")
    flags = ["--hostfile", hosts, "-p", "22", "--gloo", "--verbose", "--start-timeout", "50", "--cycle-time-ms", "0.5"]
    flags += ["--fusion-threshold-mb", "3", "--stall-check-warning-time-seconds", "30", "--network-interfaces", "lo"]
    flags += ["--stall-check-shutdown-time-seconds", "60", "--timeline-filename", tmp_path / "timeline.json"]
    done = subprocess.run(
        [COLLA, "horovodrun", "-np", "2", *flags, sys.executable, script], capture_output=True, text=True, timeout=100
    )
    said_all(done, 2)
    assert "3 500" in done.stdout and "--gloo is not needed" in done.stderr
    assert json.loads((tmp_path / "timeline.json").read_text())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-np", "2", "-H", "localhost:1,localhost:1", "true"], "names host localhost twice"),
        (["-np", "3", "-H", "localhost:2", "true"], "the hosts have 2 slots"),
        (["-H", "localhost:x", "true"], "slots above 0"),
        (["--hostfile", "/nowhere", "true"], "/nowhere"),
        (["true"], "--np is required"),
        (["-np", "2", "--fusion-threshold-mb", "much", "true"], "whole number"),
        (["-np", "5", "--min-np", "1", "--max-np", "4", "true"], "-np is 5, but --min-np and --max-np leave 1 to 4"),
    ],
)
def test_horovodrun_refuses(arguments, says):
    done = subprocess.run([COLLA, "horovodrun", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_horovodrun_fixes_the_number_of_workers(tmp_path):
    discovery = tmp_path / "discover.sh"
    discovery.write_text("#!/bin/sh\necho localhost:4\n")
    flags = ["--min-np", "1", "--max-np", "4", "--host-discovery-script", discovery]
    for workers in (["-np", "2"], []):
        done = subprocess.run(
            [COLLA, "horovodrun", *flags, *workers, "sh", "-c", "echo $COLLA_RANK of $COLLA_SIZE"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        size = 2 if workers else 1
        assert done.returncode == 0 and done.stdout.count(f" of {size}\n") == size, done.stdout + done.stderr
        assert f"the number of workers stays {size} for now" in done.stderr and done.stderr.count("\n") == 1
