"""The end of the feed that is in the process that trains: what came, and who is to hear that it was read."""

import collections
import functools
import json
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from colla.spark import _feeding, _rows


class Part:
    """A partition that a task feeds."""

    def __init__(self, line: _feeding.Line, greeting: dict[str, Any]) -> None:
        self.line = line
        self.feed: str = greeting["feed"]
        self.partition: int = greeting["partition"]
        self.queue: str = greeting["queue"]
        self.answers: bool = greeting["answers"]
        self.batches: collections.deque[tuple[Any, int]] = collections.deque()
        self.taken = 0  # Rows of the first batch.
        self.unanswered = 0
        self.complete = False
        self.gone = False

    def send(self, message: dict[str, Any], batch: int | None = None) -> None:
        """Nobody may be there any more."""
        try:
            self.line.send(message, batch)
        except OSError:
            self.gone = True


class Trainer:
    """What this process has from its keeper. `ctx.mgr` of a program; nothing in it is public."""

    def __init__(self, listener: socket.socket, control: socket.socket) -> None:
        self._listener = listener
        self._control = control
        self._parts: list[Part] = []
        self._counts: dict[tuple[str, int], int] = collections.defaultdict(int)
        self._changed = threading.Condition()
        self._current: Part | None = None  # That the last rows were of.
        # Partitions and numbers of rows that are to be answered, in order.
        self._unanswered: collections.deque[list[Any]] = collections.deque()
        self._ended = False  # The driver has said so,
        self._over = False  # or the program.
        self._sending = threading.Lock()
        self._lines: dict[threading.Thread, socket.socket] = {}  # And who receives there.
        self._start(self._accept, listener)
        threading.Thread(target=self._listen, name="colla-spark-control", daemon=True).start()

    def _start(self, action: Callable[[], None], connection: socket.socket) -> None:
        thread = threading.Thread(target=action, name="colla-spark-feed", daemon=True)
        with self._changed:
            self._lines = {other: theirs for other, theirs in self._lines.items() if other.is_alive()}
            self._lines[thread] = connection
            thread.start()

    def close(self) -> None:
        """Ends the threads that use Arrow: a process that ends under them would abort."""
        with self._changed:
            lines = dict(self._lines)
        for connection in lines.values():
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in lines:
            thread.join(5)

    # What the keeper hears.

    def _tell(self, message: dict[str, Any], content: bytes = b"") -> None:
        with self._sending:
            self._control.sendall(json.dumps(message).encode() + b"\n" + content)

    def tell_result(self, content: bytes) -> None:
        self._tell({"kind": "result", "size": len(content)}, content)

    def tell_error(self, text: str) -> None:
        self._tell({"kind": "error", "error": text})

    def _listen(self) -> None:
        for line in self._control.makefile("rb"):
            message = json.loads(line)
            if message["kind"] == "end":
                with self._changed:
                    self._ended = True
                    self._changed.notify_all()
            elif message["kind"] == "taken":
                rows = self._take_over(message["feed"], message["partition"])
                self._tell({"kind": "taken", "id": message["id"], "rows": rows})

    # What tasks send.

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            line = _feeding.Line(connection)
            if line.is_own_user():
                self._start(functools.partial(self._receive, line), connection)
            else:
                line.close()

    def _receive(self, line: _feeding.Line) -> None:
        greeting = line.receive()
        if greeting is None:
            return
        part = Part(line, greeting[0])
        with self._changed:
            if self._over:
                part.send({"over": True})
            self._parts.append(part)
        while (received := line.receive()) is not None:
            message, descriptor = received
            with self._changed:
                if part.gone:
                    break
                if descriptor is not None:
                    batch = _rows.Batch(_feeding.open_shared(descriptor))
                    if not self._over:
                        part.batches.append((batch, message["size"]))
                        self._counts[part.feed, part.partition] += len(batch)
                if message.get("end"):
                    part.complete = True
                    self._say_done(part)
                self._changed.notify_all()
        with self._changed:
            part.gone = True
            if part.answers:
                part.batches.clear()  # Nobody is there to be answered.
            self._forget(part)
            self._changed.notify_all()

    def _take_over(self, feed: str, partition: int) -> int:
        """How many rows of a partition are here, whose task has died. From now on that task feeds no more."""
        with self._changed:
            for part in self._parts:
                if (part.feed, part.partition) == (feed, partition) and not part.complete:
                    part.gone = True
                    self._forget(part)
            return self._counts[feed, partition]

    def _say_done(self, part: Part) -> None:
        if part.complete and not part.batches and not part.unanswered:
            part.send({"done": True})
            self._forget(part)

    def _forget(self, part: Part) -> None:
        if part in self._parts and not part.batches and (part.gone or part.complete) and not part.unanswered:
            self._parts.remove(part)
        if part.gone and part.answers and part in self._parts:
            self._parts.remove(part)

    # What DataFeed asks for.

    def take(self, queue: str, rows: int, whole_parts: bool, give: Callable[[Any, int, int], None]) -> tuple[int, bool]:
        """Gives up to `rows` rows as ranges of batches: how many, and whether the feed has ended.

        With `whole_parts` the rows are of one partition, and the tasks wait for `answer()`.
        """
        count = 0
        with self._changed:
            while count < rows:
                part = self._next(queue, whole_parts)
                if part is None:
                    if whole_parts and count > 0 and not self._is_open(self._current):
                        break
                    if self._ended:
                        return count, True
                    self._changed.wait()
                    continue
                if whole_parts and count > 0 and part is not self._current:
                    break
                batch, size = part.batches[0]
                begin, end = part.taken, min(len(batch), part.taken + rows - count)
                count += end - begin
                part.taken = end
                self._current = part
                if part.answers:
                    part.unanswered += end - begin
                    self._unanswered.append([part, end - begin])
                give(batch, begin, end)
                if end < len(batch):
                    continue
                part.batches.popleft()
                part.taken = 0
                part.send({"ack": size})
                self._say_done(part)
                if not whole_parts and part in self._parts:
                    self._parts.append(self._parts.pop(self._parts.index(part)))  # It is the next one's turn.
        return count, False

    def _next(self, queue: str, whole_parts: bool) -> Part | None:
        """The partition to read from; None if its rows are still to come."""
        if whole_parts and self._current is not None and self._current.queue == queue:
            if self._current.batches:
                return self._current
            if self._is_open(self._current):
                return None
        return next((part for part in self._parts if part.queue == queue and part.batches), None)

    def _is_open(self, part: Part | None) -> bool:
        """Whether there is more of this partition, here or to come."""
        return part is not None and (bool(part.batches) or not (part.complete or part.gone))

    def answer(self, results: list[Any]) -> None:
        """Results for rows that were taken, in order."""
        rest = results
        with self._changed:
            while rest:
                if not self._unanswered:
                    raise ValueError(f"batch_results() got {len(rest)} results more than next_batch() gave rows")
                pending = self._unanswered[0]
                part, wanted = pending
                mine, rest = rest[:wanted], rest[wanted:]
                descriptor, size = _feeding.share(_rows.encode(mine))
                try:
                    part.send({"size": size}, descriptor)
                finally:
                    os.close(descriptor)
                part.unanswered -= len(mine)
                pending[1] -= len(mine)
                if not pending[1]:
                    self._unanswered.popleft()
                self._say_done(part)

    def end(self) -> None:
        """The program wants no more rows."""
        with self._changed:
            self._over = True
            for part in list(self._parts):
                part.send({"over": True})
                part.batches.clear()
                self._forget(part)
        self._tell({"kind": "over"})
