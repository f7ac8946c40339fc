"""`colla.spark.run()`: a function as the workers of a job, on executors."""

import os
import pathlib
import signal
import time

import pytest

import colla.spark
from colla.spark import TFParallel


def test_results_by_rank_of_a_job(context):
    def train(rate, factor=1):
        import torch

        import colla.torch as hvd

        hvd.init()
        total = hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), op=hvd.Sum)
        return hvd.rank(), hvd.size(), float(total) * rate * factor

    assert colla.spark.run(train, (0.5,), {"factor": 4}, num_proc=2) == [(0, 2, 6.0), (1, 2, 6.0)]


def test_torch_distributed(context):
    def train():
        import torch
        import torch.distributed as dist

        dist.init_process_group("colla")
        value = torch.ones(1)
        dist.all_reduce(value)
        dist.destroy_process_group()
        return float(value), os.environ["LOCAL_RANK"]

    assert colla.spark.run(train) == [(2.0, "0"), (2.0, "1")]  # On all slots.


def test_a_traceback_reaches_the_driver_and_the_others_end(context):
    def train():
        if os.environ["RANK"] == "1":
            print("what it was about")
            raise KeyError("no such thing")
        time.sleep(1000)

    begin = time.monotonic()
    with pytest.raises(RuntimeError) as caught:
        colla.spark.run(train, num_proc=2)
    text = str(caught.value)
    assert text.startswith("rank 1 (worker:1) on ") and " failed:\nTraceback" in text, text
    assert "KeyError: 'no such thing'" in text and text.endswith("Its last lines:\n  what it was about"), text
    assert "_node.py" not in text
    assert time.monotonic() - begin < 60  # Not 1000: nobody waits for what the others do.


def test_a_process_that_is_killed(context):
    def train():
        if os.environ["RANK"] == "0":
            print("about to die", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(1000)

    with pytest.raises(RuntimeError, match=r"rank 0 .* was killed by signal 9\nIts last lines:\n  about to die"):
        colla.spark.run(train, num_proc=2)


def test_what_a_process_has_started_ends_with_it(context):
    def train():
        import subprocess

        return subprocess.Popen(["sleep", "1000"], start_new_session=True).pid

    for process in colla.spark.run(train, num_proc=2):
        assert not os.path.exists(f"/proc/{process}")


def test_no_secret_is_where_others_can_read_it(context):
    def look():
        words = [open(f"/proc/{process}/{file}", "rb").read() for process in ("self", os.getppid()) for file in ("environ", "cmdline")]
        return b"\0".join(words)

    from colla.spark import _job

    secrets = []
    urandom = os.urandom

    class Spy(_job.Job):
        def _run_stage(self):
            secrets.append(self.secret)
            super()._run_stage()

    _job.Job, plain = Spy, _job.Job
    try:
        seen = colla.spark.run(look, num_proc=2)
    finally:
        _job.Job = plain
    assert len(secrets) == 1 and urandom is os.urandom
    for words in seen:
        assert b"colla.spark._node" in words
        assert secrets[0] not in words and secrets[0].hex().encode() not in words


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"num_proc": 3}, r"3 processes need 3 slots, but the executors of local-cluster\[2,1,1024\] have 2"),
        ({"num_proc": 0}, "num_proc is 0"),
        ({"fn": 3}, "fn must be a function, not int"),
        ({"nothing": 1}, "takes no option 'nothing'"),
    ],
)
def test_what_cannot_be_is_said_before_anything_waits(context, arguments, says):
    begin = time.monotonic()
    with pytest.raises((ValueError, TypeError), match=says) as caught:
        colla.spark.run(**{"fn": print} | arguments)
    assert "\n" not in str(caught.value) and time.monotonic() - begin < 5


COLLA = pathlib.Path(colla.__file__).parent / "bin" / "colla"
TRAIN = ["train", "snn", "--data", "synthetic:mnist", "--steps", "20", "--batch", "32"]


def test_a_program_in_cplusplus(context, tmp_path):
    colla.spark.run_program(context, COLLA, [*TRAIN, "--strategy", "allreduce", "--checkpoint-dir", str(tmp_path / "model")], 2)
    assert any((tmp_path / "model").iterdir())


def test_a_program_with_a_parameter_server(context, tmp_path):
    arguments = [*TRAIN, "--strategy", "ps-sync", "--checkpoint-dir", str(tmp_path / "model")]
    colla.spark.run_program(context, COLLA, arguments, num_executors=2, num_ps=1)
    assert any((tmp_path / "model").iterdir())


def test_a_program_that_fails(context):
    with pytest.raises(RuntimeError, match=r"rank \d .* ended with exit code 2\nIts last lines:\n  .*no-such-model"):
        colla.spark.run_program(context, COLLA, ["train", "no-such-model"], 2)
    with pytest.raises(RuntimeError, match="there is no program /no/such/program on"):
        colla.spark.run_program(context, "/no/such/program", num_executors=2)
    with pytest.raises(ValueError, match="2 executors with num_ps=2 leave no worker"):
        colla.spark.run_program(context, COLLA, num_executors=2, num_ps=2)


def test_independent_processes(context, tmp_path):
    def work(folder, ctx):
        assert "COLLA_JOB_NAME" not in os.environ and "RANK" not in os.environ
        pathlib.Path(folder, str(ctx.worker_num)).write_text(f"of {ctx.num_workers}")

    TFParallel.run(context, work, str(tmp_path), 2)
    assert [(tmp_path / str(number)).read_text() for number in range(2)] == ["of 2", "of 2"]
    with pytest.raises(RuntimeError, match="NameError: name 'nothing' is not defined"):
        TFParallel.run(context, lambda args, ctx: nothing, None, 2)  # noqa: F821
