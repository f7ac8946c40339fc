"""DistributedOptimizer on parameter servers: an unchanged script under every strategy."""

import pytest
import torch

# What a user of Horovod writes; where it stores its result is told by the environment.
SCRIPT = """
import os
import torch
import colla.torch as hvd

hvd.init()
torch.manual_seed(hvd.rank())  # Ranks begin differently: servers and broadcast make them agree.
model = torch.nn.Sequential(torch.nn.EmbeddingBag(50, 8, sparse=True), torch.nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5)
data = torch.Generator().manual_seed(7 + hvd.rank())
for step in range(12):
    # Some ranks do not touch some rows, and later look them up.
    words = torch.randint(50, (4, 3), generator=data)
    labels = torch.randint(3, (4,), generator=data)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(words), labels)
    loss.backward()
    optimizer.step()
    schedule.step()
if hasattr(optimizer, "pull"):
    optimizer.pull()
torch.save(model.state_dict(), f"{os.environ['OUT']}/rank{hvd.rank()}.pt")
hvd.shutdown()
print("done", hvd.is_initialized())
"""


@pytest.fixture
def train(run_ranks, tmp_path):
    """The parameters that each rank ends with under some flags of ``colla run``."""

    def run(*flags: str, np: int = 2) -> list[dict[str, torch.Tensor]]:
        out = tmp_path / "-".join(["out", *flags])
        out.mkdir()
        done = run_ranks(SCRIPT, np, flags=("--env", f"OUT={out}", *flags))
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("done False") == np
        return [torch.load(out / f"rank{rank}.pt") for rank in range(np)]

    return run


def same_bits(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def test_every_strategy_that_waits_for_all_gives_the_same(train):
    expected, other = train()
    assert same_bits(expected, other)
    sync = train("--strategy", "ps-sync")
    hybrid = train("--strategy", "hybrid", "--ps", "2")
    ssp = train("--strategy", "ps-ssp")
    for ranks in (sync, hybrid, ssp):
        assert same_bits(ranks[0], ranks[1])
        for name, value in expected.items():
            # torch's kernels and the servers' round differently.
            torch.testing.assert_close(ranks[0][name], value, rtol=1e-5, atol=1e-6, msg=name)
    assert same_bits(sync[0], ssp[0])


def test_async_trains(train):
    ranks = train("--strategy", "ps-async")
    reference, _ = train()
    for name, value in reference.items():
        # The same gradients in another order: near, and not at all where training began.
        assert (ranks[0][name] - value).abs().max() < 0.5, name


def test_servers_that_are_not_there_are_asked_for(run_ranks):
    done = run_ranks(SCRIPT, flags=("--env", "OUT=.", "--env", "COLLA_STRATEGY=ps-sync"))
    assert done.returncode != 0
    assert "needs parameter servers: start the job with colla run --ps 1" in done.stderr


def test_unknown_optimizers_are_refused(run_ranks):
    script = SCRIPT.replace("torch.optim.SGD(", "torch.optim.Rprop(")
    done = run_ranks(script, flags=("--env", "OUT=.", "--strategy", "ps-sync"))
    assert done.returncode != 0
    assert "servers can't run Rprop" in done.stderr
