"""What Prometheus reads of a training that `colla train` runs."""

import re
import signal
import subprocess
import time
import urllib.request

from conftest import COLLA
from prometheus_client.parser import text_string_to_metric_families


def scrape(url: str) -> dict[tuple[str, str], float]:
    """Values by name and rank, of counters that each rank has once, and of allreduces."""
    page = urllib.request.urlopen(url, timeout=10).read().decode()
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    wanted = {"operation": "allreduce", "phase": "exposed"}
    return {
        (sample.name, sample.labels["rank"]): sample.value
        for sample in samples
        if all(sample.labels.get(label, value) == value for label, value in wanted.items())
    }


def test_a_step_of_a_small_model_is_one_allreduce():
    flags = "--data synthetic:mnist:6000 --np 2 --threads 1 --epochs 100000 --no-eval --quiet --metrics-port 0"
    training = subprocess.Popen([COLLA, "train", "softmax", *flags.split()], stderr=subprocess.PIPE, text=True)
    try:
        assert training.stderr is not None
        url = None
        while url is None:
            line = training.stderr.readline()
            assert line, "the training ended before it said where its metrics are"
            found = re.search(r"metrics at (http://\S+)", line)
            url = found.group(1) if found else None
        deadline = time.monotonic() + 60
        values = scrape(url)
        while min(values.get(("colla_steps_total", rank), 0) for rank in "01") < 200:
            assert time.monotonic() < deadline, values
            values = scrape(url)
        for rank in "01":
            steps = values["colla_steps_total", rank]
            assert values["colla_samples_total", rank] == steps * 50
            # Gradients, loss and metrics travel together; a step may be under way while it is read.
            assert steps <= values["colla_collective_seconds_count", rank] <= steps + 2
            # 7,850 parameters of 4 bytes, and a few numbers and flags.
            each = values["colla_exchange_bytes_total", rank] / steps
            assert 7850 * 4 <= each <= 7850 * 4 * 1.05
    finally:
        training.send_signal(signal.SIGINT)
        training.communicate(timeout=60)
    assert training.returncode == 130
