"""colla.Pool: what multiprocessing.Pool does not do, or not as well. pool_cpython_test.py has what it does."""

import gc
import multiprocessing
import os
import pathlib
import queue
import re
import resource
import signal
import subprocess
import sys
import textwrap
import time

import numpy
import pytest

from colla import Pool
from colla.pool import PoolEnded, WorkerLost

ROOT = pathlib.Path(__file__).parents[2]
DEADLINE = 60


def until(condition, what):
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.01)


def lives(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def named_memory(pid):
    process = pathlib.Path(f"/proc/{pid}")
    used = [line.split(maxsplit=5)[-1] for line in (process / "maps").read_text().splitlines()]
    used += [os.readlink(file) for file in (process / "fd").iterdir()]
    return [name for name in used if name.startswith("/dev/shm")]


def python(*arguments, **options):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=DEADLINE, **options)


def square(x):
    return x * x


def same(x):
    return x


def pid_after(seconds):
    time.sleep(seconds)
    return os.getpid()


def die(number):
    os.kill(os.getpid(), number)


def leave(code):
    sys.exit(code)


def die_at(x, victims):
    if x in victims:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def wait_for(path):
    until(path.exists, path)


def fails():
    raise RuntimeError("no good start")


class Unloadable(Exception):
    def __init__(self, one, two):
        super().__init__("two arguments, of which the pickle keeps one")


def raise_unloadable(_):
    raise Unloadable(1, 2)


