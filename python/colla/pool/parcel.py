"""What travels between a pool and its workers: one value, pickled, with its large parts beside the pickle.

A small value is a pickle inside of a message. A large one lies in a file in memory that has no name (memfd): the
kernel frees it with the last process that has it open or mapped, however that ends, so nothing is left in /dev/shm.
The sender writes arrays there straight from where they lie, and the receiver maps the file, so an array of 100 MB
is copied once. The file begins with the lengths of its parts, the pickle is the first part, and each part starts
at a multiple of 64 bytes.
"""

import itertools
import os
import pickle
import struct
from collections.abc import Sequence
from typing import Any

from colla.pool.pickling import Pickling

# The largest pickle inside of a message.
INLINE = 48 << 10
# A smaller file is read, because a mapping costs more than a copy does.
_MAPPED = 1 << 20
_ALIGNMENT = 64
_MOST_BUFFERS = 1024  # Of one writev().


class Parcel:
    """A packed value, inside of a message or in a file. Thread safety: none. It owns its file until it is closed."""

    __slots__ = ("content", "file", "parts", "size")

    def __init__(self, content: bytes, file: int = -1, parts: int = 0, size: int = 0) -> None:
        self.content = content
        self.file = file
        self.parts = parts  # In the file.
        self.size = size or len(content)

    def close(self) -> None:
        """Lets go of the file. What was unpacked stays."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def unpack(self) -> Any:
        """The value; its arrays may be written to. Once only: they lie in the file."""
        try:
            if self.file < 0:
                return pickle.loads(self.content)
            memory = _read(self.file, self.size) if self.size < _MAPPED else _map(self.file, self.size)
        finally:
            self.close()
        begin = 8 * self.parts
        views = []
        for length in struct.unpack_from(f"<{self.parts}Q", memory):
            begin += -begin % _ALIGNMENT
            views.append(memory[begin : begin + length])
            begin += length
        return pickle.loads(views[0], buffers=views[1:])


def pack(value: Any, pickling: Pickling) -> Parcel:
    """The exceptions of pickling pass through; OSError when there is no memory."""
    buffers: list[memoryview] = []
    content = pickling.dumps(value, buffers)
    if not buffers and len(content) <= INLINE:
        return Parcel(content)
    views = [memoryview(content), *buffers]
    written: list[Any] = [struct.pack(f"<{len(views)}Q", *(view.nbytes for view in views))]
    size = len(written[0])
    for view in views:
        padding = -size % _ALIGNMENT
        written += [bytes(padding), view] if padding else [view]
        size += padding + view.nbytes
    file = os.memfd_create("colla-pool", os.MFD_CLOEXEC)
    try:
        write_all(file, written)
    except BaseException:
        os.close(file)
        raise
    return Parcel(b"", file, len(views), size)


def write_all(file: int, buffers: Sequence[Any]) -> None:
    """Writes all of `buffers`, in as many calls as it takes."""
    left = [memoryview(buffer) for buffer in buffers if len(buffer)]
    while left:
        done = os.writev(file, list(itertools.islice(left, _MOST_BUFFERS)))
        whole = 0
        while whole < len(left) and done >= left[whole].nbytes:
            done -= left[whole].nbytes
            whole += 1
        del left[:whole]
        if done:
            left[0] = left[0][done:]


def _read(file: int, size: int) -> memoryview:
    memory = memoryview(bytearray(size))
    done = 0
    while done < size:
        got = os.preadv(file, [memory[done:]], done)
        if got == 0:
            raise EOFError("a message of the pool is shorter than it says")
        done += got
    return memory


def _map(file: int, size: int) -> memoryview:
    """The file as memory, for as long as somebody uses a part of it."""
    # By ctypes: a mapping of the module mmap keeps a descriptor open, and a program may keep thousands of arrays.
    import ctypes
    import mmap
    import weakref

    if os.fstat(file).st_size < size:
        raise EOFError("a message of the pool is shorter than it says")
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
    address = library.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, file, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        error = ctypes.get_errno()
        raise OSError(error, f"no memory for a message of {size} bytes: {os.strerror(error)}")
    memory = (ctypes.c_ubyte * size).from_address(address)
    # Not at exit: others may still use the memory then, and the kernel unmaps it anyway.
    weakref.finalize(memory, library.munmap, address, size).atexit = False
    return memoryview(memory).cast("B")
