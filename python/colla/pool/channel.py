"""A pool's connection to one worker of the same host: messages in order, each whole or not at all."""

import array
import enum
import socket
import struct

from colla.pool.parcel import INLINE, Parcel

_HEAD = struct.Struct("<BQIQ")  # Kind, number of the task, parts and size of the parcel.
_FILE_SPACE = socket.CMSG_SPACE(4)


class Kind(enum.IntEnum):
    """What a message is about. A worker answers each TASK, in order, with a RESULT or an ERROR."""

    READY = 0  # From a worker, before its first task.
    TASK = 1
    RESULT = 2
    ERROR = 3  # Of the task, or of the initializer if it comes instead of READY.
    PLAN = 4  # To an agent on another host, before anything else.
    LOST = 5  # From an agent: the worker has ended, with how, and a new one takes its place.


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

    def send(self, kind: Kind, number: int, parcel: Parcel, wait: bool = True) -> None:
        """Gives the parcel away. OSError if the other side is gone, BlockingIOError if it is full and `wait` is False."""
        head = _HEAD.pack(kind, number, parcel.parts, parcel.size)
        if parcel.file < 0:
            self.socket.send(head + parcel.content, 0 if wait else socket.MSG_DONTWAIT)
        else:
            files = array.array("i", [parcel.file])
            self.socket.sendmsg((head,), [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
            parcel.close()

    def receive(self, wait: bool = True) -> tuple[Kind, int, Parcel]:
        """EOFError or ConnectionError if the other side is gone. BlockingIOError if nothing is there and it shall not wait."""
        flags = socket.MSG_CMSG_CLOEXEC | (0 if wait else socket.MSG_DONTWAIT)
        size, ancillary, got, _ = self.socket.recvmsg_into([self._buffer], _FILE_SPACE, flags)
        if size == 0:
            raise EOFError
        kind, number, parts, length = _HEAD.unpack_from(self._buffer)
        if parts == 0:
            return kind, number, Parcel(bytes(memoryview(self._buffer)[_HEAD.size : size]))
        if got & socket.MSG_CTRUNC or not ancillary:
            raise OSError("no descriptor is free for a message of the pool: raise the limit of `ulimit -n`")
        (file,) = array.array("i", ancillary[0][2])
        return kind, number, Parcel(b"", file, parts, length)

    def close(self) -> None:
        self.socket.close()
