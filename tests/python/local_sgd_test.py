"""DistributedOptimizer with the strategy local-sgd: ranks train by themselves and average parameters."""

import subprocess

import pytest
import torch
from conftest import COLLA

SCRIPT = """
import os
import torch
import colla.torch as hvd

hvd.init()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.EmbeddingBag(50, 8, sparse=True), torch.nn.Linear(8, 3))
options = {{}}
if "{strategy}" == "local-sgd":
    options["local_sgd_options"] = hvd.LocalSgdOptions(every={every}, outer_lr={lr}, outer_momentum={momentum})
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.5),
    named_parameters=model.named_parameters(),
    strategy="{strategy}",
    **options,
)
data = torch.Generator().manual_seed(7 + hvd.rank())
states = []
for step in range(10):
    words = torch.randint(50, (4, 3), generator=data)
    labels = torch.randint(3, (4,), generator=data)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(words), labels).backward()
    optimizer.step()
    states.append({{name: value.clone() for name, value in model.state_dict().items()}})
if hasattr(optimizer, "average"):
    optimizer.average()
states.append(dict(model.state_dict()))
torch.save(states, f"{{os.environ['OUT']}}/rank{{hvd.rank()}}.pt")
hvd.shutdown()
"""

States = list[dict[str, torch.Tensor]]


@pytest.fixture
def train(run_ranks, tmp_path):
    """Each rank's parameters after each of ten steps, and after a last average."""
    runs = iter(range(100))

    def run(strategy: str, every: int = 1, lr: float = 1.0, momentum: float = 0.0) -> list[States]:
        out = tmp_path / f"out{next(runs)}"
        out.mkdir()
        script = SCRIPT.format(strategy=strategy, every=every, lr=lr, momentum=momentum)
        done = run_ranks(script, 2, flags=("--env", f"OUT={out}"))
        assert done.returncode == 0, done.stdout + done.stderr
        return [torch.load(out / f"rank{rank}.pt") for rank in range(2)]

    return run


def same_bits(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def test_averaging_every_step_is_allreduce_up_to_rounding(train):
    expected = train("allreduce")[0][-1]
    one, other = (states[-1] for states in train("local-sgd", every=1))
    assert same_bits(one, other)
    for name, value in expected.items():
        torch.testing.assert_close(one[name], value, rtol=1e-5, atol=1e-6, msg=name)


def test_ranks_agree_at_averages_alone(train):
    one, other = train("local-sgd", every=4, lr=0.7, momentum=0.9)
    equal = [same_bits(a, b) for a, b in zip(one, other)]
    # Steps 4 and 8, and the average that the script asks for.
    assert equal == [False] * 3 + [True] + [False] * 3 + [True] + [False] * 2 + [True]


def test_bad_options_are_refused(run_ranks):
    script = """
import torch
import colla.torch as hvd
for arguments in [dict(every=0), dict(outer_lr=0.0), dict(outer_momentum=1.0)]:
    try:
        hvd.LocalSgdOptions(**arguments)
        print("taken", arguments)
    except ValueError as error:
        print(error)
hvd.init()
try:
    parameter = torch.nn.Parameter(torch.zeros(1))
    hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), local_sgd_options=hvd.LocalSgdOptions())
except ValueError as error:
    print(error)
"""
    done = run_ranks(script, 1)
    assert done.returncode == 0, done.stderr
    assert "taken" not in done.stdout
    assert "every is 0, but takes 1 or more" in done.stdout
    assert "local_sgd_options are for strategy local-sgd, not allreduce" in done.stdout


RESUME = """
import io
import os
import torch
import colla.torch as hvd

hvd.init()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.EmbeddingBag(50, 8, sparse=KIND is torch.optim.SGD)
        self.out = torch.nn.Linear(8, 3)
        self.late = torch.nn.Parameter(torch.ones(3))  # Has no gradient in the first steps.

    def forward(self, words, step):
        out = self.out(self.words(words))
        return out * self.late if step >= 3 else out


def make(momentum=0.9):
    torch.manual_seed(0)
    model = Net()
    return model, hvd.DistributedOptimizer(
        KIND(model.parameters(), lr=0.1),
        named_parameters=model.named_parameters(),
        strategy="local-sgd",
        local_sgd_options=hvd.LocalSgdOptions(every=4, outer_lr=0.7, outer_momentum=momentum),
    )


def train(model, optimizer, begin, end):
    for step in range(begin, end):
        data = torch.Generator().manual_seed(100 * step + hvd.rank())
        words = torch.randint(50, (4, 3), generator=data)
        labels = torch.randint(3, (4,), generator=data)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(words, step), labels).backward()
        optimizer.step()


def equal(model, other):
    return all(torch.equal(value, other.state_dict()[name]) for name, value in model.state_dict().items())


for KIND in (torch.optim.SGD, torch.optim.Adam):
    straight, optimizer = make()
    train(straight, optimizer, 0, 12)
    other, optimizer = make(momentum=0.0)
    train(other, optimizer, 0, 12)
    assert not equal(straight, other)  # The momentum matters.

    # After an average, in the middle of a round, and twice without a step in between.
    for stops in ([4], [6], [6, 6], [4, 10]):
        model, optimizer = make()
        step = 0
        for stop in stops:
            train(model, optimizer, step, stop)
            file = io.BytesIO()
            torch.save((model.state_dict(), optimizer.state_dict()), file)
            file.seek(0)
            saved = torch.load(file)
            model, optimizer = make()
            model.load_state_dict(saved[0])
            optimizer.load_state_dict(saved[1])
            step = stop
        train(model, optimizer, step, 12)
        print("resumed", KIND.__name__, stops, equal(model, straight))

# From a checkpoint, or from rank 0's state, as Horovod's programs resume. What the wrapped optimizer keeps for
# each rank would become rank 0's: SGD without momentum keeps nothing.
KIND = torch.optim.SGD
straight, optimizer = make()
train(straight, optimizer, 0, 12)
folder = os.environ["OUT"]
model, optimizer = make()
train(model, optimizer, 0, 8)
hvd.save_checkpoint(folder, model, optimizer, 8)
kept = optimizer.state_dict()
hvd.barrier()
first, fresh = make()
hvd.load_checkpoint(folder, first, fresh)
train(first, fresh, 8, 12)
print("resumed", "checkpoint", equal(first, straight))
second, fresh = make()
second.load_state_dict(model.state_dict())
if hvd.rank() == 0:
    fresh.load_state_dict(kept)
hvd.broadcast_optimizer_state(fresh, root_rank=0)
train(second, fresh, 8, 12)
print("resumed", "broadcast", equal(second, straight))
train(model, optimizer, 8, 9)
try:
    hvd.save_checkpoint(folder, model, optimizer, 9)
except ValueError as error:
    print("refused", error)
"""


def test_a_resumed_run_equals_a_straight_one(run_ranks, tmp_path):
    done = run_ranks(RESUME, 2, flags=("--env", f"OUT={tmp_path}"))
    assert done.returncode == 0, done.stdout + done.stderr
    # On two ranks: two optimizers with four state_dicts, a checkpoint, a broadcast.
    assert done.stdout.count("resumed ") == 2 * (2 * 4 + 2) and "False" not in done.stdout, done.stdout
    assert done.stdout.count("refused ranks have different parameters between two averages") == 2
    inspected = subprocess.run([COLLA, "inspect", tmp_path], capture_output=True, text=True, check=True)
    assert "out.weight/outer_momentum" in inspected.stdout and "local-sgd" in inspected.stdout, inspected.stdout
