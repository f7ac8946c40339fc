"""One training of a peer, for `colla study`: starts its processes, has them train, and writes what a training of
Colla's writes: OUT/steps.jsonl and OUT/training/log.txt.

It speaks the protocol of bench/agent.h with the agents of this folder. Spark, which starts its own
processes, has a program of its own (spark_training.py). Every process says its role in its environment
(COLLA_ROLE, COLLA_RANK), as Colla's do, so that the study samples them in the same way.
"""

import argparse
import json
import math
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).parent
SECONDS_TO_START = 300
# The loss is asked for so many times in a training: each time all workers wait for each other.
PARTS = 20


class Failed(Exception):
    """The training came to nothing; the text says why, in one line."""


def arguments_of(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=["tf", "tf-async", "mxnet", "mxnet-async", "ddp", "spark", "spark-disk"])
    parser.add_argument("--model", required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, required=True, help="samples per step over all workers")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", required=True, help="DATA.x has samples of float32, DATA.y classes of int64")
    parser.add_argument("--out", required=True)
    return parser.parse_args(words)


class Record:
    """What a study reads of a training: one line for each time that the loss is known."""

    def __init__(self, out, batch):
        self.batch, self.step, self.began = batch, 0, time.monotonic()
        folder = pathlib.Path(out) / "training"
        folder.mkdir(parents=True, exist_ok=True)
        self.log = open(folder / "log.txt", "w", buffering=1)
        self.log.write("step\tstart\tend\tloss\taccuracy\n")
        self.lines = open(pathlib.Path(out) / "steps.jsonl", "w", buffering=1)

    def now(self):
        return time.monotonic() - self.began

    def add(self, steps, start, end, loss):
        """`steps` more were made between two times since the beginning; `loss`: of the last one, None if unknown."""
        if loss is not None and not math.isfinite(loss):
            raise Failed(f"the loss is {loss} after step {self.step + steps}: --lr is too large for this peer")
        self.step += steps
        shown = "nan" if loss is None else f"{loss:.9g}"
        self.log.write(f"{self.step}\t{start:.6f}\t{end:.6f}\t{shown}\tnan\n")
        self.lines.write(json.dumps({"step": self.step, "loss": loss, "metrics": {}}) + "\n")

    def finish(self, seconds):
        total = {"total": True, "steps": self.step, "samples": self.step * self.batch, "seconds": seconds}
        self.lines.write(json.dumps(total) + "\n")
        self.lines.close()
        self.log.close()


class Data:
    """The samples in files of whole batches, and weights to begin with."""

    def __init__(self, wanted, scratch):
        self.targets = np.fromfile(wanted.data + ".y", np.int64)
        bytes_of_sample = os.path.getsize(wanted.data + ".x") // len(self.targets)
        self.inputs = bytes_of_sample // 4
        self.batch = wanted.batch // wanted.workers * wanted.workers
        if self.batch == 0:
            raise Failed(f"a batch of {wanted.batch} is too small for {wanted.workers} workers")
        self.samples = len(self.targets) // self.batch * self.batch
        if self.samples == 0:
            raise Failed(f"there are {len(self.targets)} samples, fewer than a batch of {self.batch}")
        self.path = wanted.data
        if self.samples < len(self.targets):
            # Agents read whole files.
            self.path = f"{scratch}/data"
            for end, size in ((".x", bytes_of_sample), (".y", 8)):
                shutil.copyfile(wanted.data + end, self.path + end)
                os.truncate(self.path + end, self.samples * size)

    def write_weights(self, widths, seed, path):
        """Layer by layer, weights and biases, as libtorch has them."""
        random = np.random.RandomState(seed)
        with open(path, "wb") as file:
            for inputs, outputs in zip(widths, widths[1:]):
                bound = 1 / math.sqrt(inputs)
                random.uniform(-bound, bound, inputs * outputs + outputs).astype(np.float32).tofile(file)


def free_addresses(count):
    held = [socket.socket() for _ in range(count)]  # All at once, so that they differ.
    for each in held:
        each.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in held]
    for each in held:
        each.close()
    return addresses


class Processes:
    """Starts processes, and ends all of them in the end."""

    def __init__(self):
        self.all = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.all:
            process.kill()
        for process in self.all:
            process.wait()

    def start(self, role, rank, command, variables):
        environment = {**os.environ, **variables, "COLLA_ROLE": role, "COLLA_RANK": str(rank)}
        self.all.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL))

    def check(self):
        for process in self.all:
            if process.poll() is not None:
                raise Failed(f"a process of the peer ended with exit code {process.returncode} (see output.txt)")


