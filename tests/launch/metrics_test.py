"""Real jobs serve real metrics: read with Prometheus' own parser and compared with what the job did.

COLLA names the command, MEMBER the program that the jobs run (metrics_member.cc).
"""

import contextlib
import http.client
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    print("no prometheus-client for this Python: ./test installs it into .venv")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLLA = os.environ["COLLA"]
MEMBER = os.environ["MEMBER"]
COUNT, BYTES = 25, 40_000
LIMIT = 30  # Seconds that anything may take.


class Program:
    """A program whose output is read as it comes."""

    def __init__(self, *command, **environment):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**os.environ, **environment})
        self.lines = []
        self.changed = threading.Condition()
        self.streams = (self.process.stdout, self.process.stderr)
        self.readers = [threading.Thread(target=self._read, args=(stream,), daemon=True)
                        for stream in self.streams]
        for reader in self.readers:
            reader.start()

    def _read(self, stream):
        for line in stream:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()

    def expect(self, pattern, times=1):
        """The first match of the pattern, once so many lines have one."""
        def matches():
            found = [m for m in (re.search(pattern, line) for line in self.lines) if m]
            return found if len(found) >= times else None
        with self.changed:
            found = self.changed.wait_for(matches, LIMIT)
        if not found:
            raise AssertionError(f"no {pattern} in {self.lines}")
        return found[0]

    def end(self):
        self.process.stdin.close()
        return self.process.wait(LIMIT)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(LIMIT)
        for reader in self.readers:
            reader.join(LIMIT)
        for stream in (self.process.stdin, *self.streams):
            stream.close()


@contextlib.contextmanager
def program(*command, **environment):
    running = Program(*command, **environment)
    try:
        yield running
    finally:
        running.kill()


def job(*flags, workers=2, count=COUNT, size=BYTES, **environment):
    return program(COLLA, "run", "-np", str(workers), "--metrics-port", "0", *flags, "--", MEMBER,
                   str(count), str(size), **environment)


def url_of(running):
    return running.expect(r"metrics at (http://\S+?/metrics)")[1]


def get(url, token=None):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=LIMIT) as page:
        return page.read().decode()


class Scrape:
    """A page, by family and by sample."""

    def __init__(self, text):
        self.families = {}
        self.samples = {}
        for family in text_string_to_metric_families(text):
            self.families[family.name] = family
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                if key in self.samples:
                    raise AssertionError(f"{key} is there twice")
                self.samples[key] = sample.value

    def value(self, name, **labels):
        """The sum over all samples that have these labels; None if there are none."""
        wanted = {(key, str(value)) for key, value in labels.items()}
        found = [value for (sample, has), value in self.samples.items()
                 if sample == name and wanted <= has]
        return sum(found) if found else None

    def labels(self, name):
        return [dict(has) for sample, has in self.samples if sample == name]


def scrape(url, token=None):
    return Scrape(get(url, token))


def processes_of(parent):
    """By rank: the workers that `colla run` has started."""
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            if (entry / "cmdline").read_bytes().startswith(MEMBER.encode()):
                mark = f"METRICS_TEST={parent}".encode()
                if mark in environment:
                    rank = next(e for e in environment if e.startswith(b"COLLA_RANK="))
                    found[int(rank.split(b"=")[1])] = int(entry.name)
        except (OSError, StopIteration):
            pass
    return found


def stop(process):
    """Returns once every thread has stopped: kill() comes back before the signal has reached them."""
    os.kill(process, signal.SIGSTOP)
    deadline = time.monotonic() + LIMIT
    while True:
        states = [entry.read_text().rpartition(")")[2].split()[0]
                  for entry in pathlib.Path(f"/proc/{process}/task").glob("*/stat")]
        if set(states) == {"T"}:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"threads of {process} have the states {states}")
        time.sleep(0.005)


