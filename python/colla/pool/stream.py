"""The messages of many channels over one pair of byte streams, such as the input and output of ssh."""

import os
import struct
from collections.abc import Sequence
from typing import NoReturn

from colla.pool.channel import Channel, Kind
from colla.pool.parcel import Parcel, write_all

_HEAD = struct.Struct("<HBQIQ")  # Place of the channel, and the head of its message.
_PIECE = 1 << 20


class Stream:
    """Thread safety: one sender and one receiver at a time."""

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target

    def send(self, place: int, kind: Kind, number: int, parcel: Parcel) -> None:
        """Gives the parcel away. OSError if the other side is gone."""
        try:
            write_all(self._target, [_HEAD.pack(place, kind, number, parcel.parts, parcel.size), parcel.content])
            sent = parcel.size if parcel.file < 0 else 0
            while sent < parcel.size:
                sent += os.sendfile(self._target, parcel.file, sent, parcel.size - sent)
        finally:
            parcel.close()

    def receive(self) -> tuple[int, Kind, int, Parcel]:
        """EOFError if the other side is gone."""
        place, kind, number, parts, size = _HEAD.unpack(self._read(_HEAD.size))
        if parts == 0:
            return place, kind, number, Parcel(self._read(size))
        parcel = Parcel(b"", os.memfd_create("colla-pool", os.MFD_CLOEXEC), parts, size)
        try:
            left = size
            while left > 0:
                piece = self._read(min(left, _PIECE))
                write_all(parcel.file, [piece])
                left -= len(piece)
        except BaseException:
            parcel.close()
            raise
        return place, kind, number, parcel

    def _read(self, size: int) -> bytes:
        pieces = []
        while size > 0:
            piece = os.read(self._source, size)
            if not piece:
                raise EOFError
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def hand_out(stream: Stream, channels: Sequence[Channel]) -> NoReturn:
    """Gives each message that comes to its channel; raises EOFError or OSError in the end."""
    while True:
        place, kind, number, parcel = stream.receive()
        channels[place].send(kind, number, parcel)
