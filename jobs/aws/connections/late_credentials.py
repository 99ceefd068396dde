"""Credentials whose source fails while a client is opened: looked up again by each call.

aiobotocore looks credentials up when it makes a client. So a ``credential_process``, or a
container's or an instance's endpoint, that fails for a moment would keep a worker from starting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiobotocore.credentials import AioCredentials
from aiobotocore.session import AioSession
from botocore.exceptions import BotoCoreError, CredentialRetrievalError, NoCredentialsError

from headgate.jobs.aws.connections.instance_role import expects_role, no_role_yet

_log = logging.getLogger("headgate.aws")

LOOK_UP_S = 10.0
"""Maximum seconds for a look-up; botocore sets no bound for a ``credential_process``."""

_WRONG_FOR_GOOD = frozenset(
    {
        "InfiniteLoopConfigError",
        "InvalidConfigError",
        "PartialCredentialsError",
        "ProfileNotFound",
        "UnknownCredentialError",
    }
)
"""Names of errors that only a change of the configuration mends."""


class PatientSession(AioSession):
    """An aiobotocore session whose clients can open while credentials are not available."""

    def __init__(self) -> None:
        super().__init__()
        self._late: LateCredentials | None = None

    async def get_credentials(self) -> Any:  # type: ignore[override]  # as aiobotocore's own does
        """Return the credentials; if the look-up fails now, ones that are looked up later.

        None if no source of credentials is configured.
        """
        if self._late is not None:
            return self._late
        try:
            return await self._look_up()
        except Exception as error:
            if type(error).__name__ in _WRONG_FOR_GOOD:
                raise
            known = _named(error)
            _log.warning("no AWS credentials yet, will look again: %s", known)
        self._late = LateCredentials(self._look_up)
        return self._late

    async def _look_up(self) -> Any:
        found = await super().get_credentials()
        if found is None and expects_role(self):
            raise no_role_yet()
        return found


class LateCredentials(AioCredentials):
    """A stand-in for botocore's credentials until they are available.

    Args:
        load: looks them up; it may raise anything.
    """

    def __init__(self, load: Callable[[], Awaitable[Any]]) -> None:
        super().__init__("", "", method="late")
        self._load = load
        self._found: Any = None
        self._looking = asyncio.Lock()

    async def get_frozen_credentials(self) -> Any:  # type: ignore[override]  # the same
        """Return one consistent set of credentials.

        Raises:
            BotoCoreError: they are still not available.
        """
        if self._found is None:
            await self._look()
        return await self._found.get_frozen_credentials()

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(LOOK_UP_S), self._looking:
                if self._found is None:  # no other call has found them meanwhile
                    self._found = await self._load()
        except Exception as error:
            raise _named(error) from error
        if self._found is None:
            raise NoCredentialsError

    async def get_account_id(self) -> str | None:  # type: ignore[override]  # as refreshable ones
        """Return the account that they belong to, if they name it."""
        account: str | None = (await self.get_frozen_credentials()).account_id
        return account


def _named(error: Exception) -> BotoCoreError:
    """Return botocore's own error, or one with another's class alone: a text may show secrets."""
    if isinstance(error, BotoCoreError):
        return error
    return CredentialRetrievalError(provider="botocore", error_msg=type(error).__name__)
