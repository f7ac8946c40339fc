"""A pool's connection to one worker of the same host: messages in order, each whole or not at all."""

import array
import enum
import os
import socket
import struct

from colla.pool.parcel import INLINE, Parcel

_HEAD = struct.Struct("<BIQ")
_FILE_SPACE = socket.CMSG_SPACE(4)


class Kind(enum.IntEnum):
    """What a message is about. A worker answers each TASK, in order, with a RESULT or an ERROR."""

    READY = 0  # From a worker, before its first task.
    TASK = 1
    RESULT = 2
    ERROR = 3  # Of the task, or of the initializer if it comes instead of READY.
    LOST = 4  # The worker has ended: its last words. From those that watch workers elsewhere.


class Channel:
    """One end of a socket whose messages keep their borders. Thread safety: one sender and one receiver at a time."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._buffer = bytearray(_HEAD.size + INLINE)

    @staticmethod
    def pair() -> tuple[socket.socket, socket.socket]:
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, kind: Kind, parcel: Parcel) -> None:
        """Gives the parcel away. OSError if the other side is gone."""
        head = _HEAD.pack(kind, parcel.parts, parcel.size)
        if parcel.file < 0:
            self.socket.sendmsg((head, parcel.content))
        else:
            files = array.array("i", [parcel.file])
            self.socket.sendmsg((head,), [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
            parcel.close()

    def receive(self) -> tuple[Kind, Parcel]:
        """EOFError or ConnectionError if the other side is gone."""
        size, ancillary, flags, _ = self.socket.recvmsg_into([self._buffer], _FILE_SPACE, socket.MSG_CMSG_CLOEXEC)
        if size == 0:
            raise EOFError
        kind, parts, length = _HEAD.unpack_from(self._buffer)
        if parts == 0:
            return Kind(kind), Parcel(bytes(memoryview(self._buffer)[_HEAD.size : size]))
        if flags & socket.MSG_CTRUNC or not ancillary:
            raise OSError("no descriptor is free for a message of the pool: raise the limit of `ulimit -n`")
        (file,) = array.array("i", ancillary[0][2])
        return Kind(kind), Parcel(b"", file, parts, length)

    def close(self) -> None:
        self.socket.close()
