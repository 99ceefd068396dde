"""boto3's credentials, with a bound on the source that has none: a ``credential_process``."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

from botocore.credentials import RefreshableCredentials
from botocore.exceptions import CredentialRetrievalError
from botocore.session import Session

from headgate.jobs.aws.connections.shared_look_up import MOST_S

_SHARED_S = 1.0
"""Seconds for which threads share a refresh's failure: they waited for it one by one."""


class BoundedCredentialsSession(Session):
    """A botocore session for threads that waits `MOST_S` at most for a ``credential_process``.

    From 10 minutes before credentials expire, botocore has every thread wait for their refresh.
    Here one thread at a time does, until they have expired.
    """

    def get_credentials(self) -> Any:
        """Return the credentials; None if no source of credentials is configured."""
        # botocore has no public way to say how its processes are started or a refresh is bounded.
        provider = self.get_component("credential_provider").get_provider("custom-process")
        provider._popen = _Process  # noqa: SLF001 - as above
        found: Any = super().get_credentials()
        if isinstance(found, RefreshableCredentials):
            _bound(found)
        return found


def _bound(found: Any) -> None:
    if not isinstance(found._refresh_using, _Refresh):  # noqa: SLF001 - as above
        found._refresh_using = _Refresh(found._refresh_using)  # noqa: SLF001 - as above
        found._mandatory_refresh_timeout = 0  # noqa: SLF001 - as above


class _Refresh:
    """Refreshes credentials.

    When they have expired, botocore has each thread make a refresh of its own after the other. They
    share a failure instead, or the last of them would wait for many times `MOST_S`.

    Args:
        refresh: botocore's function.
    """

    def __init__(self, refresh: Callable[[], Any]) -> None:
        self._refresh = refresh
        self._failure: Exception | None = None
        self._shared_until_s = float("-inf")

    def __call__(self) -> Any:
        """Return what botocore makes credentials of. Only one thread at a time calls this."""
        if self._failure is not None and time.monotonic() < self._shared_until_s:
            raise self._failure
        try:
            return self._refresh()
        except Exception as error:
            self._failure, self._shared_until_s = error, time.monotonic() + _SHARED_S
            raise


class _Process:
    """A ``credential_process``, killed if it takes longer than `MOST_S`."""

    def __init__(self, command: list[str], **options: Any) -> None:
        self._process = subprocess.Popen(command, **options)  # noqa: S603 - the user's own setting

    @property
    def returncode(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self._process.returncode

    def communicate(self) -> tuple[bytes, bytes]:
        """Return what it writes until it ends.

        Raises:
            CredentialRetrievalError: it took too long.
        """
        try:
            return self._process.communicate(timeout=MOST_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with self._process:  # closes its pipes, which a child of it may hold open
                raise CredentialRetrievalError(
                    provider="custom-process", error_msg="no answer in time"
                ) from None  # it quotes the command, which may hold a secret
