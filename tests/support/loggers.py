"""Loggers of the process, restored after a test that sets them up."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

HEADGATE = "headgate"


@contextmanager
def restored(name: str | None = HEADGATE, *, bare: bool = False) -> Iterator[logging.Logger]:
    """Yield a logger, and restore its handlers, level and propagation at the end.

    A level must be set by ``setLevel``: a logger remembers for which levels it is enabled, and an
    assignment to ``level`` would leave that as it was, for whatever test comes next.

    Args:
        name: the logger's name; None for the root's.
        bare: True to take its handlers away at the beginning.
    """
    logger = logging.getLogger(name)
    handlers, level, propagate = logger.handlers[:], logger.level, logger.propagate
    if bare:
        logger.handlers = []
    try:
        yield logger
    finally:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)
