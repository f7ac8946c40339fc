"""Messages between the driver and what it has started on executors.

Texts in JSON. Both ends prove that they know the job's secret before either reads a message, and every message carries
a proof that nobody else wrote, changed, repeated or moved it.
"""

import hashlib
import hmac
import json
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

_HEAD = struct.Struct(">I32s")
_NONCE = 32
_LARGEST = 16 << 20
_PATIENCE = 10.0  # Seconds for a stranger to prove what he knows.

Message = dict[str, Any]


class Channel:
    """One connection. Any thread may send; one thread receives."""

    def __init__(self, connection: socket.socket, secret: bytes, listener: bool) -> None:
        """Raises OSError if the other end does not know `secret`."""
        connection.settimeout(_PATIENCE)
        mine = secrets.token_bytes(_NONCE)
        connection.sendall(mine)
        theirs = _read(connection, _NONCE)
        nonces = mine + theirs if listener else theirs + mine
        keys = [hmac.digest(secret, role + nonces, hashlib.sha256) for role in (b"listener", b"caller")]
        self._connection = connection
        self._own, self._other = keys if listener else reversed(keys)
        self._sent = self._received = 0
        self._lock = threading.Lock()
        self.send({})
        if self.receive() is None:
            raise ConnectionError("the other end does not know the job's secret")
        connection.settimeout(None)

    def fileno(self) -> int:
        """For selectors."""
        return self._connection.fileno()

    def send(self, message: Message) -> None:
        """OSError if the other end has gone."""
        content = json.dumps(message).encode()
        with self._lock:
            tag = _tag(self._own, self._sent, content)
            self._sent += 1
            self._connection.sendall(_HEAD.pack(len(content), tag) + content)

    def receive(self) -> Message | None:
        """The next message; None at the end, also at one that is not the other end's."""
        try:
            length, tag = _HEAD.unpack(_read(self._connection, _HEAD.size))
            if length > (_LARGEST if self._received else 2):
                return None
            content = _read(self._connection, length)
        except OSError:
            return None
        if not hmac.compare_digest(tag, _tag(self._other, self._received, content)):
            return None
        self._received += 1
        message: Message = json.loads(content)
        return message

    def close(self) -> None:
        """Ends the connection, for a thread that receives too."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._connection.close()


def call(address: tuple[str, int], secret: bytes) -> Channel:
    """Connects to a `Desk`."""
    connection = socket.create_connection(address, timeout=_PATIENCE)
    try:
        return Channel(connection, secret, listener=False)
    except BaseException:
        connection.close()
        raise


class Desk:
    """Where the driver can be reached.

    Args:
        host: To listen at.
        on_message: Called with each message and its channel, by a thread of that channel.
        on_end: Called with a channel when its other end has gone.
    """

    def __init__(
        self,
        host: str,
        secret: bytes,
        on_message: Callable[[Channel, Message], None],
        on_end: Callable[[Channel], None],
    ) -> None:
        self._listener = socket.create_server((host, 0))
        self._secret = secret
        self._on_message = on_message
        self._on_end = on_end
        self._channels: set[Channel] = set()
        self._lock = threading.Lock()
        self._closed = False
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="colla-spark-desk", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), name="colla-spark-desk", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            channel = Channel(connection, self._secret, listener=True)
        except OSError:
            connection.close()
            return
        with self._lock:
            if self._closed:
                channel.close()
                return
            self._channels.add(channel)
        while (message := channel.receive()) is not None:
            self._on_message(channel, message)
        with self._lock:
            self._channels.discard(channel)
        channel.close()
        self._on_end(channel)

    def close(self) -> None:
        """Ends all connections."""
        with self._lock:
            self._closed = True
            channels = list(self._channels)
        try:
            self._listener.shutdown(socket.SHUT_RDWR)  # Wakes accept().
        except OSError:
            pass
        self._listener.close()
        for channel in channels:
            channel.close()


def _tag(key: bytes, number: int, content: bytes) -> bytes:
    return hmac.digest(key, struct.pack(">Q", number) + content, hashlib.sha256)


def _read(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size > 0:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise ConnectionError("the other end has closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
