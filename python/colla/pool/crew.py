"""The workers of a pool and what they do now.

Two threads. The *feeder* goes through the arguments of each call, which may be a generator of the user's that blocks,
and packs them into tasks, ahead of the workers but not too far. The *collector* has all the rest: it takes
results from workers, gives each worker its next task, replaces workers that have ended and fails the task that one
had. Whoever has a task and sees an idle worker sends it there, so a worker waits for one thread, not for two.

A worker's socket is the queue of its tasks. While tasks are many and small a worker gets some ahead, because it takes
longer to wait for a message than to do a small task. The crew keeps the worker's end of the socket open, too, and takes
back there what the worker has not read: for a worker that is idle, so a short task never waits behind a long one, and
from a worker that has ended, so the one task that ended with it is known.
"""

import collections
import dataclasses
import itertools
import os
import queue
import select
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from colla.pool.channel import Kind
from colla.pool.local import LocalWorker
from colla.pool.parcel import Parcel, pack
from colla.pool.pickling import Pickling
from colla.pool.remote import RemoteWorker
from colla.pool.results import Outcome

# How far the feeder is ahead, beyond one task.
_MOST_WAITING = 1024
_MOST_WAITING_BYTES = 8 << 20
# Of one task that is sent ahead: a larger one is no tiny task.
_MOST_AHEAD_BYTES = 512
# The pool gives up after so many workers in a row have ended before they were ready.
_MOST_STILLBORN = 3
# From SIGTERM to SIGKILL.
_GRACE_SECONDS = 2.0


class WorkerLost(RuntimeError):
    """The worker that ran a task has ended."""


class PoolEnded(RuntimeError):
    """The pool was terminated before the task was done."""


@dataclasses.dataclass(slots=True)
class Call:
    """One call of a pool's method: many tasks with one result."""

    label: str  # What the workers run, for messages.
    payloads: Iterable[Any]
    outcome: Outcome


@dataclasses.dataclass(slots=True)
class Task:
    number: int
    call: Call
    index: int
    parcel: Parcel


@dataclasses.dataclass(slots=True, eq=False)
class Member:
    """A worker, as the crew sees it."""

    worker: LocalWorker | RemoteWorker
    tasks_left: float  # To be sent.
    ready: bool = False
    tasks: dict[int, Task] = dataclasses.field(default_factory=dict)  # Sent, by number.


