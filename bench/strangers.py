#!/usr/bin/env python3
"""What connections of strangers cost a running job.

Trains with two workers, and in turn leaves the job alone and holds idle connections to the doors of its
processes: TCP ports and abstract Unix sockets that they listen on. The strangers never say a word. Those
that the job sends away come back at once (--pause 0), after a while, or never (--pause -1). Prints for each
round, and as a median, the job's rate with strangers divided by that without, and the same for the processor
time that it takes for as much.

  bench/strangers.py [--connections 2500] [--pause 1] [--rounds 7] [--seconds 4] [--doors tcp,unix]
  bench/strangers.py --doors "worker 0 127." --pause 0.01             all of them at one door
  bench/strangers.py -- run -np 2 --transport tcp -- PROGRAM …        a job of your own

It needs ./colla to be built, and more open files than connections: it raises `ulimit -n` as far as it
may. Everything stays on this host's loopback interface, and ends with the script.
"""

import argparse
import os
import pathlib
import re
import resource
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIMIT = 60  # Seconds until the job trains.
SETTLE = 0.5  # Seconds between a change and the measurement.
JOB = ["train", "mlp", "--data", "synthetic:mnist:6000", "--steps", "100000000", "--no-eval", "--quiet",
       "--np", "2", "--strategy", "allreduce", "--transport", "tcp", "--threads", "1"]
# What a job gets done: the first of these that it counts.
WORK = ["colla_steps_total", "colla_collective_bytes_total"]


def family(pid):
    """A process and all that came of it."""
    found = [pid]
    for parent in found:
        for task in pathlib.Path(f"/proc/{parent}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    return found


def sockets_of(pids):
    found = {}
    for pid in pids:
        for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            try:
                match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(fd))
            except OSError:
                continue
            if match:
                found[match[1]] = pid
    return found


def owner_of(pid):
    """As `colla run` has named it."""
    words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    place = dict(word.decode().split("=", 1) for word in words if word.startswith(b"COLLA_"))
    return f"{place['COLLA_ROLE']} {place['COLLA_RANK']}" if "COLLA_ROLE" in place else "front"


def doors_of(pids):
    """Where the processes listen, as (kind, name, address)."""
    owned = sockets_of(pids)
    doors = []
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in owned:
            host, port = fields[1].split(":")
            host = socket.inet_ntoa(bytes.fromhex(host)[::-1])
            address = (host, int(port, 16))
            doors.append(("tcp", f"{owner_of(owned[fields[9]])} {host}:{address[1]}", address))
    for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) == 8 and int(fields[3], 16) & 0x10000 and fields[6] in owned:
            doors.append(("unix", f"{owner_of(owned[fields[6]])} {fields[7]}", "\0" + fields[7][1:]))
    return doors


class Strangers:
    """Idle connections, held by a thread that sleeps unless the job closes one."""

    def __init__(self, doors, count, pause):
        self.pause = pause
        self.sent_away = 0
        self.held = selectors.DefaultSelector()
        self.back = []  # (when, door) of those that come back.
        self.stop = threading.Event()
        for number in range(count):
            self._connect(doors[number % len(doors)])
        self.thread = threading.Thread(target=self._hold)
        self.thread.start()

    def _connect(self, door):
        stranger = socket.socket(socket.AF_INET if door[0] == "tcp" else socket.AF_UNIX)
        stranger.settimeout(0.2)
        try:
            stranger.connect(door[2])
        except OSError:  # Its queue is full.
            stranger.close()
            self.back.append((time.monotonic() + max(1.0, self.pause), door))
            return
        self.held.register(stranger, selectors.EVENT_READ, door)

    def _hold(self):
        while not self.stop.is_set():
            for key, _ in self.held.select(0.01):
                try:
                    if key.fileobj.recv(65536):
                        continue
                except OSError:
                    pass
                self.sent_away += 1
                self.held.unregister(key.fileobj)
                key.fileobj.close()
                self.back.append((time.monotonic() + self.pause, key.data))
            now = time.monotonic()
            due = [door for when, door in self.back if when <= now] if self.pause >= 0 else []
            if due:
                self.back = [entry for entry in self.back if entry[0] > now]
            for door in due:
                self._connect(door)

    def close(self):
        self.stop.set()
        self.thread.join()
        held = list(self.held.get_map().values())
        for key in held:
            key.fileobj.close()
        self.held.close()
        return len(held)


