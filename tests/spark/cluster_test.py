"""`colla.spark.TFCluster`: TensorFlowOnSpark's programs with real executors."""

import argparse
import json
import os
import pathlib
import signal
import time

import pytest

from colla.spark import TFCluster, TFNode, _processes
from colla.spark.TFCluster import InputMode

ROWS = 2000


def counting(folder, ctx):
    """Writes how many rows came, and their sum."""
    feed = ctx.get_data_feed()
    count = total = 0
    while not feed.should_stop():
        rows = feed.next_batch(100)
        count += len(rows)
        total += sum(label for _, label in rows)
    pathlib.Path(folder, str(ctx.worker_num)).write_text(json.dumps([count, total]))


def found(folder):
    return [json.loads((folder / name).read_text()) for name in sorted(os.listdir(folder))]


@pytest.fixture
def rows(context):
    return context.parallelize(range(ROWS), 4).map(lambda i: ([float(i)] * 10, i))


@pytest.fixture
def start(context):
    """TFCluster.run() on both executors; what a test leaves is ended."""
    clusters = []

    def run(map_fun, args=None, num_executors=2, **more):
        clusters.append(TFCluster.run(context, map_fun, args, num_executors, **more))
        return clusters[-1]

    yield run
    for cluster in clusters:
        cluster._job.stop()


def test_every_row_once_an_epoch(start, rows, tmp_path):
    cluster = start(counting, str(tmp_path), input_mode=InputMode.SPARK)
    cluster.train(rows, num_epochs=2)
    cluster.train(rows.map(lambda row: row), num_epochs=1)
    cluster.shutdown()
    counts = found(tmp_path)
    assert sum(count for count, _ in counts) == 3 * ROWS and all(count > 0 for count, _ in counts), counts
    assert sum(total for _, total in counts) == 3 * sum(range(ROWS))


def test_a_partition_of_a_lost_task_goes_on_where_it_stopped(start, context, tmp_path):
    def dies_once(i):
        from pyspark import TaskContext

        # The rows before it have been read by then: no more than 64 MB wait.
        if i == 12345 and TaskContext.get().attemptNumber() == 0:
            time.sleep(1)
            os.kill(os.getpid(), signal.SIGKILL)
        return [float(i)] * 10, i

    cluster = start(counting, str(tmp_path), input_mode=InputMode.SPARK)
    cluster.train(context.parallelize(range(20000), 4).map(dies_once), num_epochs=1)
    cluster.shutdown()
    assert sum(count for count, _ in found(tmp_path)) == 20000
    assert sum(total for _, total in found(tmp_path)) == sum(range(20000))


def test_inference(start, context):
    def double(args, ctx):
        feed = ctx.get_data_feed(train_mode=False)
        while not feed.should_stop():
            feed.batch_results([row * 2 for row in feed.next_batch(7)])

    cluster = start(double, input_mode=InputMode.SPARK)
    results = cluster.inference(context.parallelize(range(ROWS), 3))
    assert results.collect() == [2 * i for i in range(ROWS)]
    assert results.sum() == sum(range(ROWS)) * 2  # A second action feeds again.
    cluster.shutdown()


def test_a_data_frame_in_columns(start, context, tmp_path):
    from pyspark.sql import SparkSession

    def look(folder, ctx):
        feed = ctx.get_data_feed(input_mapping={"label": "y", "features": "x"})
        count, total, kinds = 0, 0.0, set()
        while not feed.should_stop():
            batch = feed.next_batch(64)
            count += len(batch["y"])
            total += float(batch["x"].sum())
            kinds.add((str(batch["x"].dtype), batch["x"].shape[1], str(batch["y"].dtype)))
        pathlib.Path(folder, str(ctx.worker_num)).write_text(json.dumps([count, total, sorted(kinds)]))

    rows = context.parallelize(range(ROWS), 4).map(lambda i: ([float(i)] * 10, i))
    frame = SparkSession(context).createDataFrame(rows, "features array<double>, label long")
    cluster = start(look, str(tmp_path), input_mode=InputMode.SPARK)
    cluster.train(frame, num_epochs=1)
    cluster.shutdown()
    assert sum(count for count, _, _ in found(tmp_path)) == ROWS
    assert sum(total for _, total, _ in found(tmp_path)) == 10.0 * sum(range(ROWS))
    assert all(kinds == [["float64", 10, "int64"]] for _, _, kinds in found(tmp_path))


def test_the_context_of_a_map_fun(start, tmp_path):
    def look(args, ctx):
        place = [ctx.worker_num, ctx.executor_id, ctx.job_name, ctx.task_index, ctx.num_workers, ctx.working_dir]
        paths = [ctx.absolute_path("x"), ctx.absolute_path("/x"), ctx.absolute_path("hdfs://a/x")]
        text = json.dumps([place, paths, ctx.cluster_spec, json.loads(os.environ["TF_CONFIG"])])
        pathlib.Path(args.folder, str(ctx.worker_num)).write_text(text)

    start(look, argparse.Namespace(folder=str(tmp_path)), master_node="chief").shutdown()
    here = os.getcwd()
    for rank, (place, paths, spec, config) in enumerate(found(tmp_path)):
        job = ["chief", "worker"][rank]
        assert place == [rank, rank, job, 0, 2, here]
        assert paths == [f"file://{here}/x", "file:///x", "hdfs://a/x"]
        assert sorted(spec) == ["chief", "worker"] and len({*spec["chief"], *spec["worker"]}) == 2
        assert config == {"cluster": spec, "task": {"type": job, "index": 0}, "environment": "cloud"}


