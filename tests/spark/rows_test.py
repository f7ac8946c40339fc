"""Rows as batches of Arrow: what comes out is what went in."""

import socket
import threading
import time

import numpy as np
import pytest
from pyspark.sql import Row

from colla.spark import _feeding, _rows, _trainer


def through(rows):
    batch = _rows.Batch(_feeding.open_shared(_feeding.share(_rows.encode(rows))[0]))
    assert len(batch) == len(rows)
    return batch.rows(0, len(batch))


@pytest.mark.parametrize(
    "rows",
    [
        [([1.0, 2.5], 3.0)] * 5,
        [([1, 2], 3), ([4, 5], 6)],
        [[1, 2, 3], [4]],
        [[[1.0], [2.0]]],
        [[1.0, "x"], [2.0, "y"]],
        [1, 2, 3],
        ["a", "ü"],
        [b"ab", b""],
        [(True, "ü", b"x", 2)],
        [1, 2.0],
        [2**70],
        [{"a": 1}],
        [(1, None), (2, 3)],
        [(1,), (1, 2)],
        [()],
        [Row(image=[1.0], label=1), Row(image=[2.0], label=2)],
        [None],
    ],
    ids=str,
)
def test_what_comes_out_is_what_went_in(rows):
    got = through(rows)
    assert got == rows
    assert repr(got) == repr(rows)  # 1 == 1.0 == True.


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.ones((4,), "f4"), np.zeros((0, 2)), np.array(3)])
def test_arrays(array):
    for got, label in through([(array, np.int64(7))] * 3):
        assert got.dtype == array.dtype and got.shape == array.shape and np.array_equal(got, array)
        assert type(label) is np.int64 and label == 7
        got += 1  # They are the reader's own.


def test_the_numbers_of_a_list_become_of_one_type():
    assert through([[1, 2.5], [3, 4]]) == [[1.0, 2.5], [3.0, 4.0]]


@pytest.fixture
def trainer():
    """One end of a feed, and the name by which feeders reach it."""
    name = f"colla-test-{id(object())}-{threading.get_ident()}"
    ours, theirs = socket.socketpair()
    made = _trainer.Trainer(_feeding.listen(name), ours)
    made.name = name
    made.control = theirs
    yield made
    made.close()
    theirs.close()


def feeder(trainer, partition, **more):
    greeting = {"feed": "f", "partition": partition, "queue": "input", "answers": False} | more
    return _feeding.Feeder(_feeding.reach(trainer.name), 20, greeting)


def test_memory_stays_below_its_limit(trainer):
    rows = [([0.5] * 784, 1.0)] * 15000  # 94 MB.
    fed = feeder(trainer, 0)
    thread = threading.Thread(target=fed.feed, args=(_feeding.in_batches(rows, _rows.encode),))
    thread.start()
    limit = time.monotonic() + 20
    while fed.most_in_flight < _feeding.MEMORY // 2 and time.monotonic() < limit:
        time.sleep(0.01)  # Nobody reads yet.
    seen = 0

    def give(batch, begin, end):
        nonlocal seen
        assert batch.rows(begin, end) == rows[: end - begin]
        seen += end - begin

    while seen < len(rows):
        trainer.take("input", 100, False, give)
    thread.join(20)
    assert not thread.is_alive()
    # The rows have 94 MB: without backpressure all of them would have been under way.
    assert _feeding.MEMORY // 2 < fed.most_in_flight <= _feeding.MEMORY


def test_batches_of_answers_never_mix_partitions(trainer):
    got = {}

    def feed(partition):
        rows = [partition * 1000 + i for i in range(105)]
        answers = feeder(trainer, partition, answers=True).answers(_feeding.in_batches(rows, _rows.encode))
        batches = [_rows.Batch(batch) for batch in answers]
        got[partition] = [row for batch in batches for row in batch.rows(0, len(batch))]

    threads = [threading.Thread(target=feed, args=(partition,)) for partition in range(3)]
    for thread in threads:
        thread.start()
    total = 0
    while total < 315:
        rows = []
        trainer.take("input", 50, True, lambda batch, begin, end: rows.extend(batch.rows(begin, end)))
        assert len({row // 1000 for row in rows}) <= 1
        trainer.answer([-row for row in rows])
        total += len(rows)
    for thread in threads:
        thread.join(20)
    assert got == {partition: [-(partition * 1000 + i) for i in range(105)] for partition in range(3)}


def test_results_without_rows_are_refused(trainer):
    with pytest.raises(ValueError, match="2 results more than next_batch"):
        trainer.answer([1, 2])
