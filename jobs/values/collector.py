"""Python's garbage collector, held off while many objects are made that stay.

It examines all objects whenever enough new ones have been made, and lets no thread run meanwhile.
Where hardly any of them becomes garbage, as in an import or in a large value of JSON, that is in
vain.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Collector:
    """Keeps the collector from running while any block holds it off, in whatever thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._making = 0
        self._was_enabled = False

    @contextmanager
    def held_off(self) -> Iterator[None]:
        """Keep it from running until the block ends, and others like it."""
        with self._lock:
            if not self._making:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._making += 1
        try:
            yield
        finally:
            with self._lock:
                self._making -= 1
                if not self._making and self._was_enabled:
                    _count_as_old()
                    gc.enable()


def _count_as_old() -> None:
    """Move all objects to the oldest generation, without a look at them.

    Otherwise the next small collection would examine all that were made meanwhile.
    """
    if gc.get_freeze_count():
        return  # frozen by the process itself, as before a fork: it must stay so
    gc.freeze()
    gc.unfreeze()


held_off = _Collector().held_off
