"""Programs for TensorFlow's servers, on Colla's: each process is started by hand."""

import json
import os
import subprocess

import numpy as np
import pytest
from conftest import RANKS

PROGRAM = RANKS / "between_graphs.py"


@pytest.fixture
def run_cluster(python, environment):
    """Runs a server and `workers` workers; what each worker has printed last."""
    ports = iter(range(20000 + os.getpid() % 20000, 65000))

    def run(workers, *flags):
        ps, *others = (f"localhost:{next(ports)}" for _ in range(workers + 1))
        lists = [f"--ps_hosts={ps}", f"--worker_hosts={','.join(others)}", *flags]
        tasks = [("ps", 0), *(("worker", i) for i in range(workers))]
        processes = [
            subprocess.Popen(
                [python, PROGRAM, *lists, f"--job_name={job}", f"--task_index={task}"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for job, task in tasks
        ]
        try:
            outputs = [process.communicate(timeout=200) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        for process, (said, errors) in zip(processes, outputs):
            assert process.returncode == 0, said[-1000:] + errors[-3000:]
        return [json.loads(said.splitlines()[-1]) for said, _ in outputs[1:]]

    return run


def by_hand(steps, workers):
    """The weights after so many synchronous steps, from worker 0's first ones."""
    w = np.zeros([3, 1], np.float32)
    for number in range(steps):
        gradients = []
        for worker in range(workers):
            inputs = np.random.RandomState(1000 * number + worker).rand(4, 3).astype(np.float32)
            wanted = inputs @ np.array([[1.0], [2.0], [3.0]], np.float32)
            gradients.append(2 * inputs.T @ (inputs @ w - wanted) / 4)
        w = w - np.float32(0.1) * np.mean(gradients, axis=0)
    return w


def test_synchronous(run_cluster, tmp_path):
    """All workers make the same steps, and the next run goes on from the chief's checkpoint."""
    for begun, last in ((0, 4), (4, 7)):
        found = run_cluster(2, "--replicas_to_aggregate=2", f"--steps={last}", f"--checkpoint_dir={tmp_path}")
        assert [one["begun"] for one in found] == [begun, begun]
        assert [one["runs"] for one in found] == [last - begun] * 2
        assert found[0]["w"] == found[1]["w"]
        np.testing.assert_allclose(found[0]["w"], by_hand(last, 2), rtol=1e-5)
    assert (tmp_path / "model.ckpt-7.index").exists()


def test_asynchronous(run_cluster):
    """Each worker's gradients are an update: workers together make the steps."""
    found = run_cluster(2, "--steps=60")
    # A worker may look at the global step before its last update is there, and makes one more.
    assert 60 <= sum(one["runs"] for one in found) <= 63
    for one in found:
        np.testing.assert_allclose(one["w"], [[1], [2], [3]], atol=1.5)


def test_backup_workers(run_cluster):
    """The slow one of three is not waited for."""
    found = run_cluster(3, "--replicas_to_aggregate=2", "--steps=20", "--slow=0.5")
    runs = [one["runs"] for one in found]
    assert runs[2] < min(runs[0], runs[1]) and max(runs) <= 21, runs


def test_what_is_wrong_is_told(python, environment):
    script = (
        "from colla.tensorflow import train\n"
        "for arguments in (({'ps': ['h:1'], 'worker': ['h:2']}, 'evaluator', 0), ({'worker': ['h:2']}, 'worker', 0),"
        " ({'ps': ['h:1'], 'worker': ['h:2']}, 'worker', 1)):\n"
        "    try:\n"
        "        train.Server(*arguments)\n"
        "    except ValueError as error:\n"
        "        print(error)\n"
        "assert train.StopAtStepHook is not None and train.ClusterSpec({'ps': ['h:1']}).num_tasks('ps') == 1\n"
    )
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "job_name is 'evaluator', but the cluster has ps, worker",
        "the cluster has no task of the job ps: variables need a server",
        "task_index is 1, but worker has 1 tasks",
    ]
