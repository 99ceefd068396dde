"""`lambdas.sweep.publisher.Publisher` on SNS."""

from __future__ import annotations

from typing import Unpack

from headgate.jobs.aws.connections.clients import Clients, client_of
from headgate.jobs.aws.connections.connection import Access, Connection
from headgate.jobs.aws.connections.faults import naming
from headgate.jobs.core.immediate import drive, driven


class SnsPublisher:
    """One topic, on boto3. Safe to share between threads.

    It opens with its first call, and again with one after `close`. Each call has three tries, of
    10 s each; a repeated one may publish twice.

    Args:
        topic: The topic's ARN.
        access: As in `Connection`; the session is one of boto3.
    """

    def __init__(self, topic: str, **access: Unpack[Access]) -> None:
        self._topic = topic
        self._client = client_of(Clients(Connection(pool=1, **access)), "sns")
        self.close = driven(self._client.stop)

    def publish(self, subject: str, text: str) -> None:
        """Publish a message.

        https://docs.aws.amazon.com/sns/latest/api/API_Publish.html
        """
        client = drive(self._client.opened())
        with naming("sns:Publish", self._topic):
            drive(client.publish(TopicArn=self._topic, Subject=subject, Message=text))