def test_a_parameter_server(start, rows, tmp_path):
    def train(folder, ctx):
        cluster, server = ctx.start_cluster_server()
        assert sorted(cluster) == ["ps", "worker"] and server.target == ""
        if ctx.job_name == "ps":
            server.join()
            pathlib.Path(folder, "ps").touch()
            return
        import torch

        import colla.torch as hvd

        hvd.init()
        model = torch.nn.Linear(10, 1)
        torch.nn.init.zeros_(model.weight)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1e-9), strategy="ps-async")
        feed = ctx.get_data_feed()
        steps = 0
        while batch := feed.next_batch(100):
            optimizer.zero_grad()
            model(torch.tensor([features for features, _ in batch])).sum().backward()
            optimizer.step()
            steps += 1
        assert steps == ROWS / 100 and float(model.weight.detach().abs().sum()) > 0
        pathlib.Path(folder, "worker").touch()

    cluster = start(train, str(tmp_path), num_ps=1, input_mode=InputMode.SPARK)
    cluster.train(rows, num_epochs=1)
    cluster.shutdown()
    assert sorted(os.listdir(tmp_path)) == ["ps", "worker"]


def test_a_program_that_wants_no_more(start, rows):
    def three(args, ctx):
        feed = ctx.get_data_feed()
        for _ in range(3):
            feed.next_batch(10)
        feed.terminate()
        assert feed.should_stop()

    cluster = start(three, input_mode=InputMode.SPARK)
    cluster.train(rows)
    cluster.shutdown()


def test_errors_of_map_fun_reach_the_driver(start, rows):
    def bad(args, ctx):
        ctx.get_data_feed().next_batch(10)
        raise KeyError("bad row")

    cluster = start(bad, input_mode=InputMode.SPARK)
    with pytest.raises(RuntimeError, match=r"rank \d \(worker:\d\) on .* failed:\nTraceback(.*\n)*KeyError: 'bad row'"):
        cluster.train(rows, num_epochs=1)
    # Where nobody feeds, shutdown() says it.
    def late(args, ctx):
        raise ValueError("no such file")

    with pytest.raises(RuntimeError, match="ValueError: no such file"):
        start(late).shutdown()


def test_a_feed_that_nobody_reads(start, rows):
    cluster = start(lambda args, ctx: time.sleep(1000), input_mode=InputMode.SPARK)
    with pytest.raises(RuntimeError, match=r"has not read a row for 2 s \(feed_timeout\): map_fun must call next_batch"):
        cluster.train(rows, num_epochs=1, feed_timeout=2)


def test_an_executor_that_dies(start, context, rows):
    """Spark starts a new one, and the next cluster works there."""
    machines = context.parallelize(range(2), 2).barrier().mapPartitions(lambda _: [_processes.executor()]).collect()

    def kill(args, ctx):
        ctx.get_data_feed().next_batch(10)
        if ctx.worker_num == 0:
            os.kill(args, signal.SIGKILL)
        time.sleep(1000)

    cluster = start(kill, machines[0], input_mode=InputMode.SPARK)
    with pytest.raises(RuntimeError, match=r"rank \d .* was lost with its executor"):
        cluster.train(rows, num_epochs=1)
    start(lambda args, ctx: None).shutdown()


def test_a_cluster_that_does_not_end_is_ended(start):
    cluster = start(lambda args, ctx: time.sleep(1000))
    with pytest.raises(TimeoutError, match="rank 0 .*rank 1 .* did not return within 1 s"):
        cluster.shutdown(timeout=1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"num_ps": 2}, "2 executors with num_ps=2 leave no worker"),
        ({"num_executors": 3}, "3 processes need 3 slots, but the executors of .* have 2"),
        ({"num_executors": 0}, "a cluster of 0 executors"),
        ({"input_mode": 7}, "input_mode is 7"),
        ({"eval_node": True, "input_mode": InputMode.SPARK}, "eval_node is for InputMode.TENSORFLOW"),
        ({"master_node": "boss"}, "must be 'chief' or 'master'"),
        ({"sc": "local"}, "sc must be a SparkContext, such as SparkSession's sparkContext, not str"),
        ({"map_fun": 1}, "map_fun must be a function"),
    ],
)
def test_what_cannot_be_is_said_before_anything_waits(context, arguments, says):
    begin = time.monotonic()
    with pytest.raises((ValueError, TypeError), match=says) as caught:
        TFCluster.run(**{"sc": context, "map_fun": counting, "tf_args": None, "num_executors": 2} | arguments)
    assert "\n" not in str(caught.value) and time.monotonic() - begin < 5


def test_what_cannot_be_fed(start, rows):
    cluster = start(lambda args, ctx: None)
    with pytest.raises(ValueError, match="start it with input_mode=InputMode.SPARK"):
        cluster.train(rows)
    cluster.shutdown()
    cluster = start(lambda args, ctx: None, input_mode=InputMode.SPARK)
    for wrong, says in ((([1, 2],), "only an RDD, a DataFrame or a DStream can be fed, not list"),):
        with pytest.raises(TypeError, match=says):
            cluster.train(*wrong)
    with pytest.raises(ValueError, match="there is no queue 'other': the cluster has input, output, error"):
        cluster.train(rows, qname="other")
    with pytest.raises(ValueError, match="num_epochs is -1"):
        cluster.train(rows, num_epochs=-1)
    cluster.shutdown()
    with pytest.raises(ValueError, match="was shut down"):
        cluster.train(rows)


def test_next_batch_of_nothing(start):
    assert TFNode.DataFeed(None).should_stop() is False
    with pytest.raises(ValueError, match="a batch of 0 rows"):
        TFNode.DataFeed(None).next_batch(0)