class JobTest(unittest.TestCase):
    def test_messages_are_counted_to_the_byte(self):
        with job("--transport", "tcp-plain") as running:
            running.expect("done", times=2)
            page = scrape(url_of(running))
            host = page.labels("colla_up")[0]["host"]
            for rank in (0, 1):
                process = {"role": "worker", "rank": rank, "host": host}
                self.assertEqual(page.value("colla_up", **process), 1)
                allreduce = {"operation": "allreduce", **process}
                self.assertEqual(page.value("colla_collective_seconds_count", **allreduce), COUNT)
                self.assertEqual(page.value("colla_collective_bytes_total", **allreduce),
                                 COUNT * BYTES)
                self.assertEqual(page.value("colla_collective_failures_total", **allreduce), 0)
                # Two ranks exchange halves twice: each sends and receives as much as the buffer has.
                wire = {"transport": "tcp-plain", "peer_host": host, **process}
                for way in ("sent", "received"):
                    self.assertEqual(page.value(f"colla_{way}_bytes_total", **wire), COUNT * BYTES)
                    self.assertGreaterEqual(page.value(f"colla_{way}_messages_total", **wire),
                                            2 * COUNT)
                took = page.value("colla_collective_seconds_sum", **allreduce)
                self.assertGreater(took, 0)
                self.assertLess(took, LIMIT)
                peer = f"rank {1 - rank} on host {host}"
                self.assertGreater(page.value("colla_wait_seconds_total", peer=peer, **process), 0)
            self.assertEqual(running.end(), 0)

    def test_buckets_add_up(self):
        with job() as running:
            running.expect("done", times=2)
            page = scrape(url_of(running))
            labels = {"operation": "allreduce", "rank": 0}
            buckets = sorted((float(has["le"]), page.value("colla_collective_seconds_bucket", **has))
                             for has in page.labels("colla_collective_seconds_bucket")
                             if labels.items() <= {**has, "rank": int(has["rank"])}.items())
            counts = [count for _, count in buckets]
            self.assertEqual(counts, sorted(counts))
            self.assertEqual(buckets[-1], (float("inf"), COUNT))
            self.assertEqual(page.value("colla_collective_seconds_count", **labels), COUNT)

    def test_shared_memory_sends_nothing(self):
        with job("--transport", "shm") as running:
            running.expect("done", times=2)
            page = scrape(url_of(running))
            self.assertEqual(page.value("colla_collective_bytes_total", operation="allreduce"),
                             2 * COUNT * BYTES)
            # What the group's members tell each other at the start, and no more.
            self.assertLess(page.value("colla_sent_bytes_total", transport="shm"), BYTES)
            self.assertIsNone(page.value("colla_sent_bytes_total", transport="tcp"))

    def test_servers_answer_too(self):
        with job("--ps", "1") as running:
            running.expect("done", times=2)
            page = scrape(url_of(running))
            server = {"role": "ps", "rank": 0}
            self.assertEqual(page.value("colla_up", **server), 1)
            self.assertEqual(page.value("colla_up", role="worker"), 2)
            self.assertEqual(page.value("colla_ps_workers", **server), 2)
            self.assertEqual(page.value("colla_ps_folds_total", **server), COUNT)
            self.assertEqual(page.value("colla_ps_pushed_rows_total", **server), 2 * 2 * COUNT)
            self.assertEqual(page.value("colla_ps_staleness_count", **server), 2 * COUNT)
            self.assertEqual(page.value("colla_ps_staleness_sum", **server), 0)
            self.assertEqual(page.value("colla_ps_dropped_total", **server), 0)
            self.assertGreaterEqual(page.value("colla_ps_pulled_rows_total", **server), 2 * COUNT)
            self.assertGreaterEqual(page.value("colla_ps_pulls_total", **server), 2 * COUNT)
            self.assertGreaterEqual(page.value("colla_ps_pushes_total", **server), 2 * COUNT)
            self.assertEqual(page.value("colla_ps_folded_bytes_total", **server),
                             2 * 2 * COUNT * 2 * 4)  # Workers, rows, steps, floats of a row.
            self.assertIsNone(page.value("colla_ps_pushes_total", role="worker"))
            # Each worker waits for the server in every step, and the server for them.
            peer = f"ps 0 on host {page.labels('colla_up')[0]['host']}"
            for rank in (0, 1):
                self.assertGreater(page.value("colla_wait_seconds_total", peer=peer, role="worker",
                                              rank=rank), 0)
            self.assertGreater(page.value("colla_wait_seconds_total", **server), 0)
            self.assertEqual(running.end(), 0)

    def test_every_family_is_in_the_docs(self):
        rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", (ROOT / "docs/metrics.md").read_text(), re.M)
        documented = {name.removesuffix("_total"): kind for name, kind in rows}
        with job("--transport", "tcp") as running:
            running.expect("done", times=2)
            page = scrape(url_of(running))
        self.assertGreater(len(page.families), 8)
        for name, family in page.families.items():
            self.assertEqual(documented.get(name), family.type, name)
            self.assertTrue(family.documentation)

    def test_numbers_only_rise(self):
        with job(count=100_000) as running:
            url = url_of(running)
            counted = [scrape(url).value("colla_collective_seconds_count", operation="allreduce")
                       or 0 for _ in range(5)]
            self.assertEqual(counted, sorted(counted))

    def test_a_stopped_process_is_down_and_holds_up_nobody(self):
        mark = f"{os.getpid()}-stopped"
        with job(METRICS_TEST=mark) as running:
            running.expect("done", times=2)
            url = url_of(running)
            worker = processes_of(mark)[1]
            stop(worker)
            began = time.monotonic()
            page = scrape(url)
            took = time.monotonic() - began
            os.kill(worker, signal.SIGCONT)
            self.assertLess(took, 10)
            self.assertEqual(page.value("colla_up", rank=0), 1)
            self.assertEqual(page.value("colla_up", rank=1), 0)
            self.assertIsNone(page.value("colla_collective_bytes_total", rank=1))
            self.assertEqual(scrape(url).value("colla_up", rank=1), 1)

    def test_kill_leaves_nothing(self):
        mark = f"{os.getpid()}-killed"
        with job(METRICS_TEST=mark) as running:
            running.expect("done", times=2)
            url = url_of(running)
            self.assertIn("@colla-metrics-", pathlib.Path("/proc/net/unix").read_text())
            workers = processes_of(mark)
            self.assertEqual(len(workers), 2)
            running.process.kill()
            running.process.wait(LIMIT)
            deadline = time.monotonic() + LIMIT
            while processes_of(mark) and time.monotonic() < deadline:
                time.sleep(0.02)
            self.assertEqual(processes_of(mark), {})
            with self.assertRaises(OSError):
                get(url)

    def test_other_programs_are_down(self):
        with program(COLLA, "run", "-np", "1", "--metrics-port", "0", "--", "cat") as running:
            page = scrape(url_of(running))
            self.assertEqual(list(page.samples.values()), [0])
            self.assertEqual(page.value("colla_up", role="worker", rank=0), 0)


