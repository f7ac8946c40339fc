"""``python -m colla.bench`` as users call it. Checks what comes out, never how fast."""

import json
import subprocess
import sys


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "colla.bench", *arguments], capture_output=True, text=True, timeout=280
    )


def test_measures_both_backends(tmp_path):
    done = bench("--parts", "all_reduce,mlp", "--rounds", "1", "--json", str(tmp_path / "out.json"))
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "out.json").read_text())
    assert {row["system"] for row in rows if row["workload"] == "mlp"} == {"gloo", "colla", "none"}
    sizes = {row["bytes"] for row in rows if row["workload"] == "all_reduce"}
    assert sizes == {1 << 10, 4 << 20, 32 << 20, 100 << 20}
    assert all(row["seconds"] > 0 and row["np"] == 2 for row in rows)
    assert "all_reduce 32 MiB" in done.stdout and "mlp batch 100" in done.stdout


def test_wrong_arguments_are_told():
    done = bench("--parts", "some")
    assert done.returncode == 2
    assert "there is no part some: choose from all_reduce, mlp" in done.stderr
