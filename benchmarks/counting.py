"""Counters of the instructions that a part of a process executes, itself and not the kernel.

The CPU's own counter is exact and free, but few virtual machines pass it on. Callgrind, a tool of
valgrind, counts on a simulated CPU, some fifty times slower; both count the same whatever else the
machine is doing.
"""

from __future__ import annotations

# An import of Headgate is counted in processes that import this module: it needs next to nothing.
import ctypes
import mmap
import os
import struct
import sys
from typing import Protocol


class Counter(Protocol):
    """Counts what this process executes from `start` to `stop`."""

    def start(self) -> None:
        """Begin to count."""

    def stop(self) -> None:
        """End, and print the number, if the counter itself doesn't."""


class CpuCounter:
    """The CPU's counter of this thread, by `perf_event_open` (its manual page has the struct).

    Args:
        kind, config: what it counts: ``PERF_TYPE_HARDWARE``, ``PERF_COUNT_HW_INSTRUCTIONS``.

    Raises:
        OSError: the machine has no such counter, or doesn't let this process read it.
    """

    _SYSCALL = 298
    _SIZE = 112
    """Of the struct ``perf_event_attr``; the kernel takes what follows as 0."""
    _FLAGS = 0b1100001
    """``disabled``, ``exclude_kernel``, ``exclude_hv``."""
    _ENABLE, _DISABLE, _RESET = 0x2400, 0x2401, 0x2403

    def __init__(self, *, kind: int = 0, config: int = 1) -> None:
        described = struct.pack("IIQQQQQ", kind, self._SIZE, config, 0, 0, 0, self._FLAGS)
        attributes = ctypes.create_string_buffer(described, self._SIZE)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file = self._libc.syscall(self._SYSCALL, attributes, 0, -1, -1, 0)
        if self._file < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    def start(self) -> None:
        """Begin to count."""
        self._libc.ioctl(self._file, self._RESET, 0)
        self._libc.ioctl(self._file, self._ENABLE, 0)

    def stop(self) -> None:
        """End, and print the number as callgrind does."""
        self._libc.ioctl(self._file, self._DISABLE, 0)
        (counted,) = struct.unpack("Q", os.read(self._file, 8))
        os.close(self._file)
        print(f"Collected : {counted}", file=sys.stderr)


class CallgrindCounter:
    """Callgrind, under which this process runs; its number comes when the process ends.

    Only the part that is counted runs at callgrind's pace, and the rest several times faster. A
    process asks for that by a *client request*: six words in memory, and a sequence of instructions
    that does nothing on a real CPU (``valgrind.h``, ``VALGRIND_DO_CLIENT_REQUEST_EXPR``).
    """

    _CODE = bytes.fromhex("4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3")
    _START, _STOP = 0x43540004, 0x43540005

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE, prot=7)
        self._memory.write(self._CODE)
        at = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._request = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(at)

    def start(self) -> None:
        """Begin to count."""
        self._request(struct.pack("6Q", self._START, 0, 0, 0, 0, 0))

    def stop(self) -> None:
        """End; callgrind tells the number when the process has ended."""
        self._request(struct.pack("6Q", self._STOP, 0, 0, 0, 0, 0))


COUNTERS: dict[str, type[CpuCounter | CallgrindCounter]] = {
    "cpu": CpuCounter,
    "callgrind": CallgrindCounter,
}
