"""SNS in memory, as far as `lambdas.sweep.publisher.Publisher` needs it, with faults on demand."""

from __future__ import annotations

import re

_SUBJECT = re.compile(r"[!-~][ -~]{0,98}")
_MAX_BYTES = 262_144


class MemoryTopic:
    """A topic in memory: a `lambdas.sweep.publisher.Publisher`.

    ``published`` lists the messages, as subject and text. It takes the messages that SNS takes, and
    raises a ValueError for others.
    https://docs.aws.amazon.com/sns/latest/api/API_Publish.html

    >>> topic = MemoryTopic()
    >>> topic.fail(ServiceUnavailable("SNS is down"), times=2)
    """

    def __init__(self) -> None:
        self.published: list[tuple[str, str]] = []
        self._faults: list[Exception] = []

    def fail(self, error: Exception, *, times: int = 1) -> None:
        """Raise ``error`` from the next ``times`` calls, in place of doing them."""
        self._faults += [error] * times

    def publish(self, subject: str, text: str) -> None:
        """Add a message to ``published``."""
        if not _SUBJECT.fullmatch(subject):
            raise ValueError(f"SNS takes 1 to 99 printable characters of ASCII, got {subject!r}")
        if not 0 < len(text.encode()) <= _MAX_BYTES:
            raise ValueError(f"SNS takes 1 to {_MAX_BYTES:,} bytes of text")
        if self._faults:
            raise self._faults.pop(0)
        self.published.append((subject, text))
