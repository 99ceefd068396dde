"""Django: the client of the app that the settings name, and submission once a transaction commits.

::

    HEADGATE_APP = "shop.jobs:app"  # in the settings
    HEADGATE_SPOOL = "/var/lib/shop/jobs.spool"  # optional: as in Client(app, spool=...)

`headgate.contrib.django.tasks` has a backend for Django's own tasks.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from headgate import App, Client, NewJob, load_app
from headgate.contrib._needed import needed
from headgate.errors import ConfigurationError, SubmissionError
from headgate.jobs.core.concurrency import running_loop
from headgate.jobs.submission.prepare import Submission

try:
    from django.conf import settings
    from django.db import close_old_connections, transaction
except ModuleNotFoundError as error:
    raise needed("django", error) from error

__all__ = ["client", "configured_app", "manage_connections", "submit_on_commit", "using_client"]

_APP, _SPOOL = "HEADGATE_APP", "HEADGATE_SPOOL"

_opening = threading.Lock()
_given: list[Client] = []
"""The clients of `using_client`, the innermost last."""


@cache
def configured_app() -> App:
    """Return the app that the setting ``HEADGATE_APP`` names, such as ``shop.jobs:app``.

    Raises:
        ConfigurationError: the setting is missing.
        AppImportError: there is no app by that name.
    """
    path = getattr(settings, _APP, None)
    if not path:
        raise ConfigurationError(
            f'Django\'s settings have no {_APP}: write {_APP} = "shop.jobs:app"'
        )
    return load_app(path)


def client() -> Client:
    """Return the client, which all threads share: opened on first use, closed with the process.

    Raises:
        ConfigurationError, AppImportError: as `configured_app`.
    """
    if _given:
        return _given[-1]
    with _opening:
        return _own_client()


@cache
def _own_client() -> Client:
    made = Client(configured_app(), spool=getattr(settings, _SPOOL, None))
    atexit.register(made.close)
    return made


@contextmanager
def using_client(given: Client) -> Iterator[None]:
    """Have `client` return this one within the block, such as a harness's in a test."""
    _given.append(given)
    try:
        yield
    finally:
        _given.remove(given)


def submit_on_commit(*jobs: NewJob[Any], using: str | None = None) -> None:
    """Submit jobs once the transaction commits, or now if there is none; never if it rolls back.

    Payloads and options are checked now. If SQS doesn't take a job after the commit, that is raised
    there, and the transaction stands: a client with a spool keeps such jobs. Django then calls
    nothing more that waits for the same commit, so give the jobs of a transaction in one call.

    Args:
        jobs: the jobs, as in ``submit_on_commit(send_email.new(Email(to="Ada")))``.
        using: the alias of the database; None is the default one.

    Raises:
        SubmissionError: a payload or an option is not valid; no job of this call is submitted.
    """
    checked = client()._prepared(jobs)  # noqa: SLF001 - not among what users call
    transaction.on_commit(partial(_submit, jobs, checked), using=using)


def _submit(jobs: Sequence[NewJob[Any]], checked: Sequence[Submission]) -> None:
    sender = client()
    prepared = [_as_of_now(sender, *each) for each in zip(jobs, checked, strict=True)]
    sender._deliver_mixed(prepared)  # noqa: SLF001 - not among what users call


def _as_of_now(sender: Client, job: NewJob[Any], checked: Submission) -> Submission:
    """Return a job as the commit submits it, with delays that begin there."""
    try:
        [submission] = sender._prepared([job])  # noqa: SLF001 - not among what users call
    except SubmissionError:
        # Its time to expire has come since it was checked: a worker drops it, and says so. Raised,
        # it would keep the others of the transaction from being sent.
        return checked
    return submission


def manage_connections(app: App) -> None:
    """Close the database connections that are too old before and after each attempt.

    Django does so around each request; a worker's threads outlive many. The connections are those
    of the thread that runs a plain function. Django keeps the ones of async code in another thread.
    """

    @app.around
    def connections() -> Iterator[None]:
        in_thread = running_loop() is None
        if in_thread:
            close_old_connections()
        try:
            yield
        finally:
            if in_thread:
                close_old_connections()
