"""colla.Pool over several hosts: network namespaces with an sshd each, which tests/support/hosts.sh makes."""

import os
import pathlib
import subprocess
import sys
import textwrap
import time

import pytest

from colla import Pool

ROOT = pathlib.Path(__file__).parents[2]
# Module functions: nothing here needs cloudpickle.
BEGINNING = """
import os, socket, subprocess, sys, time
import numpy
import pool_hosts_test as tasks
from colla import Pool
from colla.pool import WorkerLost
"""


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


def where(_):
    time.sleep(0.2)
    return os.uname().nodename


def double(array):
    array *= 2
    return array


def keep(x):
    global kept
    kept = x


def add_kept(x):
    return x + kept


def fails():
    raise RuntimeError("no good start")


def spin(path):
    path.write_text(str(os.getpid()))
    while True:
        pass


@pytest.fixture
def on_hosts(tmp_path):
    """Runs a script's text on a machine that reaches the hosts a and b, and returns its lines."""

    def run(script):
        path = tmp_path / "script.py"
        path.write_text(BEGINNING + textwrap.dedent(script))
        paths = os.pathsep.join([str(pathlib.Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        ran = subprocess.run(
            [ROOT / "tests/support/hosts.sh", "a", "b", "--", sys.executable, path],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PYTHONPATH": paths},
        )
        if ran.returncode == 77:
            pytest.skip(ran.stdout)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.splitlines()

    return run


def test_workers_of_all_hosts_work(on_hosts):
    lines = on_hosts("""
        with Pool(hosts="a:2,b", initializer=tasks.keep, initargs=(5,)) as pool:
            print(sorted(set(pool.imap_unordered(tasks.where, range(9)))))
            print(pool.map(tasks.add_kept, range(3)), pool.starmap(pow, [(2, 3), (3, 2)]))
            for size in (10, 1000, 100_000, 3_000_000):
                got = pool.map(tasks.double, [numpy.arange(size)] * 6, 1)
                print(all((array == 2 * numpy.arange(size)).all() for array in got))
            pool.close()
            pool.join()
        with Pool(hosts=["a:2"], maxtasksperchild=2) as pool:
            pids = [pool.apply(os.getpid) for _ in range(12)]
            print(max(map(pids.count, pids)) <= 2)
    """)
    assert lines == ["['a', 'b']", "[5, 6, 7] [8, 9]", *["True"] * 5]


def test_errors_arrive(on_hosts):
    lines = on_hosts("""
        with Pool(hosts="a,b") as pool:
            try: pool.apply(int, ("x",))
            except ValueError as error: print(error.__cause__ is not None)
            try: pool.apply(os._exit, (3,))
            except WorkerLost as error: print(error)
            print(pool.map(abs, range(-3, 0)))
        try: Pool(hosts="a", initializer=tasks.fails).map(abs, [1])
        except RuntimeError as error: print(error)
        try: Pool(hosts="nowhere").map(abs, [1])
        except WorkerLost as error: print(error)
    """)
    assert lines[0] == "True"
    assert lines[1].startswith("PoolWorker-") and " on host " in lines[1]
    assert lines[1].endswith("ended with exit code 3 while it ran _exit")
    assert lines[2:] == ["[3, 2, 1]", "no good start", "all hosts of the pool are lost: standard error may say why"]


def test_lost_host_fails_its_task_alone(on_hosts):
    lines = on_hosts("""
        with Pool(hosts="a,b") as pool:
            results = [pool.apply_async(tasks.where, (number,)) for number in range(40)]
            print(results[0].get())
            subprocess.run(["unhost", "b"], check=True)
            lost = 0
            for result in results:
                try: result.get(60)
                except WorkerLost as error: lost += "PoolWorker-2 on host b was lost" in str(error)
            print(lost)
    """)
    assert lines[0] in "ab" and lines[1] in "01"


def test_nothing_is_left_on_a_host_when_the_program_is_killed(on_hosts):
    lines = on_hosts("""
        import pathlib
        files = [pathlib.Path(os.environ["TMPDIR"], name) for name in ("one", "two")]
        program = "import sys, pathlib, pool_hosts_test as tasks; from colla import Pool"
        program += "; Pool(hosts='a,b').map(tasks.spin, map(pathlib.Path, sys.argv[1:]), 1)"
        child = subprocess.Popen([sys.executable, "-c", program, *files])
        tasks.until(lambda: all(file.exists() and file.read_text() for file in files))
        workers = [int(file.read_text()) for file in files]
        print(all(os.path.exists(f"/proc/{pid}") for pid in workers))
        child.kill()
        tasks.until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers))
        print("none is left")
    """)
    assert lines == ["True", "none is left"]


@pytest.mark.parametrize("hosts", ["", "a:0", "a:x", ":3", "-oProxyCommand=x", []])
def test_hosts_that_make_no_sense(hosts):
    with pytest.raises(ValueError, match="hosts"):
        Pool(hosts=hosts)
