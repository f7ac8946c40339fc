"""Whole programs, each with an application of its own."""

import os
import signal
import subprocess
import sys

from conftest import SETTINGS, await_nothing_left, started

CONTEXT = f"""
from pyspark import SparkConf, SparkContext
conf = SparkConf().setMaster("local-cluster[2,1,1024]")
for name, value in {SETTINGS!r}.items():
    conf.set(name, value)
sc = SparkContext(conf=conf)
sc.setLogLevel("FATAL")
"""

# As programs for TensorFlowOnSpark are written: imports on executors too.
UNCHANGED = """
import argparse
import os
import sys

from tensorflowonspark import TFCluster

def main_fun(args, ctx):
    from tensorflowonspark import TFNode
    import tensorflowonspark.TFNode
    feed = TFNode.DataFeed(ctx.mgr)
    total = 0
    while not feed.should_stop():
        total += sum(feed.next_batch(args.batch_size))
    with open(os.path.join(args.folder, str(ctx.task_index)), "w") as file:
        file.write(str(total))

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=10)
parser.add_argument("folder")
args = parser.parse_args()
cluster = TFCluster.run(sc, main_fun, args, 2, 0, False, TFCluster.InputMode.SPARK)
cluster.train(sc.parallelize(range(1000), 4), 3)
cluster.shutdown()
print("total", sum(int(open(os.path.join(args.folder, name)).read()) for name in os.listdir(args.folder)))
import horovod.spark
print(horovod.spark.run(lambda: os.environ["RANK"], num_proc=2))
sc.stop()
"""

FOREVER = """
import time
from colla.spark import TFCluster

def sleep(args, ctx):
    import subprocess
    subprocess.Popen(["sleep", "12345.678"], start_new_session=True)
    print("running", flush=True)
    time.sleep(1000)

cluster = TFCluster.run(sc, sleep, None, 2, input_mode=TFCluster.InputMode.SPARK)
print("started", flush=True)
time.sleep(1000)
"""


def test_a_program_for_tensorflowonspark_without_a_changed_line(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(CONTEXT + UNCHANGED)
    folder = tmp_path / "results"
    folder.mkdir()
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "COLLA_ALIASES": "horovod"}
    done = subprocess.run(
        [sys.executable, "-m", "colla.aliases", "tensorflowonspark", program, folder],
        capture_output=True,
        text=True,
        timeout=150,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"total {3 * sum(range(1000))}\n['0', '1']\n" in done.stdout


def test_nothing_is_left_when_the_driver_is_killed(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(CONTEXT + FOREVER)
    with subprocess.Popen(
        [sys.executable, program], stdout=subprocess.PIPE, text=True, env=os.environ | {"PYSPARK_PYTHON": sys.executable}
    ) as driver:
        assert driver.stdout.readline() == "started\n"
        assert len([line for line in started() if "_node" in line]) == 2
        driver.send_signal(signal.SIGKILL)
    await_nothing_left()
    seen = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "sleep 12345.678" not in seen
