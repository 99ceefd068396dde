"""Kernel locks that tell which processes have a spool open, and vanish with the process.

A lease in the file outlives the process that took it; a kernel lock does not, however the process
ends, and dropping one takes no room on the disk. So each process locks two bytes, chosen at random,
of an empty file beside the spool: one while it has the spool open, the other while it knows of sent
jobs that it could not yet delete from the file.

A lock that is free can be relied on:

- Only locks of this very kernel are looked at (`KERNEL`). Containers on one machine share it, and
  with it the locks on a file that they share. Another machine, on a network file system, has its
  own: its leases, and those from before a restart, are judged by their age.
- These locks belong to an open file (``F_OFD_SETLK``), not to the process: neither a second client
  of the process nor a closed descriptor drops them, unlike POSIX locks. A forked child would share
  them, and closes its copy.
- On a file system that grants every lock, nothing is locked: this is tested when the file is
  opened.

On systems without such locks (macOS, Windows), leases are judged by their age alone.
https://man7.org/linux/man-pages/man2/F_OFD_SETLK.2const.html
"""

from __future__ import annotations

import os
import secrets
import struct
import sys
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.platform == "linux":
    import fcntl

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_FLOCK = "hhqqi4x"
"""``struct flock``: type, whence, start, length, and the process, which is 0 for these locks."""

_MOST = 2**40


def _kernel() -> str | None:
    if sys.platform != "linux":
        return None
    with suppress(OSError):
        return _BOOT.read_text().strip()
    return None


KERNEL = _kernel()
"""Id of the running kernel until it restarts; None if it is unknown, or has no such locks."""


class SpoolLocks:
    """A process's own two locks, and queries of other processes' locks. Thread-safe.

    Args:
        path: the spool's path; the locks are on ``{path}-locks``.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._descriptor: int | None = None
        self._settling = False
        self.number: int | None = None
        """Number by which others find this process's locks; None if nothing can be locked."""
        if KERNEL is not None:
            with suppress(OSError):  # no room even for an empty file: leases go by age
                self._open(f"{os.fspath(path)}-locks")
        _all.add(self)

    def close(self) -> None:
        """Drop the locks. Idempotent."""
        self.number = None
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)

    def is_open(self, number: int) -> bool:
        """Return True if the process of that number has the spool open, or if this is unknown."""
        if number == self.number or self._descriptor is None:
            return True
        return _is_locked(self._descriptor, 2 * number)

    def is_settling(self, number: int) -> bool:
        """Return True if that process knows of sent jobs that are still in the file."""
        if number == self.number or self._descriptor is None:
            return number == self.number and self._settling
        return _is_locked(self._descriptor, 2 * number + 1)

    def settling(self, *, settling: bool) -> None:
        """Set or drop this process's own settling lock."""
        if settling == self._settling or self.number is None or self._descriptor is None:
            return
        kind = fcntl.F_WRLCK if settling else fcntl.F_UNLCK
        _lock(self._descriptor, 2 * self.number + 1, kind)
        self._settling = settling

    def _open(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        number = secrets.randbelow(_MOST)
        _lock(self._descriptor, 2 * number, fcntl.F_WRLCK)
        other = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if _is_locked(other, 2 * number):
                self.number = number
        finally:
            os.close(other)


def _lock(descriptor: int, byte: int, kind: int) -> None:
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, 0, byte, 1, 0))


def _is_locked(descriptor: int, byte: int) -> bool:
    """Return True if another open file has a lock on that byte."""
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, 0, byte, 1, 0)
    answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked)
    kind: int = struct.unpack(_FLOCK, answer)[0]
    return kind != fcntl.F_UNLCK


_all: weakref.WeakSet[SpoolLocks] = weakref.WeakSet()


def _forked() -> None:
    for locks in list(_all):
        locks.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