class WithoutFrontTest(unittest.TestCase):
    def test_alone(self):
        with program(MEMBER, "3", "400", COLLA_METRICS_PORT="0") as running:
            running.expect("done")
            page = scrape(url_of(running))
            self.assertEqual(page.value("colla_up", role="worker", rank=0), 1)
            self.assertEqual(page.value("colla_collective_seconds_count", operation="allreduce"), 3)
            self.assertEqual(running.end(), 0)

    def test_worker_0_answers_for_its_host(self):
        place = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": "29999", "COLLA_JOB_ID": f"metrics-{os.getpid()}",
                 "COLLA_METRICS_PORT": "0"}
        with program(MEMBER, "3", "400", RANK="0", LOCAL_RANK="0", **place) as first, \
                program(MEMBER, "3", "400", RANK="1", LOCAL_RANK="1", **place) as second:
            first.expect("done")
            second.expect("done")
            page = scrape(url_of(first))
            for rank in (0, 1):
                self.assertEqual(page.value("colla_up", rank=rank), 1)
                self.assertEqual(page.value("colla_collective_seconds_count", rank=rank,
                                            operation="allreduce"), 3)
            self.assertEqual((first.end(), second.end()), (0, 0))


class AccessTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = pathlib.Path(self.folder.name, "state", "token")
        self.addCleanup(self.folder.cleanup)

    def open_job(self):
        return job("--metrics-address", "0.0.0.0", "--metrics-token-file", str(self.file))

    def assert_refused(self, url, token):
        with self.assertRaises(urllib.error.HTTPError) as caught:
            get(url, token)
        self.assertEqual(caught.exception.code, 401)
        self.assertEqual(caught.exception.headers["WWW-Authenticate"], "Bearer")
        self.assertNotIn("colla_up", caught.exception.read().decode())
        caught.exception.close()

    def test_token(self):
        with self.open_job() as running:
            running.expect(re.escape(f"with the token in {self.file}"))
            url = url_of(running).replace("0.0.0.0", "127.0.0.1")
            self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o600)
            token = self.file.read_text().strip()
            self.assertEqual(len(token), 64)
            self.assert_refused(url, None)
            self.assert_refused(url, "")
            self.assert_refused(url, token[:-1])
            self.assert_refused(url, token[:-1] + ("0" if token[-1] != "0" else "1"))
            self.assert_refused(url.replace("/metrics", "/other"), None)
            self.assertIn("colla_up", get(url, token))
            self.assertNotIn(token, "\n".join(running.lines))
        self.assertEqual([self.file], list(self.file.parent.iterdir()))
        with self.open_job() as running:  # The next job has the same token.
            url = url_of(running).replace("0.0.0.0", "127.0.0.1")
            self.assertIn("colla_up", get(url, token))

    def test_default_file(self):
        with job("--metrics-address", "0.0.0.0", XDG_STATE_HOME=self.folder.name) as running:
            file = pathlib.Path(self.folder.name, "colla", "metrics-token")
            running.expect(re.escape(f"with the token in {file}"))
            self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)

    def test_loopback_needs_none(self):
        with job() as running:
            self.assertTrue(url_of(running).startswith("http://127.0.0.1:"))
            self.assertIn("colla_up", get(url_of(running)))
            connection = http.client.HTTPConnection(url_of(running).split("/")[2], timeout=LIMIT)
            connection.request("GET", "/")
            self.assertEqual(connection.getresponse().status, 404)
            connection.close()


