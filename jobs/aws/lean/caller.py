"""Calls to an AWS JSON service: signed, tried again, and read, over any HTTP client.

botocore runs every request through hooks, serializers and parsers that fit any service, which is
most of a call's cost. This package knows one protocol, and leaves to botocore all that is not done
for every request: the credentials and their refresh, the region, the endpoint, the CA bundle, and
the reading of error responses. Where botocore's configuration needs more than that,
`jobs.aws.lean.route` finds no route, and botocore's own client makes the calls.

`LeanCaller` is written once, for an event loop and for threads: only HTTP and pauses differ
(`jobs.aws.lean.async_http`, `jobs.aws.lean.sockets`).
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

from botocore.exceptions import ClientError, CredentialRetrievalError

from headgate.jobs.aws.connections import skew
from headgate.jobs.aws.connections.faults import FOREIGN
from headgate.jobs.aws.connections.retries import tried
from headgate.jobs.aws.lean.answer import HttpAnswer, written
from headgate.jobs.aws.lean.route import Route
from headgate.jobs.aws.lean.services import JsonService
from headgate.jobs.aws.lean.sigv4 import Credentials, Signer
from headgate.jobs.core.clock import Clock
from headgate.jobs.values.own_log import OwnLog

_log = OwnLog("headgate.aws")


class Caller(Protocol):
    """Makes the calls of a service; raises errors that `jobs.aws.connections.faults` translates."""

    async def call(self, action: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the response to ``action``, such as ``SendMessageBatch``."""
        ...


class Http(Protocol):
    """Sends requests to the root of one endpoint."""

    async def post(self, head: bytes, body: bytes) -> HttpAnswer:
        """Return the answer, whatever its status.

        Args:
            head: the request's head, as `jobs.aws.lean.http1.head_of` returns it.
            body: its body, whose length is added.

        Raises:
            BotoCoreError: there is none, or not in time.
        """
        ...


class LeanCaller:
    """Makes a service's calls, and raises the same errors as botocore's client.

    Throttling, 5xx and connection errors are tried again after a pause, by
    `jobs.aws.connections.retries`. When AWS doesn't accept a signature and its clock is minutes off
    ours, the request is signed once more by AWS's clock, and so are those that follow; a clock that
    is more than a day off has to be set first.

    Safe to share between threads if its arguments are.

    Args:
        service: the service to call.
        route: the endpoint, and the means to sign.
        http: sends the requests.
        attempts: maximum number of tries of a call.
        clock: tells the time of signatures.
        pause: waits that many seconds between two tries.
        rng: spreads the pauses.
    """

    def __init__(
        self,
        service: JsonService,
        route: Route,
        http: Http,
        *,
        attempts: int,
        clock: Clock,
        pause: Callable[[float], Awaitable[None]],
        rng: random.Random | None = None,
    ) -> None:
        self._http = http
        self._credentials_of = route.credentials
        self._attempts = attempts
        self._clock = clock
        self._pause = pause
        self._rng = rng or random.Random()  # noqa: S311  spreads load, guards no secret
        self._service = service
        self._region = route.region
        self._authority = route.endpoint.authority
        self._signers: dict[str, Signer] = {}
        """By action."""
        self._skew = timedelta()
        self._user_agent = route.user_agent

    async def call(self, action: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to ``action``, such as ``SendMessageBatch``.

        Raises:
            ClientError: AWS refused the call.
            ResponseParserError: the response is not a JSON object.
            BotoCoreError: there was no response, or there are no credentials.
        """
        return await tried(
            partial(self._answer, action, written(params)),
            attempts=self._attempts,
            pause=self._pause,
            rng=self._rng,
        )

    async def _answer(self, action: str, body: bytes) -> dict[str, Any]:
        answer, signed_at = await self._post(action, body)
        if answer.refused and self._was_mistimed(answer, answer.refusal(action), signed_at):
            answer, _ = await self._post(action, body)
        if answer.refused:
            raise answer.refusal(action)
        return answer.read()

    async def _post(self, action: str, body: bytes) -> tuple[HttpAnswer, datetime]:
        """Return the answer, and the time that the request was signed by."""
        signer = self._signers.get(action) or self._signers.setdefault(action, self._signer(action))
        credentials = await self._credentials()
        signed_at = self._clock.now() + self._skew
        head = signer.head(body, credentials=credentials, at=signed_at)
        return await self._http.post(head, body), signed_at

    def _signer(self, action: str) -> Signer:
        headers = {
            "content-type": "application/x-amz-json-1.0",
            "host": self._authority,
            "x-amz-target": f"{self._service.target}.{action}",
            **self._service.headers,
        }
        unsigned = {"user-agent": self._user_agent, "accept-encoding": "identity"}
        return Signer(headers, unsigned, region=self._region, service=self._service.name)

    async def _credentials(self) -> Credentials:
        """Return botocore's, refreshed; a ``credential_process`` may make that raise anything."""
        try:
            return await self._credentials_of()
        except FOREIGN:
            raise
        except Exception as error:
            # Only the error's class: its text may show the process's output.
            raise CredentialRetrievalError(
                provider="botocore", error_msg=type(error).__name__
            ) from error

    def _was_mistimed(self, answer: HttpAnswer, refusal: ClientError, signed_at: datetime) -> bool:
        """Return True if AWS may have refused because of the time that the request was signed by.

        What follows is then signed by AWS's clock. Requests under way together are refused
        together: the first of them has this learn the skew, and all are signed anew.
        """
        code, now = refusal.response.get("Error", {}).get("Code", ""), self._clock.now()
        found = skew.skew_of(answer.headers, now) if code in skew.CODES else None
        if found is None or abs(found) > skew.MOST or abs(now + found - signed_at) < skew.TOLERATED:
            return False
        if abs(found - self._skew) >= skew.TOLERATED:
            if abs(found) < skew.TOLERATED:
                _log.info("this machine's clock agrees with AWS's again; signing requests by it")
            else:
                _log.warning("%s; signing requests with AWS's time until then", skew.told(found))
            self._skew = found
        return True
