"""TFRecord files and tf.Examples: what TensorFlow writes colla._records reads, and the other way round."""

import subprocess

from conftest import RANKS


def test_records(python, environment, tmp_path):
    done = subprocess.run(
        [python, RANKS / "records.py", tmp_path], capture_output=True, text=True, timeout=200, env=environment
    )
    assert done.returncode == 0, done.stderr[-4000:]
