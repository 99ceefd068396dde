"""The returns of a paused job's message of which a record is written.

A message that comes while it is paused goes back unstarted, again and again. Its job's records
explain that, or its deliveries would look like those of a job that kills its workers. A record of
the first, second and fourth delivery, and of every eighth, explains those up to the next of them.
"""

from __future__ import annotations

_EVERY = 8


def is_told(receive: int) -> bool:
    """Return True if a record is written when a delivery goes back because of a pause.

    Args:
        receive: the number of the delivery, from 1.
    """
    return receive in (1, 2, 4) or receive % _EVERY == 0