def start_agents(processes, wanted, data, path, scratch):
    """The processes of a peer: its servers, and an agent for each worker."""
    kind = wanted.peer.removesuffix("-async")
    agent = [sys.executable, "-W", "ignore", str(HERE / f"{'torch' if kind == 'ddp' else kind}_agent.py")]
    threads = str(wanted.threads)
    variables = {"OMP_NUM_THREADS": threads, "COLLA_PEER_THREADS": threads, "COLLA_PEER_INPUTS": str(data.inputs)}
    names = [path, wanted.peer]
    if kind == "ddp":
        for rank in range(wanted.workers):
            processes.start("worker", rank, [*agent, *names, str(rank), str(wanted.workers), f"{scratch}/store"],
                            variables | {"GLOO_SOCKET_IFNAME": "lo"})
        return
    addresses = free_addresses(wanted.workers + 1)
    for role, count in (("ps", 1), ("worker", wanted.workers)):
        for rank in range(count):
            own = dict(variables)
            if kind == "mxnet":
                own |= {"DMLC_ROLE": "server" if role == "ps" else "worker", "DMLC_PS_ROOT_URI": "127.0.0.1",
                        "DMLC_PS_ROOT_PORT": addresses[0].split(":")[1], "DMLC_NUM_SERVER": "1",
                        "DMLC_NUM_WORKER": str(wanted.workers), "DMLC_INTERFACE": "lo"}
            if kind == "mxnet" and role == "ps":
                # Importing MXNet is all that they do, for as long as they live.
                alone = [sys.executable, "-W", "ignore", "-c", "import mxnet"]
                processes.start("launcher", 0, alone, own | {"DMLC_ROLE": "scheduler"})
                processes.start(role, rank, alone, own)
                continue
            processes.start(role, rank, [*agent, *names, str(rank), str(wanted.workers), role, ",".join(addresses)],
                            own)


class Agents:
    """The coordinator's end of the protocol."""

    def __init__(self, server, count, processes):
        self.lines = {}
        deadline = time.monotonic() + SECONDS_TO_START
        while len(self.lines) < count:
            try:
                connection, _ = server.accept()
            except TimeoutError:
                processes.check()
                if time.monotonic() > deadline:
                    raise Failed(f"{count - len(self.lines)} workers of the peer did not start within "
                                 f"{SECONDS_TO_START} s") from None
                continue
            lines = connection.makefile("rw", buffering=1)
            self.lines[int(lines.readline().split()[2])] = lines

    def ask(self, what):
        """Asks all of them; their answers, in the order of ranks."""
        for lines in self.lines.values():
            print(what, file=lines, flush=True)
        answers = []
        for rank in sorted(self.lines):
            verb, _, rest = self.lines[rank].readline().strip().partition(" ")
            if verb != "ok":
                raise Failed(f"worker {rank}: {rest or 'it ended'}")
            answers.append(rest)
        return answers


def train(wanted, scratch, widths):
    data = Data(wanted, scratch)
    data.write_weights([data.inputs, *widths[1:]], wanted.seed, data.path + ".w")
    with socket.socket(socket.AF_UNIX) as server, Processes() as processes:
        path = f"{scratch}/socket"
        server.bind(path)
        server.listen(wanted.workers)
        server.settimeout(0.2)
        start_agents(processes, wanted, data, path, scratch)
        agents = Agents(server, wanted.workers, processes)
        share = data.batch // wanted.workers
        agents.ask(f"prepare {wanted.model} {data.samples} {data.batch} {share} {wanted.rate} {data.path}")
        record = Record(wanted.out, data.batch)
        done = 0
        for part in range(1, PARTS + 1):
            steps = wanted.steps * part // PARTS - done
            if steps == 0:
                continue
            start = record.now()
            answers = agents.ask(f"train {steps}")
            losses = [float(answer.split()[1]) for answer in answers]
            record.add(steps, start, record.now(), sum(losses) / len(losses))
            done += steps
        record.finish(record.now())


def main():
    wanted = arguments_of(sys.argv[1:])
    wanted.out, wanted.data = os.path.abspath(wanted.out), os.path.abspath(wanted.data)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with tempfile.TemporaryDirectory(dir=wanted.out, prefix="peer-") as scratch:
            if wanted.peer.startswith("spark"):
                import spark_training

                spark_training.train(wanted, Data(wanted, scratch), Record, scratch)
            else:
                sys.argv[1:] = ["-", "-", "0", "1"]  # agent.py reads them.
                from agent import WIDTHS

                if wanted.model not in WIDTHS:
                    raise Failed(f"{wanted.peer} trains {', '.join(WIDTHS)}, and not {wanted.model}")
                train(wanted, scratch, WIDTHS[wanted.model])
    except (Failed, OSError) as error:
        print(" ".join(str(error).split()), file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
