"""``python -m colla.tensorflow.bench`` as users call it. Checks what comes out, never how fast."""

import json
import subprocess


def bench(python, *arguments):
    return subprocess.run(
        [python, "-m", "colla.tensorflow.bench", *arguments], capture_output=True, text=True, timeout=280
    )


def test_measures_three_systems(python, tmp_path):
    done = bench(python, "--parts", "mlp", "--rounds", "1", "--json", str(tmp_path / "out.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "out.json").read_text())
    assert {row["system"] for row in rows} == {"distribute", "colla", "alone"}
    assert all(row["seconds"] > 0 and row["np"] == 2 for row in rows)
    assert "mlp batch 100" in done.stdout


def test_wrong_arguments_are_told(python):
    done = bench(python, "--parts", "some")
    assert done.returncode == 2
    assert "there is no part some: choose from allreduce, mlp" in done.stderr
