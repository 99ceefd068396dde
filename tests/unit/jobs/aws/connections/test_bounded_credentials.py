"""Credentials of threads whose source hangs or fails."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.credentials import CredentialResolver, RefreshableCredentials
from botocore.exceptions import CredentialRetrievalError

from headgate.jobs.aws.connections import bounded_credentials
from headgate.jobs.aws.connections.bounded_credentials import BoundedCredentialsSession, _Process
from headgate.jobs.aws.connections.connection import SharedSession
from tests.support.environment import without_aws
from tests.support.raw_server import BOUND_S


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_aws(monkeypatch, tmp_path)


def key_of(found: Any) -> str:
    key: str = found.get_frozen_credentials().access_key
    return key


def with_minutes_left(
    monkeypatch: pytest.MonkeyPatch, minutes: int, refresh: Callable[[], dict[str, Any]]
) -> Any:
    """Return a session's credentials that expire in that many minutes."""
    until = datetime.now(UTC) + timedelta(minutes=minutes)

    def load(_resolver: CredentialResolver) -> RefreshableCredentials:
        return RefreshableCredentials("old", "secret", "token", until, refresh, "a test")

    monkeypatch.setattr(CredentialResolver, "load_credentials", load)
    session = BoundedCredentialsSession()
    session.get_credentials()  # as each client of it does
    return session.get_credentials()


def renewed() -> dict[str, Any]:
    return {
        "access_key": "new",
        "secret_key": "secret",
        "token": "token",
        "expiry_time": (datetime.now(UTC) + timedelta(hours=6)).isoformat(),
    }


def test_a_process_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_credentials, "MOST_S", 0)
    process = _Process(["sleep", "1000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with pytest.raises(CredentialRetrievalError, match="no answer in time"):
        process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_clients_without_a_session_of_their_own_look_credentials_up_within_a_bound(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bounded_credentials, "MOST_S", 0)
    (tmp_path / "config").write_text("[default]\ncredential_process = sleep 1000\n")
    with pytest.raises(CredentialRetrievalError, match="no answer in time"):
        SharedSession().core().get_credentials()


def test_one_thread_alone_waits_for_a_refresh_while_credentials_are_valid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, answers = threading.Event(), threading.Event()

    def refresh() -> dict[str, Any]:
        asked.set()
        assert answers.wait(BOUND_S)
        return renewed()

    found = with_minutes_left(monkeypatch, 5, refresh)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(key_of, found)
        assert asked.wait(BOUND_S)
        try:
            assert threads.submit(key_of, found).result(BOUND_S / 3) == "old"
        finally:
            answers.set()
        assert first.result(BOUND_S) == "new"


def test_threads_share_the_failure_of_a_refresh_once_credentials_have_expired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s, asked = 0.0, 0

    def refresh() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        raise CredentialRetrievalError(provider="a test", error_msg="it fails")

    clock = SimpleNamespace(monotonic=lambda: now_s)
    monkeypatch.setattr(bounded_credentials, "time", clock)
    found = with_minutes_left(monkeypatch, -5, refresh)
    for _ in range(3):
        with pytest.raises(CredentialRetrievalError, match="it fails"):
            key_of(found)
    assert asked == 1
    now_s = 2.0
    with pytest.raises(CredentialRetrievalError, match="it fails"):
        key_of(found)
    assert asked == 2
