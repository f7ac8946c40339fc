"""Programs for Parallax, without a changed line."""

import os
import subprocess

import numpy as np
import pytest
from conftest import RANKS


@pytest.fixture
def run_parallax(python, tmp_path):
    """Runs the program with two workers; what each has printed as its bits, and worker 0's values."""

    def run(option, sync="sync", sums="sums"):
        folder = tmp_path / f"{option}-{sync}-{sums}"
        folder.mkdir()
        (folder / "resource_info").write_text("localhost: 0,1\n")
        command = [python, "-m", "colla.aliases", "parallax", RANKS / "words.py", option, sync, sums, folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=os.environ)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        bits = [line.rpartition(" ")[2] for line in done.stdout.splitlines() if " bits " in f" {line}"]
        assert len(bits) == 2, done.stdout
        assert (folder / "ckpt" / "model.ckpt-5.index").exists() or sync == "async"
        assert (folder / "profile" / "run_metadata_2").stat().st_size > 0
        return bits, np.load(folder / "values.npz")

    return run


def test_hybrid_servers_and_collectives_agree(run_parallax):
    values = {}
    for option in ("HYBRID", "PS", "MPI"):
        bits, values[option] = run_parallax(option)
        assert bits[0] == bits[1], option
    for option in ("PS", "MPI"):
        for name in ("table", "w"):
            np.testing.assert_allclose(values[option][name], values["HYBRID"][name], rtol=1e-5)
    assert np.any(values["HYBRID"]["table"] != 1)


def test_asynchronous(run_parallax):
    run_parallax("PS", "async")


WRONG = """
import tensorflow.compat.v1 as tf
import colla.parallax as parallax
from colla.parallax._run import hosts_of
tf.disable_eager_execution()
w = tf.get_variable("w", initializer=tf.ones([2]))
def attempt(**options):
    try:
        parallax.parallel_run(tf.get_default_graph(), "resource_info", **options)
    except (ValueError, NotImplementedError) as error:
        print(error)
attempt()
train_op = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(w))
attempt(sync=False, parallax_config=parallax.Config(run_option="MPI"))
attempt(parallax_config=parallax.Config(run_option="RING"))
attempt()
print(hosts_of("two"))
with tf.Session() as session:  # Alone the graph does what it did.
    session.run(tf.global_variables_initializer())
    session.run(train_op)
    print(session.run(w)[0])
"""


def test_what_is_wrong_is_told(python, tmp_path):
    (tmp_path / "resource_info").write_text("localhost: a\n")
    (tmp_path / "two").write_text("# Two hosts.\na\n\nb: 0,1\n")
    done = subprocess.run([python, "-c", WRONG], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("the graph has no optimizer of tf.compat.v1.train")
    assert lines[1] == "sync=False is for servers, and run_option MPI has none"
    assert lines[2:] == [
        "run_option is 'RING', but takes HYBRID, MPI, PS",
        "resource_info has 'localhost: a', but takes HOST or HOST: 0,1,...",
        "{'a': 1, 'b': 2}",
        "0.9",
    ]
