"""Checkpoints across languages: what `colla train` wrote, in a torch module and its optimizer."""

import subprocess

import pytest
import torch
from conftest import COLLA

import colla.torch as hvd


class Mlp(torch.nn.Module):
    """`colla train mlp`, as a PyTorch user would write it."""

    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(784, 100)
        self.fc2 = torch.nn.Linear(100, 100)
        self.fc3 = torch.nn.Linear(100, 10)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x.flatten(1))))))


OPTIMIZERS = {
    "sgd": (["--momentum", "0.9"], lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9)),
    "adagrad": ([], lambda params: torch.optim.Adagrad(params, lr=0.1)),
    "rmsprop": ([], lambda params: torch.optim.RMSprop(params, lr=0.001)),
    "adam": ([], lambda params: torch.optim.Adam(params, lr=0.001)),
    "adamw": ([], lambda params: torch.optim.AdamW(params, lr=0.001)),
}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def trained(tmp_path):
    """The directory of a run of six steps, an epoch and a half."""

    def train(optimizer: str):
        flags, _ = OPTIMIZERS[optimizer]
        directory = tmp_path / "cpp"
        run(
            *(COLLA, "train", "mlp", "--data", "synthetic:mnist:400", "--steps", "6", "--save-every", "3"),
            *("--optimizer", optimizer, *flags, "--checkpoint-dir", directory),
        )
        return directory

    return train


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_python_goes_on_where_cpp_was(trained, tmp_path, optimizer):
    directory = trained(optimizer)
    for step in (3, 6):
        model = Mlp()
        mine = OPTIMIZERS[optimizer][1](model.parameters())
        info = hvd.load_checkpoint(directory, model, mine, step)
        assert (info.step, info.extra) == (step, {})
        # All of it is there: written again, it is the same.
        hvd.save_checkpoint(tmp_path / "python", model, mine, step, epoch=info.epoch, samples=info.samples)
        assert "equal" in run(COLLA, "compare", f"{directory}@{step}", f"{tmp_path}/python@{step}")

    # It is a state as torch would have it: the next step takes it on, and counts on.
    before = {name: param.detach().clone() for name, param in model.named_parameters()}
    torch.nn.functional.cross_entropy(model(torch.randn(20, 1, 28, 28)), torch.randint(10, (20,))).backward()
    mine.step()
    for name, param in model.named_parameters():
        assert param.isfinite().all() and not torch.equal(param, before[name])
        assert mine.state[param].get("step", 7) == 7


def test_averages_count_as_old_as_they_are(trained):
    directory = trained("adam")
    model = Mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    hvd.load_checkpoint(directory, model, optimizer)
    bias = model.fc3.bias
    before = bias.detach().double()
    average, square = (optimizer.state[bias][slot].double() for slot in ("exp_avg", "exp_avg_sq"))
    model.fc3.bias.grad = torch.linspace(-1, 1, 10)
    optimizer.step()
    gradient = bias.grad.double()
    average = (0.9 * average + 0.1 * gradient) / (1 - 0.9**7)
    square = (0.999 * square + 0.001 * gradient**2) / (1 - 0.999**7)
    expected = before - 0.001 * average / (square.sqrt() + 1e-8)
    torch.testing.assert_close(bias.detach().double(), expected, rtol=0, atol=1e-6)


def test_all_ranks_get_it(run_ranks, trained, tmp_path):
    script = f"""
import torch
import colla.torch as hvd

class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = torch.nn.Linear(784, 100), torch.nn.Linear(100, 100), torch.nn.Linear(100, 10)

hvd.init()
torch.manual_seed(hvd.rank())
model = Mlp()
optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters()), model.named_parameters())
assert hvd.load_checkpoint({str(trained("adam"))!r}, model, optimizer).step == 6
sums = [value.sum() for value in model.parameters()]
sums += [value.sum() for param in model.parameters() for _, value in sorted(optimizer.state[param].items())]
everybody = hvd.allgather(torch.stack(sums)[None])
assert len(sums) == 6 + 18
assert torch.equal(everybody[0], everybody[1])
hvd.save_checkpoint({str(tmp_path / "python")!r}, model, optimizer, 6)
print("done")
"""
    done = run_ranks(script)
    assert done.returncode == 0 and done.stdout.count("done") == 2, done.stdout + done.stderr
    run(COLLA, "compare", tmp_path / "cpp", tmp_path / "python")


def test_another_model_is_refused(trained):
    directory = trained("adam")
    model = torch.nn.Sequential(torch.nn.Linear(784, 10))
    with pytest.raises(RuntimeError, match="fc1.*which the optimizer does not have"):
        hvd.load_checkpoint(directory, model, torch.optim.Adam(model.parameters()))
    with pytest.raises(RuntimeError, match="Missing key"):
        hvd.load_checkpoint(directory, model)
