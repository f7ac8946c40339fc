"""A pool's agent on a host: starts workers there, replaces those that end, and ends with its standard input."""

import multiprocessing
import os
import pickle
import select
import threading

from colla.pool.channel import Kind
from colla.pool.local import LocalWorker, Plan, start_all
from colla.pool.parcel import Parcel, pack
from colla.pool.pickling import Pickling
from colla.pool.stream import Stream, hand_out


def main() -> None:
    stream = Stream(os.dup(0), os.dup(1))
    os.dup2(2, 1)  # What tasks print goes to the standard error of the program.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    *_, parcel = stream.receive()
    folder, names, most_tasks, initialization = parcel.unpack()
    if os.path.isdir(folder):
        os.chdir(folder)
    initializer, initargs = pickle.loads(initialization)
    _Agent(stream, Plan(multiprocessing.get_context("fork"), initializer, initargs, most_tasks), names).run()


class _Agent:
    def __init__(self, stream: Stream, plan: Plan, names: list[str]) -> None:
        self._stream = stream
        self._plan = plan
        self._pickling = Pickling()
        self._workers = start_all(plan, names)
        self._channels = [worker.channel for worker in self._workers]
        self._poll = select.epoll()
        for worker in self._workers:
            self._watch(worker)

    def run(self) -> None:
        threading.Thread(target=self._down, daemon=True).start()
        while True:
            for file, _ in self._poll.poll():
                for place, worker in enumerate(self._workers):
                    if file == worker.channel.fileno():
                        self._up(place, worker)
                    elif file == worker.fileno():
                        self._replace(place, worker)

    def _down(self) -> None:
        try:
            hand_out(self._stream, self._channels)
        except (EOFError, OSError):
            os._exit(0)  # The pool is gone. So are the workers, now: their lifelines end here.

    def _watch(self, worker: LocalWorker) -> None:
        self._poll.register(worker.channel.fileno(), select.EPOLLIN)
        self._poll.register(worker.fileno(), select.EPOLLIN)

    def _up(self, place: int, worker: LocalWorker) -> None:
        try:
            while True:
                self._stream.send(place, *worker.channel.receive(wait=False))
        except (BlockingIOError, EOFError, ConnectionError):
            pass  # That was all; if it has ended, _replace() follows.

    def _replace(self, place: int, worker: LocalWorker) -> None:
        self._poll.unregister(worker.channel.fileno())
        self._poll.unregister(worker.fileno())
        self._up(place, worker)  # What it sent before its end.
        words: Parcel = pack(f"(process {worker.pid}) {worker.join()}", self._pickling)
        (self._workers[place],) = start_all(self._plan, [worker.name])
        self._channels[place] = self._workers[place].channel
        self._watch(self._workers[place])
        self._stream.send(place, Kind.LOST, 0, words)
