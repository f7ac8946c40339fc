"""How rows get from a task of Spark into the process that trains, both on one machine.

The task writes batches of rows, in Arrow's format, into shared memory without a name, and hands over its descriptor;
the kernel frees the memory when nobody has it any more, whoever died. Both ends talk through a Unix socket, which asks
the kernel who is calling. A message is a JSON text; some come with a batch's descriptor.

    the task           {feed, partition, queue, answers}, then batches, then {end}
    the trainer        {ack} for a batch that was read to its end, {over} when it wants no more,
                       batches of answers, {done} when every row was read
"""

import json
import mmap
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

MEMORY = 64 << 20
"""The most bytes that one task has in shared memory at a time, unless a single row is larger."""

_BATCH = 1 << 20  # Bytes that a batch should have.
_MOST_ROWS = 8192
# Batches under way at a time: as many messages, and their acknowledgements, fit into a socket's buffers, so that
# neither end ever waits for the other to receive.
_MOST_BATCHES = 64
_CREDENTIALS = struct.Struct("3i")

Message = dict[str, Any]


class Line:
    """One end of the connection between a task and a trainer."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def fileno(self) -> int:
        """For selectors."""
        return self._connection.fileno()

    def is_own_user(self) -> bool:
        """Whether the other end is a process of this user's."""
        size = _CREDENTIALS.size
        _, user, _ = _CREDENTIALS.unpack(self._connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        return user == os.getuid()

    def send(self, message: Message, batch: int | None = None) -> None:
        """With the descriptor of a batch if there is one."""
        socket.send_fds(self._connection, [json.dumps(message).encode()], [] if batch is None else [batch])

    def receive(self) -> tuple[Message, int | None] | None:
        """The next message, and a descriptor that is now the caller's; None at the end."""
        try:
            content, descriptors, _, _ = socket.recv_fds(self._connection, 1 << 16, 4)
        except ConnectionError:
            return None
        if not content:
            return None
        return json.loads(content), descriptors[0] if descriptors else None

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()


def listen(name: str) -> socket.socket:
    """Where tasks of this user's find a trainer."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind("\0" + name)
    listener.listen(64)
    return listener


def reach(name: str) -> Line:
    """Connects to a trainer; ConnectionError if it is not there any more."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect("\0" + name)
    except OSError:
        connection.close()
        raise
    line = Line(connection)
    if not line.is_own_user():
        line.close()
        raise ConnectionRefusedError
    return line


def share(batch: pa.RecordBatch) -> tuple[int, int]:
    """Shared memory that has the batch: its descriptor and size."""
    descriptor = os.memfd_create("colla-rows", os.MFD_CLOEXEC)
    with open(os.dup(descriptor), "wb", buffering=0) as file, pa.ipc.new_stream(pa.PythonFile(file), batch.schema) as out:
        out.write_batch(batch)
    return descriptor, os.fstat(descriptor).st_size


def open_shared(descriptor: int) -> pa.RecordBatch:
    """The batch of `share()`, not copied. Closes the descriptor."""
    try:
        content = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
    finally:
        os.close(descriptor)
    return pa.ipc.open_stream(pa.py_buffer(content)).read_next_batch()


class Ended(Exception):
    """The trainer has gone."""


class Unread(Exception):
    """The trainer has read nothing for too long."""


class Feeder:
    """A task's end: feeds one partition."""

    def __init__(self, line: Line, timeout: float, greeting: Message) -> None:
        self._line = line
        self._timeout = timeout
        self._in_flight = self._batches = 0  # Bytes and batches that were sent, and not read yet.
        self._over = self._done = False
        self._answers: list[pa.RecordBatch] = []
        self.most_in_flight = 0
        self._send(greeting)

    def feed(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Returns when every row was read, or when the trainer wants no more."""
        for batch in batches:
            if self._over:
                return
            self._send_batch(batch)
        self._send({"end": True})
        while not (self._done or self._over):
            self._await()

    def answers(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same, and what the trainer answers, in order."""
        for batch in batches:
            if self._over:
                break
            self._send_batch(batch)
            yield from self._take_answers()
        self._send({"end": True})
        while not (self._done or self._over):
            self._await()
            yield from self._take_answers()
        yield from self._take_answers()

    @property
    def over(self) -> bool:
        """Whether the trainer wants no more."""
        return self._over

    def _take_answers(self) -> list[pa.RecordBatch]:
        taken, self._answers = self._answers, []
        return taken

    def _send_batch(self, batch: pa.RecordBatch) -> None:
        descriptor, size = share(batch)
        try:
            while self._is_full(size) and not self._over:
                self._await()
            self._in_flight += size
            self._batches += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
            self._send({"size": size}, descriptor)
        finally:
            os.close(descriptor)
        while not self._done and select.select([self._line], [], [], 0)[0]:
            self._receive()

    def _is_full(self, size: int) -> bool:
        return self._batches > 0 and (self._in_flight + size > MEMORY or self._batches >= _MOST_BATCHES)

    def _send(self, message: Message, batch: int | None = None) -> None:
        try:
            self._line.send(message, batch)
        except OSError:
            if not self._over:
                raise Ended from None

    def _await(self) -> None:
        if not select.select([self._line], [], [], self._timeout)[0]:
            raise Unread
        self._receive()

    def _receive(self) -> None:
        received = self._line.receive()
        if received is None:
            if self._over:
                self._done = True
                return
            raise Ended
        message, descriptor = received
        if "ack" in message:
            self._in_flight -= message["ack"]
            self._batches -= 1
        self._over = self._over or message.get("over", False)
        self._done = self._done or message.get("done", False)
        if descriptor is not None:
            self._answers.append(open_shared(descriptor))


def in_batches(rows: Iterable[Any], encode: Callable[[list[Any]], pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows as batches of a good size. The first ones are small, so that nobody waits for them."""
    most, held = 16, []
    since = time.monotonic()
    for row in rows:
        held.append(row)
        if len(held) >= most or (len(held) % 64 == 0 and time.monotonic() - since > 1):
            batch = encode(held)
            yield batch
            per_row = max(1, batch.nbytes // len(held))
            most = max(1, min(_BATCH // per_row, _MOST_ROWS, most * 8))
            held, since = [], time.monotonic()
    if held:
        yield encode(held)
