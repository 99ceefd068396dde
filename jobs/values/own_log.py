"""Headgate's own loggers, which no configuration silences by default."""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from typing import Any


class OwnLog(logging.LoggerAdapter[logging.Logger]):
    """One of Headgate's loggers, which writes even after `logging.config` has disabled it.

    ``dictConfig`` and ``fileConfig`` disable every logger that exists already and that they don't
    name, unless ``disable_existing_loggers`` is False, which isn't the default. Whoever calls them
    at the top of an app, in ``django.setup()`` or in a migration that a job runs doesn't mean the
    failures of jobs. A level silences: that of ``headgate``, for instance.

    Args:
        name: the logger's.
        extra: fields of every line, beside the caller's own.
    """

    def __init__(self, name: str, extra: Mapping[str, object] | None = None) -> None:
        super().__init__(logging.getLogger(name), extra)

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - logging's own name
        """Return True if lines of a level are written; called before each of them."""
        self.logger.disabled = False
        return self.logger.isEnabledFor(level)

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Return the line's text, and its arguments with the fields of every line."""
        if self.extra:
            kwargs["extra"] = {**self.extra, **(kwargs.get("extra") or {})}
        return msg, kwargs