class RefusalTest(unittest.TestCase):
    def assert_refused(self, flags, code, says):
        done = subprocess.run([COLLA, "run", "-np", "1", *flags, "--", "true"],
                              capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual((done.returncode, done.stdout), (code, ""))
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(says, done.stderr)

    def test_port_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            self.assert_refused(["--metrics-port", port], 1, f"port {port} of 127.0.0.1 is taken")

    def test_two_jobs_cannot_share_a_port(self):
        with job() as running:
            port = url_of(running).split(":")[2].split("/")[0]
            self.assert_refused(["--metrics-port", port], 1, "is taken")

    def test_bad_settings(self):
        self.assert_refused(["--metrics-port", "65536"], 2, "--metrics-port is \"65536\"")
        self.assert_refused(["--metrics-port", "0", "--metrics-address", "here"], 2,
                            "--metrics-address is \"here\"")
        self.assert_refused(["--metrics-port", "0", "--metrics-address", "192.0.2.1"], 1,
                            "no metrics at 192.0.2.1")

    def test_token_files_that_others_can_read(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "token")
            flags = ["--metrics-port", "0", "--metrics-address", "0.0.0.0", "--metrics-token-file",
                     str(file)]
            file.write_text("0123456789abcdef0123")
            file.chmod(0o640)
            self.assert_refused(flags, 1, "can be read or written by others")
            file.chmod(0o600)
            file.write_text("short\n")
            self.assert_refused(flags, 1, "has no token")
            flags[-1] = folder
            self.assert_refused(flags, 1, "is not a file")


if __name__ == "__main__":
    unittest.main()
