"""botocore's client in place of a lean caller."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from botocore import xform_name

from headgate.jobs.aws.connections.retries import tried


class SdkCaller:
    """A `jobs.aws.lean.caller.Caller` on a client whose calls are awaited.

    Args:
        client: aiobotocore's, or boto3's behind `jobs.aws.connections.connection.ImmediateClient`.
        attempts: maximum number of calls of the client, which may try several times itself.
        pause: waits that many seconds between two tries.
    """

    def __init__(
        self, client: Any, *, attempts: int, pause: Callable[[float], Awaitable[None]]
    ) -> None:
        self._client = client
        self._attempts = attempts
        self._pause = pause
        self._rng = random.Random()  # noqa: S311 - spreads pauses, guards no secret

    async def call(self, action: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make a call by its name in the service, such as ``SendMessageBatch``."""
        method = getattr(self._client, xform_name(action))
        return await tried(
            partial(method, **params), attempts=self._attempts, pause=self._pause, rng=self._rng
        )
