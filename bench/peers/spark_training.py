"""Logistic regression with the gradient descent of Spark MLlib, for peer_training.py.

A driver and executors in processes of their own (local-cluster). Every executor reads its share of the
samples once, and they stay in memory; as spark-disk, every iteration reads them from disk again. An
iteration is a job of Spark's; its own page says how long each took.
"""

import json
import os
import pathlib
import sys
import time
import urllib.request
from datetime import datetime

import numpy as np

# A job is listed some time after it is over.
SECONDS_TO_LIST = 20


def session_of(wanted, gigabytes, scratch):
    from pyspark.sql import SparkSession

    # A session of the same name in the user's environment is none of this training's.
    for variable in [name for name in os.environ if name.startswith(("SPARK_", "PYSPARK_"))]:
        del os.environ[variable]
    os.environ["COLLA_ROLE"] = "driver"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    memory = max(1024, round(1024 * gigabytes))
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": f"{memory}m",
        "spark.executorEnv.COLLA_ROLE": "worker",
        "spark.executorEnv.COLLA_RANK": "0",
        "spark.local.dir": scratch,
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.ui.retainedJobs": "100000",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
    }
    builder = SparkSession.builder.appName("colla-study")
    builder = builder.master(f"local-cluster[{wanted.workers},{wanted.threads},{memory}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def read_share(path, rows, columns, workers, forget):
    """What an executor does: its share of the samples, as MLlib has them. `forget`: really from disk."""

    def read(ranks):
        from pyspark.mllib.linalg import Vectors
        from pyspark.mllib.regression import LabeledPoint

        if forget:
            with open(path + ".x", "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        inputs = np.memmap(path + ".x", np.float32, "r", shape=(rows, columns))
        targets = np.memmap(path + ".y", np.int64, "r", shape=(rows,))
        for rank in ranks:
            for row in range(rows * rank // workers, rows * (rank + 1) // workers):
                yield LabeledPoint(float(targets[row]), Vectors.dense(inputs[row].astype(np.float64)))

    return read


def iterations_of(context, since):
    """Beginning and end of each iteration, in seconds since the epoch: MLlib aggregates once in each."""
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/jobs?status=succeeded"
    with urllib.request.urlopen(address, timeout=20) as page:
        jobs = json.load(page)

    def seconds(text):
        return (datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fGMT") - datetime(1970, 1, 1)).total_seconds()

    times = []
    for job in jobs:
        if job["name"].startswith("treeAggregate") and "completionTime" in job:
            begin, end = (seconds(job[name]) for name in ("submissionTime", "completionTime"))
            if begin >= since - 0.001:
                times.append((begin, end))
    return sorted(times)


def run_uncached(context, samples, wanted, fraction):
    """What MLlib's Python does, without the cache that it puts between."""
    from pyspark.mllib.common import _to_java_object_rdd

    java = context._jvm.org.apache.spark.mllib.classification
    trained = java.LogisticRegressionWithSGD(wanted.rate, wanted.steps, 0.0, fraction)
    trained.optimizer().setConvergenceTol(0.0)
    trained.run(_to_java_object_rdd(samples).rdd())


def train(wanted, data, record_of, scratch):
    if wanted.model != "lr":
        raise OSError(f"spark trains lr, and not {wanted.model}")
    session = session_of(wanted, 0.8 + 4 * data.samples * data.inputs * 8 / wanted.workers / 1e9, scratch)
    context = session.sparkContext
    try:
        from pyspark.mllib.classification import LogisticRegressionWithSGD

        path = str(pathlib.Path(data.path).absolute())
        ranks = context.parallelize(range(wanted.workers), wanted.workers)
        from_disk = wanted.peer == "spark-disk"
        samples = ranks.mapPartitions(read_share(path, data.samples, data.inputs, wanted.workers, from_disk))
        if not from_disk:
            samples.cache().count()  # Everything is read.
        record = record_of(wanted.out, data.batch)
        began = time.time()
        # A step has each sample with this probability: as many as a batch on average.
        fraction = min(1.0, data.batch / data.samples)
        if from_disk:
            run_uncached(context, samples, wanted, fraction)
        else:
            LogisticRegressionWithSGD.train(samples, iterations=wanted.steps, step=wanted.rate,
                                            miniBatchFraction=fraction, convergenceTol=0.0, regParam=0.0)
        deadline = time.monotonic() + SECONDS_TO_LIST
        times = iterations_of(context, began)
        while len(times) < wanted.steps and time.monotonic() < deadline:
            time.sleep(0.2)
            times = iterations_of(context, began)
        times = times[-wanted.steps:]
        if len(times) < 2:
            raise OSError(f"Spark lists {len(times)} iterations of {wanted.steps}")
        for begin, end in times:
            record.add(1, begin - times[0][0], end - times[0][0], None)
        record.finish(times[-1][1] - times[0][0])
    finally:
        session.stop()
