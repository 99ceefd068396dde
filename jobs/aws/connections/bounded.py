"""aiobotocore's HTTP, with each request bounded as a whole."""

from __future__ import annotations

import asyncio
from typing import Any

from aiobotocore.httpsession import AIOHTTPSession
from botocore.exceptions import ReadTimeoutError


class BoundedSession(AIOHTTPSession):
    """Gives a request up after the connect and the read timeout together.

    An answer that arrives byte by byte never exceeds a read timeout by its silence. The time counts
    from when the request has one of the connections. botocore tries the request again, as after
    silence. A body that is read as a stream, after `send`, is not bounded.

    Args:
        timeout: the timeouts to connect and to read, in seconds.
        max_pool_connections: the maximum number of requests under way.
        rest: further arguments for aiobotocore.
    """

    def __init__(
        self, *, timeout: tuple[float, float], max_pool_connections: int, **rest: Any
    ) -> None:
        # aiobotocore says that it takes a number, and passes two.
        both: Any = timeout
        super().__init__(timeout=both, max_pool_connections=max_pool_connections, **rest)
        self._bound_s = sum(timeout)
        self._places = asyncio.Semaphore(max_pool_connections)

    async def send(self, request: Any) -> Any:
        """Send a request; return the answer, read to its end.

        Raises:
            HTTPClientError: there is no answer, or not in time.
        """
        try:
            async with self._places, asyncio.timeout(self._bound_s):
                return await super().send(request)
        except TimeoutError as error:
            raise ReadTimeoutError(endpoint_url=request.url, error=error) from error
