"""The interface of a topic of SNS, which `jobs.aws.sns` has on AWS, and tests in memory."""

from __future__ import annotations

from typing import Protocol


class Publisher(Protocol):
    """A topic that people are subscribed to, for synchronous code."""

    def publish(self, subject: str, text: str) -> None:
        """Publish a message; the service has it on return. May raise a `TransportError`.

        Args:
            subject: 1 to 99 printable characters of ASCII.
            text: at most 256 KiB.
        """
        ...
