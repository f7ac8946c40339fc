"""`colla study --peers` with the real Spark, TensorFlow, MXNet and PyTorch. `./test --frameworks` runs this: environments
that are missing are made first, which takes minutes.
"""

import csv
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
COLLA = ROOT / "build" / "bin" / "colla"


def study(directory, *words):
    environment = os.environ | {"COLLA_PEER_PYTHON": os.environ.get("COLLA_PEER_PYTHON", sys.executable)}
    finished = subprocess.run([COLLA, "study", *map(str, words), "--out", "out"], cwd=directory, env=environment,
                              capture_output=True, text=True, timeout=2400)
    assert finished.returncode == 0, finished.stderr
    return directory / "out"


def variants_of(folder):
    report = json.loads((folder / "report.json").read_text())
    return {variant["id"]: variant for variant in report["variants"]}, report


def test_every_peer_trains_beside_colla(tmp_path):
    out = study(tmp_path, "lr", "--data", "synthetic:lr:1200x50", "--peers", "spark,tf,mxnet,ddp", "--strategies",
                "ps-sync,ps-async", "--workers", 2, "--batch", 60, "--steps", 40, "--repeat", 1, "--no-alternatives")
    variants, report = variants_of(out)
    peers = {"spark-2", "tf-2", "tf-async-2", "mxnet-2", "mxnet-async-2", "ddp-2"}
    assert peers <= set(variants)
    for name in peers:
        variant = variants[name]
        assert variant["runs_done"] == 1, (name, variant["failures"])
        assert variant["samples_per_s"]["median"] > 0
        roles = variant["runs"][0]["roles"]
        assert roles["worker"]["user_cores"] > 0 and roles["worker"]["proportional_bytes"] > 1e7
        # A server of its own, or the driver of Spark.
        assert ("ps" in roles) == name.startswith(("tf", "mxnet"))
        assert ("driver" in roles) == (name == "spark-2")
        assert variant["runs"][0]["loopback_bytes_per_s"] > 0
    assert report["advice"]["decision"] not in peers
    # From the same weights, on the same samples in the same order, the same losses.
    last = {}
    for row in csv.DictReader((out / "steps.csv").open()):
        if row["variant"] in ("tf-2", "mxnet-2", "ddp-2") and row["step"] == "40":
            last[row["variant"]] = float(row["loss"])
    assert len(last) == 3 and max(last.values()) == pytest.approx(min(last.values()), rel=1e-4)


def test_spark_reads_from_disk_again(tmp_path):
    out = study(tmp_path, "platforms", "--parts", "lr-full-batch", "--data", "synthetic:lr:1200x50", "--batch", 1200,
                "--peers", "spark", "--strategies", "allreduce", "--workers", 2, "--steps", 12, "--repeat", 1)
    variants, _ = variants_of(out / "lr-full-batch")
    assert variants["spark-2"]["runs_done"] == variants["spark-disk-2"]["runs_done"] == 1
    page = (out / "report.html").read_text()
    assert 'id="figure-suite-passes"' in page and "is read from disk again" in page