class Job:
    def __init__(self, colla, arguments):
        self.process = subprocess.Popen([colla, *arguments], start_new_session=True,
                                        stdin=subprocess.DEVNULL,
                                        env={**os.environ, "COLLA_METRICS_PORT": "0"})
        self.page = None
        end = time.monotonic() + LIMIT
        while self.page is None or self.steps() < 10:
            if time.monotonic() > end or self.process.poll() is not None:
                self.end()
                sys.exit("strangers.py: the job does not train")
            time.sleep(0.1)
            self.page = next((door[2] for door in doors_of(family(self.process.pid))
                              if re.search("colla-metrics-.*-worker-0$", door[1])), None)

    def steps(self):
        with socket.socket(socket.AF_UNIX) as reader:
            reader.connect(self.page)
            page = b"".join(iter(lambda: reader.recv(65536), b"")).decode()
        for name in WORK:
            done = sum(map(float, re.findall(rf"^{name}\S* (\S+)$", page, re.MULTILINE)))
            if done > 0:
                return done
        return 0.0

    def seconds_of_cores(self):
        total = 0
        for pid in family(self.process.pid):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")

    def measure(self, seconds):
        """Steps per second, and seconds of cores for a step."""
        time.sleep(SETTLE)
        start, steps, cores = time.monotonic(), self.steps(), self.seconds_of_cores()
        time.sleep(seconds)
        steps, cores = self.steps() - steps, self.seconds_of_cores() - cores
        return steps / (time.monotonic() - start), cores / max(1, steps)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--colla", default=ROOT / "build/bin/colla")
    parser.add_argument("--connections", type=int, default=2500)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--doors", default="tcp,unix", help="tcp, unix, or a part of a door's name")
    parser.add_argument("--pause", type=float, default=1, help="seconds; negative: nobody returns")
    parser.add_argument("job", nargs="*", default=JOB, help="arguments of colla, after --")
    options = parser.parse_args()
    if not os.access(options.colla, os.X_OK):
        sys.exit("strangers.py: build Colla first: ./colla --version")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < options.connections + 64:
        sys.exit(f"strangers.py: {options.connections} connections need `ulimit -n` above that")

    job = Job(options.colla, options.job)
    try:
        words = options.doors.split(",")
        doors = [door for door in doors_of(family(job.process.pid))
                 if any(word == door[0] or word in door[1]
                        for word in words)]
        for door in doors:
            print(f"door: {door[0]} {door[1]}")
        if not doors:
            sys.exit("strangers.py: there is no such door")
        rates, costs = [], []
        for number in range(options.rounds):
            quiet = job.measure(options.seconds)
            strangers = Strangers(doors, options.connections, options.pause)
            try:
                busy = job.measure(options.seconds)
            finally:
                held = strangers.close()
            rates.append(busy[0] / quiet[0])
            costs.append(busy[1] / quiet[1])
            print(f"round {number + 1}: {quiet[0]:.0f}/s alone, {busy[0]:.0f}/s with {held} strangers "
                  f"({strangers.sent_away} sent away): {rates[-1]:.3f}; "
                  f"processor time for the same: {costs[-1]:.3f}", flush=True)
        print(f"median: {statistics.median(rates):.3f} of the rate, "
              f"{statistics.median(costs):.3f} of the processor time for the same")
    finally:
        job.end()


if __name__ == "__main__":
    main()
