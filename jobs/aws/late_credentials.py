"""Credentials whose source fails while a client is opened: looked up again by each call.

aiobotocore looks credentials up as it makes a client, so that a ``credential_process``, or an
endpoint of a container's or an instance's, that is away for a moment would keep a worker from
starting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiobotocore.credentials import AioCredentials
from aiobotocore.session import AioSession
from botocore.exceptions import BotoCoreError, CredentialRetrievalError, NoCredentialsError

from headgate.jobs.aws.instance_role import expects_role, no_role_yet

_log = logging.getLogger("headgate.aws")

LOOK_UP_S = 10.0
"""The longest wait for a look-up; botocore bounds a ``credential_process`` by nothing."""

_WRONG_FOR_GOOD = frozenset(
    {
        "InfiniteLoopConfigError",
        "InvalidConfigError",
        "PartialCredentialsError",
        "ProfileNotFound",
        "UnknownCredentialError",
    }
)
"""By name: the configuration has to change."""


class PatientSession(AioSession):
    """An aiobotocore session whose clients open also while credentials can't be had."""

    def __init__(self) -> None:
        super().__init__()
        self._late: LateCredentials | None = None

    async def get_credentials(self) -> Any:  # type: ignore[override]  # as aiobotocore's own does
        """Credentials; ones that are looked up later if that fails now, and None if nothing is
        configured that would have any."""
        if self._late is not None:
            return self._late
        try:
            return await self._look_up()
        except Exception as error:
            if type(error).__name__ in _WRONG_FOR_GOOD:
                raise
            known = _named(error)
            _log.warning("no AWS credentials for now: %s", known)
        self._late = LateCredentials(self._look_up)
        return self._late

    async def _look_up(self) -> Any:
        found = await super().get_credentials()
        if found is None and expects_role(self):
            raise no_role_yet()
        return found


class LateCredentials(AioCredentials):
    """Stands for botocore's credentials until they can be had.

    Args:
        load: looks them up; it may raise anything.
    """

    def __init__(self, load: Callable[[], Awaitable[Any]]) -> None:
        super().__init__("", "", method="late")
        self._load = load
        self._found: Any = None
        self._looking = asyncio.Lock()

    async def get_frozen_credentials(self) -> Any:  # type: ignore[override]  # the same
        """One consistent set.

        Raises:
            BotoCoreError: there is still none.
        """
        if self._found is None:
            await self._look()
        return await self._found.get_frozen_credentials()

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(LOOK_UP_S), self._looking:
                if self._found is None:  # nobody has found them meanwhile
                    self._found = await self._load()
        except Exception as error:
            raise _named(error) from error
        if self._found is None:
            raise NoCredentialsError

    async def get_account_id(self) -> str | None:  # type: ignore[override]  # as refreshable ones
        """The account that they are of, if they say so."""
        account: str | None = (await self.get_frozen_credentials()).account_id
        return account


def _named(error: Exception) -> BotoCoreError:
    """botocore's own error, or one that has only its class: a text may show secrets."""
    if isinstance(error, BotoCoreError):
        return error
    return CredentialRetrievalError(provider="botocore", error_msg=type(error).__name__)
