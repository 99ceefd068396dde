"""Credentials whose source fails while a client is opened: looked up again by each call.

aiobotocore looks credentials up when it makes a client. So a ``credential_process``, or a
container's or an instance's endpoint, that fails for a moment would keep a worker from starting,
and one that hangs would do so silently.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aiobotocore.credentials import AioCredentials, AioRefreshableCredentials
from aiobotocore.session import AioSession
from botocore.exceptions import NoCredentialsError

from headgate.jobs.aws.connections.expiring_credentials import ExpiringCredentials
from headgate.jobs.aws.connections.instance_role import expects_role, no_role_yet
from headgate.jobs.aws.connections.shared_look_up import MOST_S, SharedLookUp, named
from headgate.jobs.values.own_log import OwnLog

_log = OwnLog("headgate.aws")

LOOK_UP_S = 10.0
"""Maximum seconds for which a call waits for a look-up; a slow one goes on for later calls."""

SAID_AFTER_S = 3.0
"""Seconds after which a first look-up that isn't over is logged."""

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

        None if no source of credentials is configured. A look-up that hangs fails after `MOST_S`.
        """
        if self._late is not None:
            return self._late
        try:
            return await self._first()
        except Exception as error:
            if type(error).__name__ in _WRONG_FOR_GOOD:
                raise
            known = named(error)
            _log.warning("no AWS credentials yet, will look again: %s", known)
        self._late = LateCredentials(self._look_up)
        return self._late

    async def _first(self) -> Any:
        waiting = asyncio.get_running_loop().call_later(SAID_AFTER_S, self._say_that_it_waits)
        try:
            async with asyncio.timeout(MOST_S):
                return await self._look_up()
        finally:
            waiting.cancel()

    def _say_that_it_waits(self) -> None:
        process = "credential_process" in self.get_scoped_config()
        source = "the profile's credential_process" if process else "their source"
        _log.warning(
            "still waiting for AWS credentials: %s has not answered for %g s", source, SAID_AFTER_S
        )

    async def _look_up(self) -> Any:
        # botocore has no public way to say how its processes are started or a refresh is bounded.
        provider = self.get_component("credential_provider").get_provider("custom-process")
        provider._popen = _started  # noqa: SLF001 - as above
        found: Any = await super().get_credentials()
        if found is None and expects_role(self):
            raise no_role_yet()
        if isinstance(found, AioRefreshableCredentials):
            found = self._credentials = ExpiringCredentials(found)
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
        self._look_up = SharedLookUp(self._look)

    async def get_frozen_credentials(self) -> Any:  # type: ignore[override]  # the same
        """Return one consistent set of credentials.

        Raises:
            BotoCoreError: they are still not available.
        """
        if self._found is None:
            await self._look_up.ended(LOOK_UP_S)
        if self._found is None:
            raise NoCredentialsError
        return await self._found.get_frozen_credentials()

    async def _look(self) -> None:
        self._found = await self._load()

    async def get_account_id(self) -> str | None:  # type: ignore[override]  # as refreshable ones
        """Return the account that they belong to, if they name it."""
        account: str | None = (await self.get_frozen_credentials()).account_id
        return account


class _Process:
    """A ``credential_process``, killed if nobody waits for its answer any longer."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def returncode(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self._process.returncode

    async def communicate(self) -> tuple[bytes, bytes]:
        """Return what it writes until it ends."""
        try:
            return await self._process.communicate()
        finally:
            if self.returncode is None:
                with suppress(ProcessLookupError):
                    self._process.kill()
                # Or an event loop that ends before it hears of the exit would leave it open.
                process: Any = self._process  # asyncio has no public way, nor its stubs this one
                process._transport.close()  # noqa: SLF001 - as above
                await process.wait()


async def _started(*command: str, **options: Any) -> _Process:
    return _Process(await asyncio.create_subprocess_exec(*command, **options))
