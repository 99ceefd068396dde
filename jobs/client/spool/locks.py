"""Locks that say which processes have a spool open, held by the kernel and gone with them.

A lease in the file outlives the process that took it; a lock of the kernel's does not, however the
process ends, and to drop one takes no room on the disk. So each process locks two bytes, chosen at
random, of an empty file beside the spool: one while it has the spool open, the other while it knows
of jobs that SQS has and the file can't be told of.

Why a lock that is free may be believed:

- Only locks of this very kernel are asked for (`KERNEL`). Containers on one machine share it, and
  with it the locks on a file that they share. Another machine, on a network file system, has its
  own: what it left, and what was left before a restart, goes by its age.
- These locks belong to an open file (``F_OFD_SETLK``), not to the process: neither a second client
  of the process nor a closed descriptor drops them, as it does POSIX's. A forked child would share
  them, and closes its copy.
- On a file system that grants a lock to everybody, nothing is locked: it is tried at the opening.

Where there are no such locks (macOS, Windows), leases go by their age alone.
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
"""Names the running kernel until it restarts; None where it can't be told, or has no such locks."""


class SpoolLocks:
    """A process's own two locks, and a look at those of others. Safe to share by threads.

    Args:
        path: of the spool; the locks are on ``{path}-locks``.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._descriptor: int | None = None
        self._settling = False
        self.number: int | None = None
        """By which others find this process's locks; None where nothing can be locked."""
        if KERNEL is not None:
            with suppress(OSError):  # a disk without room for an empty file: ages decide
                self._open(f"{os.fspath(path)}-locks")
        _all.add(self)

    def close(self) -> None:
        """Drop the locks. Idempotent."""
        self.number = None
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)

    def is_open(self, number: int) -> bool:
        """True if the process of that number still has the spool open, as far as can be told."""
        if number == self.number or self._descriptor is None:
            return True
        return _is_locked(self._descriptor, 2 * number)

    def is_settling(self, number: int) -> bool:
        """True if it knows of jobs that have been sent, and has yet to tell the file."""
        if number == self.number or self._descriptor is None:
            return number == self.number and self._settling
        return _is_locked(self._descriptor, 2 * number + 1)

    def settling(self, *, settling: bool) -> None:
        """Say whether this process does."""
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
    """True if somebody else's lock is on that byte."""
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
