"""DistributedOptimizer with the strategy local-sgd: ranks train by themselves and average parameters."""

import pytest
import torch

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