class Crew:
    """Thread safety: callable from any thread, and from a finalizer."""

    def __init__(
        self, size: int, start: Callable[[list[str]], Sequence[LocalWorker | RemoteWorker]], most_tasks: int | None,
        pickling: Pickling,
    ) -> None:
        self._start = start  # Workers of given names.
        self._most_tasks = most_tasks or float("inf")
        self._pickling = pickling
        self._size = size
        self._names = 0
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._open: set[Outcome] = set()  # Calls that are not done.
        self._later: collections.deque[Callable[[], None]] = collections.deque()  # For the collector.
        self._closing = self._terminating = self._fed = False
        self._broken: BaseException | None = None
        self._stillborn = 0

        self._lock = threading.Lock()  # Guards what follows.
        self._room = threading.Condition(self._lock)
        self._waiting: collections.deque[Task] = collections.deque()
        self._waiting_bytes = 0
        self._idle: collections.deque[Member] = collections.deque()
        self._members: set[Member] = set()

        self._numbers = itertools.count()  # The feeder's.
        self._handlers: dict[int, Callable[[], None]] = {}  # The collector's.
        workers = start([self._new_name() for _ in range(size)])
        self._epoll = select.epoll()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC)
        # Closed when nobody can ring it any more.
        weakref.finalize(self, os.close, self._bell).atexit = False
        self._watch(self._bell, self._answer_bell)
        for worker in workers:
            self._admit(worker)
        self._feeder = threading.Thread(target=self._feed, name="colla.Pool feeder", daemon=True)
        self._collector = threading.Thread(target=self._collect, name="colla.Pool collector", daemon=True)
        self._feeder.start()
        self._collector.start()

    @property
    def size(self) -> int:
        return self._size

    def submit(self, call: Call) -> None:
        """The outcome gets all results, or fails."""
        self._open.add(call.outcome)
        self._calls.put(call)
        if not self._collector.is_alive():
            self._fail_open()

    def close(self) -> None:
        """Ends when all that was submitted is done."""
        self._closing = True
        self._calls.put(None)

    def terminate(self) -> None:
        """Ends now. Returns when all workers have ended, unless called by a thread of the crew."""
        # Takes no lock: it may be called wherever Python collects garbage.
        self._terminating = True
        self._calls.put(None)
        self._ring()
        if threading.current_thread() not in (self._feeder, self._collector):
            self._collector.join()

    def join(self) -> None:
        self._collector.join()

    # The feeder.

    def _feed(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # Wakes the main thread, not this one.
        for call in iter(self._calls.get, None):
            self._feed_call(call)
            del call  # Not kept while this waits.
        self._fed = True
        self._ring()

    def _feed_call(self, call: Call) -> None:
        count = 0
        try:
            for payload in call.payloads:
                try:
                    task = Task(next(self._numbers), call, count, pack(payload, self._pickling))
                except Exception as error:
                    self._tell(call.outcome, count, error)
                else:
                    self._add(task)
                count += 1
                payload = task = None  # type: ignore[assignment]  # Not kept while the next is made.
                if self._terminating:
                    return
        except Exception as error:  # The user's iterable raised it.
            self._tell(call.outcome, count, error)
            count += 1
        self._do_later(lambda: call.outcome.set_length(count), call.outcome)

    def _tell(self, outcome: Outcome, index: int, error: Exception) -> None:
        self._do_later(lambda: outcome.set(index, False, error), outcome)

    def _do_later(self, action: Callable[[], None], outcome: Outcome) -> None:
        def act() -> None:
            if outcome in self._open:
                action()
                self._settle(outcome)

        self._later.append(act)
        self._ring()

    def _add(self, task: Task) -> None:
        with self._lock:
            while self._waiting and not self._terminating and (
                len(self._waiting) >= _MOST_WAITING or self._waiting_bytes >= _MOST_WAITING_BYTES
            ):
                self._room.wait()
            self._waiting.append(task)
            self._waiting_bytes += task.parcel.size
            if self._idle:
                self._dispatch()

    # Both threads.

    def _ring(self) -> None:
        os.eventfd_write(self._bell, 1)

    def _dispatch(self) -> None:
        """Gives tasks to idle workers: those that wait, then those that wait for a busy worker. The lock is held."""
        while self._idle:
            task = self._next_waiting() if self._waiting else self._take_back()
            if task is None:
                return
            self._send(self._idle.popleft(), task)

    def _next_waiting(self) -> Task:
        task = self._waiting.popleft()
        self._waiting_bytes -= task.parcel.size
        if len(self._waiting) == _MOST_WAITING // 2 or self._waiting_bytes < _MOST_WAITING_BYTES <= (
            self._waiting_bytes + task.parcel.size
        ):
            self._room.notify()
        return task

    def _take_back(self) -> Task | None:
        for member in self._members:
            if len(member.tasks) > 1 and (task := self._unread(member)) is not None:
                return task
        return None

    def _unread(self, member: Member) -> Task | None:
        """The first task that the worker has not read, which is its no longer. The lock is held."""
        try:
            _, number, parcel = member.worker.unread.receive(wait=False)
        except (BlockingIOError, EOFError):
            return None
        task = member.tasks.pop(number)
        task.parcel = parcel
        member.tasks_left += 1
        return task

    def _send(self, member: Member, task: Task, wait: bool = True) -> None:
        member.worker.channel.send(Kind.TASK, task.number, task.parcel, wait)
        member.tasks[task.number] = task
        member.tasks_left -= 1

    def _send_ahead(self, member: Member) -> None:
        """Fills the worker's queue when half of it is used up. The lock is held."""
        most = member.worker.most_ahead
        if len(member.tasks) > most // 2:
            return
        while (
            self._waiting
            and len(member.tasks) < most
            and member.tasks_left > 0
            and self._waiting[0].parcel.file < 0
            and self._waiting[0].parcel.size <= _MOST_AHEAD_BYTES
        ):
            try:
                self._send(member, self._waiting[0], wait=False)
            except BlockingIOError:
                return  # Its socket is full.
            self._next_waiting()

    # The collector.

    def _collect(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            while not self._terminating and not self._finished():
                for file, _ in self._epoll.poll():
                    handler = self._handlers.get(file)
                    if handler is not None:  # None: handled with an earlier one.
                        handler()
        except BaseException as error:  # Nobody may wait for ever, whatever happens here.
            self._broken = error
        finally:
            self._end()

    def _finished(self) -> bool:
        """Whether a closed crew has done its work, and its workers have left."""
        if not self._drained():
            return False
        for member in self._members:
            member.worker.stop()
        return not self._members

    def _drained(self) -> bool:
        if not (self._closing and self._fed):
            return False
        with self._lock:
            return not (self._waiting or self._later or any(member.tasks for member in self._members))

    def _watch(self, file: int, handler: Callable[[], None]) -> None:
        self._handlers[file] = handler
        self._epoll.register(file, select.EPOLLIN)

    def _ignore(self, file: int) -> None:
        if self._handlers.pop(file, None) is not None:
            self._epoll.unregister(file)

    def _answer_bell(self) -> None:
        os.eventfd_read(self._bell)
        while self._later:
            self._later.popleft()()

    def _new_name(self) -> str:
        self._names += 1
        return f"PoolWorker-{self._names}"

    def _admit(self, worker: LocalWorker | RemoteWorker) -> None:
        member = Member(worker, self._most_tasks)
        with self._lock:
            self._members.add(member)
        self._watch(worker.channel.fileno(), lambda: self._receive(member))
        self._watch(worker.fileno(), lambda: self._bury(member))

    def _receive(self, member: Member) -> None:
        """All that a worker has sent."""
        while True:
            try:
                kind, number, parcel = member.worker.channel.receive(wait=False)
            except BlockingIOError:
                return
            except (EOFError, ConnectionError):
                self._ignore(member.worker.channel.fileno())  # It is ending.
                return
            if kind == Kind.LOST:
                self._lose(member, parcel.unpack())
                continue
            if not member.ready:
                if kind == Kind.ERROR:
                    raise parcel.unpack()  # The initializer raised it, and would do so in every worker.
                member.ready = True
                member.tasks_left = self._most_tasks
                self._stillborn = 0
            with self._lock:
                task = member.tasks.pop(number) if kind != Kind.READY else None
                # Before the result is unpacked: the worker waits.
                if self._waiting:
                    self._send_ahead(member)
                if not member.tasks and member.tasks_left > 0:
                    self._idle.append(member)
                    self._dispatch()
                more = bool(member.tasks)
            if task is not None:
                self._hand_over(task, kind, parcel)
            if not more:
                return

    def _hand_over(self, task: Task, kind: Kind, parcel: Parcel) -> None:
        try:
            ok, value = kind == Kind.RESULT, parcel.unpack()
        except Exception as error:  # Of a type that can't be made again from its pickle.
            ok, value = False, error
        task.call.outcome.set(task.index, ok, value)
        self._settle(task.call.outcome)

    def _settle(self, outcome: Outcome) -> None:
        if outcome.done:
            self._open.discard(outcome)

    def _bury(self, member: Member) -> None:
        """What follows from the end of a worker's process."""
        channel = member.worker.channel
        self._receive(member)  # What it sent before its end.
        self._ignore(channel.fileno())
        self._ignore(member.worker.fileno())
        with self._lock:
            unread = list(iter(lambda: self._unread(member), None))
            self._waiting.extendleft(reversed(unread))
            self._waiting_bytes += sum(task.parcel.size for task in unread)
            self._members.discard(member)
            if member in self._idle:
                self._idle.remove(member)
            self._dispatch()
        self._lose(member, member.worker.join())
        if member.worker.is_replaced:
            if not self._drained():
                self._admit(*self._start([self._new_name()]))
        elif not self._members and not self._drained():
            raise WorkerLost("all hosts of the pool are lost: standard error may say why")

    def _lose(self, member: Member, how: str) -> None:
        """Fails the task that a worker has not answered, if any."""
        with self._lock:
            if member in self._idle:
                self._idle.remove(member)
            lost = list(member.tasks.values())
            member.tasks.clear()
        for task in lost:
            error = WorkerLost(f"{member.worker} {how} while it ran {task.call.label}")
            task.call.outcome.set(task.index, False, error)
            self._settle(task.call.outcome)
        if not member.ready and member.worker.is_replaced:
            self._stillborn += 1
            if self._stillborn >= _MOST_STILLBORN:
                raise WorkerLost(f"{member.worker} {how} before it was ready, like {_MOST_STILLBORN - 1} before it")
        member.ready = False

    def _end(self) -> None:
        """Ends whatever is left, in any state."""
        self._terminating = True
        for member in self._members:
            member.worker.terminate()
        deadline = time.monotonic() + _GRACE_SECONDS
        for member in self._members:
            left = max(deadline - time.monotonic(), 0)
            if not select.select([member.worker], [], [], left)[0]:
                member.worker.kill()
            member.worker.join()
        self._handlers.clear()
        self._epoll.close()
        with self._lock:
            for task in self._waiting:
                task.parcel.close()
            self._waiting.clear()
            self._idle.clear()
            self._members.clear()
            self._room.notify()
        self._calls.put(None)
        self._fail_open()

    def _fail_open(self) -> None:
        error = self._broken or PoolEnded("the pool was terminated before the task was done")
        while self._open:
            try:
                outcome = self._open.pop()
            except KeyError:
                break
            if not outcome.done:
                outcome.fail(error)