class TestArrays:
    def test_there_and_back(self):
        values = [numpy.arange(size, dtype=numpy.float64) for size in (0, 1, 100, 10_000, 400_000)]
        values += [numpy.arange(3_000_000).reshape(1000, 3000).T, numpy.ones((800, 800))[::2, ::2]]
        with Pool(2) as pool:
            for value, got in zip(values, pool.map(same, values, 1), strict=True):
                numpy.testing.assert_array_equal(got, value)
                assert got.dtype == value.dtype

    def test_may_be_written_to(self):
        with Pool(1) as pool:
            for size in (10, 5_000, 50_000, 500_000):
                got = pool.apply(same, (numpy.zeros(size),))
                got += 1
                assert got.sum() == size

    def test_lie_at_addresses_for_vectors(self):
        with Pool(1) as pool:
            for got in pool.apply(same, ([numpy.ones(3_001), numpy.ones(300_001), numpy.ones(3)],))[:2]:
                assert got.ctypes.data % 64 == 0

    def test_need_no_descriptors(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        open_now = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 40, hard))
        try:
            with Pool(2) as pool:
                kept = pool.map(same, [numpy.full(200_000, number) for number in range(100)], 1)
            assert [array[-1] for array in kept] == list(range(100))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_give_their_memory_back(self):
        def shared():
            return int(re.search(r"RssShmem:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())[1])

        with Pool(1) as pool:
            before = shared()
            for _ in range(20):
                pool.apply(same, (numpy.zeros(1_000_000),))
            assert shared() - before < 20_000  # KiB; all twenty are 160,000.


class TestWorkersThatEnd:
    @pytest.mark.parametrize(
        ("function", "argument", "how"),
        [(die, signal.SIGKILL, "was killed by SIGKILL"), (die, signal.SIGSEGV, "by SIGSEGV"), (leave, 3, "exit code 3")],
    )
    def test_fail_their_task_by_name_and_are_replaced(self, function, argument, how):
        with Pool(2) as pool:
            with pytest.raises(WorkerLost, match=rf"PoolWorker-\d+ \(process \d+\).*{how}.* while it ran {function.__name__}"):
                pool.apply(function, (argument,))
            assert pool.map(square, range(100)) == [x * x for x in range(100)]
            assert len(set(pool.map(pid_after, [0.3] * 2, 1))) == 2

    def test_fail_no_other_task(self):
        victims = {3, 50, 51, 52, 333}
        with Pool(2) as pool:
            results = [pool.apply_async(die_at, (x, victims)) for x in range(400)]
            for x, result in enumerate(results):
                if x in victims:
                    with pytest.raises(WorkerLost):
                        result.get(DEADLINE)
                else:
                    assert result.get(DEADLINE) == x

    def test_killed_from_outside(self):
        with Pool(1) as pool:
            pid = pool.apply(os.getpid)
            os.kill(pid, signal.SIGKILL)  # While it is idle: no task fails.
            until(lambda: not lives(pid), "the end of the worker")
            assert pool.map(square, range(1000), 1) == [x * x for x in range(1000)]

            busy = pool.apply_async(time.sleep, (DEADLINE,))
            follows = pool.apply_async(square, (3,))
            children = multiprocessing.active_children()
            until(lambda: len(children) == 1 and lives(children[0].pid), "the worker")
            time.sleep(0.2)  # Not for luck: a worker that has not read the task is replaced without a loss, too.
            os.kill(children[0].pid, signal.SIGKILL)
            assert follows.get(DEADLINE) == 9
            busy.wait(0)

    def test_in_their_initializer(self):
        with Pool(2, initializer=fails) as pool:
            with pytest.raises(RuntimeError, match="no good start"):
                pool.map(square, range(10))
        with Pool(2, initializer=die, initargs=(signal.SIGKILL,)) as pool:
            with pytest.raises(WorkerLost, match="before it was ready"):
                pool.map(square, range(10))

    def test_after_so_many_tasks(self):
        with Pool(2, maxtasksperchild=5) as pool:
            pids = [pool.apply(os.getpid) for _ in range(40)]
        assert all(pids.count(pid) <= 5 for pid in pids)


class TestTasks:
    def test_short_ones_never_wait_behind_a_long_one(self, tmp_path):
        made = tmp_path / "made"
        with Pool(2) as pool:
            results = [pool.apply_async(square, (x,)) for x in range(50)]
            results.append(pool.apply_async(wait_for, (made,)))
            results += [pool.apply_async(square, (x,)) for x in range(50)]
            results.append(pool.apply_async(pathlib.Path.touch, (made,)))
            for result in results:
                result.get(DEADLINE)

    def test_arguments_may_depend_on_results(self):
        arguments = queue.Queue()
        arguments.put(2)
        with Pool(2) as pool:
            got = []
            for value in pool.imap(square, iter(arguments.get, None)):
                got.append(value)
                arguments.put(value if value < 1000 else None)
        assert got == [4, 16, 256, 65536]

    def test_error_that_cannot_be_unpickled(self):
        with Pool(1) as pool:
            with pytest.raises(TypeError, match="argument"):
                pool.map(raise_unloadable, [1])
            assert pool.apply(square, (3,)) == 9

    def test_terminated_ones_fail(self):
        pool = Pool(1)
        result = pool.apply_async(time.sleep, (DEADLINE,))
        waiting = pool.imap(square, range(10))
        pool.terminate()
        pool.join()
        with pytest.raises(PoolEnded):
            result.get(DEADLINE)
        with pytest.raises(PoolEnded):
            list(waiting)

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_callback_that_fails(self):
        def callback(_):
            raise ValueError("from the callback")

        with Pool(1) as pool:
            assert pool.apply_async(square, (2,), callback=callback).get(DEADLINE) == 4
            assert pool.apply(square, (3,)) == 9

    @pytest.mark.parametrize("method", ["spawn", "forkserver"])
    def test_other_ways_to_start(self, method):
        with Pool(2, context=multiprocessing.get_context(method)) as pool:
            assert pool.map(square, range(10)) == [x * x for x in range(10)]


class TestFunctions:
    def test_python_c(self):
        ran = python("-c", "from colla import Pool\ndef f(x): return x * x\nprint(Pool(5).map(f, [1, 2, 3]))")
        assert (ran.stdout, ran.stderr, ran.returncode) == ("[1, 4, 9]\n", "", 0)

    def test_interactive(self):
        lines = "from colla import Pool\ndef f(x): return x * x\n\nPool(5).map(f, [1, 2, 3])\n"
        assert "[1, 4, 9]" in python("-i", input=lines).stdout

    def test_defined_after_the_pool_by_value(self):
        pytest.importorskip("cloudpickle")
        script = """
            from colla import Pool
            def start(): global kept; kept = 7
            pool = Pool(2, start)
            def f(x): return x * x
            class Point:
                def __init__(self, x): self.x = x
            print(pool.map(f, [1, 2, 3]), pool.map(lambda x: -x, [1]), pool.apply(Point, (5,)).x)
            def f(x): return x + 1
            print(pool.map(f, [1, 2, 3]), type(pool.apply(Point, (5,))) is Point)
            pool.terminate()
        """
        ran = python("-c", textwrap.dedent(script))
        assert ran.stdout == "[1, 4, 9] [-1] 5\n[2, 3, 4] True\n", ran.stderr

    def test_known_ones_use_the_globals_of_their_worker(self):
        script = """
            from colla import Pool
            def start(x): global kept; kept = x
            def add(x): return x + kept
            print(Pool(2, start, (5,)).map(add, [1, 2]))
        """
        assert python("-c", textwrap.dedent(script)).stdout == "[6, 7]\n"

    def test_unknown_ones_without_cloudpickle(self):
        script = """
            import sys
            sys.modules["cloudpickle"] = None
            from colla import Pool
            pool = Pool(1)
            def late(x): return x
            try: pool.map(late, [1])
            except Exception as error: print(error)
            pool.terminate()
        """
        assert "workers don't know late" in python("-c", textwrap.dedent(script)).stdout


ENDLESS = """
import os, sys, time
from colla import Pool
def spin(_):
    print(os.getpid(), flush=True)
    while True: pass
import numpy
with Pool(2) as pool:
    keep = pool.map(numpy.copy, [numpy.ones(1_000_000)] * 4)
    flying = pool.map_async(numpy.copy, [numpy.ones(1_000_000)] * 10, 1)
    pool.map(spin, [1, 2], 1)
"""


class TestNothingIsLeft:
    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
    def test_when_the_program_ends(self, number):
        program = subprocess.Popen(
            [sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
        )
        try:
            workers = [int(program.stdout.readline()) for _ in range(2)]
            # Others may put files into /dev/shm at this moment: these processes have none.
            assert [named_memory(pid) for pid in (program.pid, *workers)] == [[]] * 3
            if number == signal.SIGINT:
                os.killpg(program.pid, number)  # As a terminal does.
            else:
                program.send_signal(number)
            _, said = program.communicate(timeout=DEADLINE)
        finally:
            program.kill()
        assert said.count("Traceback") == (1 if number == signal.SIGINT else 0), said
        until(lambda: not any(map(lives, workers)), "the end of the workers")

    def test_in_this_process(self):
        with Pool(2) as pool:  # What stays once for all pools.
            pool.map(same, [numpy.ones(300_000)] * 2)
        gc.collect()
        before = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        for _ in range(5):
            with Pool(2) as pool:
                pool.map(same, [numpy.ones(300_000)] * 2)
        pool = None
        gc.collect()
        assert (len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))) <= before
        assert multiprocessing.active_children() == []

    def test_when_the_pool_is_forgotten(self):
        script = "from colla import Pool\nimport os\nprint(Pool(2).map(abs, [-1]))\nprint(os.listdir('/proc/self/task'))"
        ran = python("-W", "ignore", "-c", script)
        assert ran.stdout.startswith("[1]\n"), ran.stderr
        script = "from colla import Pool\npool = Pool(2)\npool.map(abs, [1])"  # Alive when the interpreter ends.
        ran = python("-c", script)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_import_is_cheap():
    script = "import colla, sys; print([name for name in sys.modules if name.startswith(('colla.', 'multiproc', 'torch'))])"
    assert python("-c", script).stdout == "[]\n"
    script = "from colla import Pool; import sys; print([name for name in ('torch', 'numpy', 'colla._core') if name in sys.modules])"
    assert python("-c", script).stdout == "[]\n"


def examples():
    text = (ROOT / "docs" / "pool.md").read_text()
    return re.findall(r"```python\n(.*?)```\n(?:\nprints\n\n```text\n(.*?)```\n)?", text, re.DOTALL)


@pytest.mark.parametrize(("script", "prints"), examples())
def test_examples_in_the_docs(tmp_path, script, prints):
    path = tmp_path / "example.py"
    path.write_text(script)
    ran = python(path)
    assert (ran.returncode, ran.stdout) == (0, prints), ran.stderr
