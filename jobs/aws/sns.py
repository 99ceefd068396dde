"""`jobs.core.ports.Publisher` on SNS."""

from __future__ import annotations

import threading
from typing import Any

from headgate.jobs.aws.connections.connection import Connection, aws_client
from headgate.jobs.aws.connections.faults import naming


class SnsPublisher:
    """One topic, on boto3. Safe to share between threads.

    It opens with its first call. Each call has three tries, of 10 s each; a repeated one may
    publish twice.

    Args:
        topic: the topic's ARN.
        endpoint_url: None for the one in ``AWS_ENDPOINT_URL_SNS``, ``AWS_ENDPOINT_URL`` or the
            profile, else AWS's own.
    """

    def __init__(self, topic: str, *, endpoint_url: str | None = None) -> None:
        self._topic = topic
        self._connection = Connection(endpoint_url=endpoint_url, pool=1)
        self._opening = threading.Lock()
        self._client: Any = None  # boto3 makes its classes when it runs

    def close(self) -> None:
        """Close the connection; the next call would open it anew. Idempotent."""
        with self._opening:
            if self._client is not None:
                client, self._client = self._client, None
                client.close()

    def publish(self, subject: str, text: str) -> None:
        """Publish a message.

        https://docs.aws.amazon.com/sns/latest/api/API_Publish.html
        """
        client = self._opened()
        with naming("sns:Publish", self._topic):
            client.publish(TopicArn=self._topic, Subject=subject, Message=text)

    def _opened(self) -> Any:
        with self._opening:
            if self._client is None:
                self._client = aws_client("sns", self._connection)
            return self._client
