"""Checkpoints of trainings on parameter servers: what the servers hold is in them, and goes back there."""

import subprocess

import pytest
from conftest import COLLA

# Trains, saving at 10 and 20 into OUT/first; goes back to 10 in the same job, and saves 20 into OUT/again.
# With LOAD it goes on from there instead.
SCRIPT = """
import os
import torch
import colla.torch as hvd

hvd.init()
OUT = os.environ["OUT"]
torch.manual_seed(hvd.rank())
model = torch.nn.Sequential(torch.nn.EmbeddingBag(40, 8, sparse=SPARSE), torch.nn.Linear(8, 3))
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(OPTIMIZER, named_parameters=model.named_parameters())
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 ** (step // 8))

def train(first, last):
    for step in range(first, last):
        data = torch.Generator().manual_seed(step)
        # No row is another rank's in the same step, but all are in turn.
        words = torch.randperm(40, generator=data).reshape(hvd.size(), -1)[hvd.rank()].reshape(4, -1)
        labels = torch.randint(3, (hvd.size(), 4), generator=data)[hvd.rank()]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(words), labels).backward()
        optimizer.step()
        schedule.step()

if "LOAD" in os.environ:
    info = hvd.load_checkpoint(os.environ["LOAD"], model, optimizer, 10)
    schedule.last_epoch = info.step
    train(info.step, 20)
    hvd.save_checkpoint(f"{OUT}/loaded", model, optimizer, 20)
else:
    train(0, 10)
    hvd.save_checkpoint(f"{OUT}/first", model, optimizer, 10)
    train(10, 20)
    hvd.save_checkpoint(f"{OUT}/first", model, optimizer, 20)
    schedule.last_epoch = hvd.load_checkpoint(f"{OUT}/first", model, optimizer, 10).step
    train(10, 20)
    hvd.save_checkpoint(f"{OUT}/again", model, optimizer, 20)
    # What is loaded last is never trained with.
    hvd.load_checkpoint(f"{OUT}/first", model, optimizer)
hvd.shutdown()
print("done")
"""

SGD = "torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)"
PLAIN = "torch.optim.SGD(model.parameters(), lr=0.5)"
ADAM = "torch.optim.Adam(model.parameters(), lr=0.02)"


@pytest.fixture
def train(run_ranks, tmp_path):
    """Runs the script and returns the directory of its checkpoints."""

    def run(name: str, optimizer: str, sparse: bool, *flags: str):
        out = tmp_path / name
        out.mkdir()
        script = SCRIPT.replace("OPTIMIZER", optimizer).replace("SPARSE", str(sparse))
        done = run_ranks(script, timeout=400, flags=("--env", f"OUT={out}", *flags))
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("done") == 2
        return out

    return run


def compared(a, b) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COLLA, "compare", a, b], capture_output=True, text=True)


def assert_equal(a, b):
    result = compared(a, b)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(("strategy", "optimizer", "sparse"), [("ps-sync", SGD, False), ("hybrid", PLAIN, True)])
def test_saved_is_what_allreduce_saves(train, strategy, optimizer, sparse):
    # Products with powers of two are exact, so that torch's kernels and the servers' round alike.
    expected = train("allreduce", optimizer, sparse)
    servers = train(strategy, optimizer, sparse, "--strategy", strategy, "--ps", "2")
    for step in (10, 20):
        assert_equal(f"{expected}/first@{step}", f"{servers}/first@{step}")
    assert compared(f"{servers}/first@10", f"{servers}/first@20").returncode == 1


@pytest.mark.parametrize(("strategy", "optimizer"), [("ps-sync", ADAM), ("hybrid", SGD)])
def test_training_goes_on_where_it_was(train, strategy, optimizer):
    whole = train("whole", optimizer, True, "--strategy", strategy, "--ps", "2")
    slot = "exp_avg_sq" if optimizer == ADAM else "momentum_buffer"
    shown = subprocess.run([COLLA, "inspect", f"{whole}/first"], capture_output=True, text=True, check=True)
    for name in ("0.weight", "1.weight", "1.bias"):
        assert f"{name}/{slot}" in shown.stdout
    assert_equal(f"{whole}/first@20", f"{whole}/again@20")
    loaded = train("loaded", optimizer, True, "--strategy", strategy, "--env", f"LOAD={whole}/first")
    assert_equal(f"{whole}/first@20", f"{loaded}/loaded@20")


# Every update takes the same from every number, so what is of one step is the same everywhere.
RACE = """
import os
import torch
import colla.torch as hvd
from colla import _core

def tensors(arrays):
    return {name: torch.from_dlpack(array) for name, array in arrays}

hvd.init()
OUT = os.environ["OUT"]
model = torch.nn.Sequential(torch.nn.Embedding(3000, 4, sparse=True), torch.nn.Linear(50, 40))
with torch.no_grad():
    for param in model.parameters():
        param.zero_()
ssp = os.environ["COLLA_STRATEGY"] == "ps-ssp"
options = hvd.ServerOptions(staleness=50) if ssp else None
unit = 0.25 if ssp else 0.5  # Of a step's mean, or of one rank's.
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), server_options=options)

def step():
    optimizer.zero_grad()
    loss = model[0](torch.arange(3000)).sum() + model[1].weight.sum() + model[1].bias.sum()
    loss.backward()
    optimizer.step()

steps = 40 if hvd.rank() == 0 else 80
for number in range(1, steps + 1):
    step()
    if number % 10 == 0 and hvd.rank() == 0:
        hvd.save_checkpoint(OUT, model, optimizer, number)
if hvd.rank() == 0:
    for number in range(10, steps + 1, 10):
        saved = _core.load_checkpoint(f"{OUT}@{number}")
        state = tensors(saved.optimizer)
        updates = state["0.weight/step"]
        assert number <= updates <= 120, updates
        assert len(state) == 3 and all(value == updates for value in state.values())
        for name, value in tensors(saved.model).items():
            assert torch.equal(value, torch.full_like(value, -unit * updates)), (number, name)
hvd.barrier()
hvd.load_checkpoint(OUT, model, optimizer, 40)
loaded = model[1].bias[0].item()
step()
hvd.barrier()  # Now everybody's update is made.
if hvd.rank() == 0:
    hvd.save_checkpoint(OUT, model, optimizer, 41)
    for name, value in tensors(_core.load_checkpoint(f"{OUT}@41").model).items():
        assert torch.equal(value, torch.full_like(value, loaded - 2 * unit)), (loaded, name, value)
hvd.shutdown()
print("done")
"""


@pytest.mark.parametrize("strategy", ["ps-async", "ps-ssp"])
def test_saved_is_of_one_step_while_others_go_on(run_ranks, tmp_path, strategy):
    done = run_ranks(RACE, timeout=400, flags=("--env", f"OUT={tmp_path}/saved", "--strategy", strategy, "--ps", "2"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("done") == 2
