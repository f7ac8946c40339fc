"""What the tests of colla.spark share: one application, on a local cluster of two executors with a slot each.

The tests run in the driver of that application: in a Python that has PySpark, which ./test makes once.
"""

import os
import shutil
import subprocess
import sys
import time

import pytest

# The output of Spark's log is of no use here; warnings of executors that a test kills are.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "1s",
    "spark.executorEnv.OMP_NUM_THREADS": "1",
}


@pytest.fixture(scope="session")
def context():
    if shutil.which("java") is None:
        pytest.skip("no Java here")
    from pyspark import SparkConf, SparkContext

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Executors find the functions of the tests in the tests' modules.
    os.environ["PYTHONPATH"] = os.pathsep.join([os.environ["PYTHONPATH"], os.path.dirname(__file__)])
    conf = SparkConf().setMaster("local-cluster[2,1,1024]").setAppName("tests of colla.spark")
    for name, value in SETTINGS.items():
        conf.set(name, value)
    made = SparkContext.getOrCreate(conf)
    made.setLogLevel("FATAL")
    yield made
    made.stop()


def started():
    """Processes of colla.spark on this machine."""
    lines = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if "-m colla.spark._" in line]


def await_nothing_left():
    """They may need a moment to end."""
    limit = time.monotonic() + 20
    while started() and time.monotonic() < limit:
        time.sleep(0.1)
    assert started() == []


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    await_nothing_left()
