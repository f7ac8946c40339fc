"""What Prometheus reads of a training: of `colla train`, and of programs with an optimizer of their own loop."""

import contextlib
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import pytest
from conftest import COLLA
from prometheus_client.parser import text_string_to_metric_families

Values = dict[tuple[str, ...], float]


def scrape(url: str) -> Values:
    """Values by name, rank and phase, of workers' counters, and of allreduces."""
    page = urllib.request.urlopen(url, timeout=10).read().decode()
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    return {
        (sample.name, sample.labels["rank"], sample.labels.get("phase", "")): sample.value
        for sample in samples
        if sample.labels.get("operation", "allreduce") == "allreduce" and sample.labels["role"] == "worker"
    }


@contextlib.contextmanager
def scraped(arguments: list[str], steps: int) -> Iterator[Values]:
    """What a job of two workers has counted when each has made that many steps."""
    job = subprocess.Popen([COLLA, *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        assert job.stderr is not None
        url = None
        while url is None:
            line = job.stderr.readline()
            assert line, "the job ended before it said where its metrics are"
            found = re.search(r"metrics at (http://\S+)", line)
            url = found.group(1) if found else None
        deadline = time.monotonic() + 60
        values = scrape(url)
        while min(values.get(("colla_steps_total", rank, ""), 0) for rank in "01") < steps:
            assert time.monotonic() < deadline, values
            values = scrape(url)
        yield values
    finally:
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=60)
    assert job.returncode == 130


def exchanged(values: Values, rank: str, unit: str = "bytes") -> dict[str, float]:
    """By phase, for each step."""
    steps = values["colla_steps_total", rank, ""]
    name = f"colla_exchange_{unit}_total"
    return {phase: values.get((name, rank, phase), 0) / steps for phase in ("hidden", "exposed")}


def test_a_step_of_a_small_model_is_one_allreduce():
    flags = "--data synthetic:mnist:6000 --np 2 --threads 1 --epochs 100000 --no-eval --quiet --metrics-port 0"
    with scraped(["train", "softmax", *flags.split()], 200) as values:
        for rank in "01":
            steps = values["colla_steps_total", rank, ""]
            assert values["colla_samples_total", rank, ""] == steps * 50
            # Gradients, loss and metrics travel together; a step may be under way while it is read.
            assert steps <= values["colla_collective_seconds_count", rank, ""] <= steps + 2
            # 7,850 parameters of 4 bytes, and a few numbers and flags.
            each = exchanged(values, rank)
            assert 7850 * 4 <= each["exposed"] <= 7850 * 4 * 1.05
            assert each["hidden"] == 0


def test_gradients_that_leave_for_servers_during_backward_are_hidden():
    flags = "--data synthetic:mnist:6000 --np 2 --threads 1 --epochs 100000 --no-eval --quiet --metrics-port 0"
    with scraped(["train", "mlp", "--strategy", "ps-sync", *flags.split()], 100) as values:
        for rank in "01":
            each = exchanged(values, rank)
            # Layers of 784 x 100, 100 x 100 and 100 x 10 with biases; a step may be under way.
            size = (785 * 100 + 101 * 100 + 101 * 10) * 4
            assert size <= each["hidden"] + each["exposed"] <= size * 1.03
            assert each["hidden"] > 0.9 * size
            seconds = exchanged(values, rank, "seconds")
            assert seconds["hidden"] > 0
            assert seconds["exposed"] > 0


@pytest.mark.parametrize("strategy", ["allreduce", "hybrid", "local-sgd --every 1"])
def test_rows_of_tables_count(strategy: str):
    # No rows travel where tables are trained as whole ones, so the difference is that of the rows.
    flags = (
        f"--data synthetic:text:3000x400 --embedding 16 --units 24 --projection 12 --candidates 50 --np 2 --threads 1"
        f" --batch 8 --steps 1000000 --no-eval --quiet --metrics-port 0 --strategy {strategy}"
    )
    totals = {}
    for more in ([], ["--sparse-as-dense"]):
        with scraped(["train", "lm", *flags.split(), *more], 30) as values:
            totals[len(more)] = [sum(exchanged(values, rank).values()) for rank in "01"]
    rows_of_16 = 8 + 16 * 4
    for rows, whole in zip(totals[0], totals[1]):
        # Words of a batch and their candidates have rows; 400 words have two whole tables.
        assert rows_of_16 * 50 < rows
        assert rows < whole


SCRIPT = """
import sys
import torch
import colla.torch as hvd

hvd.init()
model = torch.nn.Sequential(torch.nn.EmbeddingBag(1000, 8, sparse=True), torch.nn.Linear(8, 3))
options = {"local_sgd_options": hvd.LocalSgdOptions(every=1)} if sys.argv[1] == "local-sgd" else {}
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters(), strategy=sys.argv[1], **options
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
while True:
    words = torch.tensor([[1, 2], [3, 4]]) + 4 * hvd.rank()
    optimizer.zero_grad()
    model(words).square().sum().backward()
    optimizer.count_samples(len(words))
    optimizer.step()
"""


@pytest.mark.parametrize("strategy", ["allreduce", "ps-sync", "hybrid", "local-sgd"])
def test_optimizers_count_what_they_exchange(tmp_path, strategy: str):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    servers = ["--ps", "1"] if strategy in ("ps-sync", "hybrid") else []
    job = ["run", "-np", "2", *servers, "--metrics-port", "0", "--", sys.executable, str(script), strategy]
    with scraped(job, 50) as values:
        for rank in "01":
            steps = values["colla_steps_total", rank, ""]
            assert 2 * steps <= values["colla_samples_total", rank, ""] <= 2 * (steps + 1)
            # Four rows and their numbers, and 27 parameters; a step may be under way.
            least = 4 * (8 + 8 * 4) + 27 * 4
            total = sum(exchanged(values, rank).values())
            assert least * (steps - 1) / steps <= total <= least * 1.5 + 64
            assert sum(exchanged(values, rank, "seconds").values()) > 0
