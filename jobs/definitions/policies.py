"""Settings in force for the types of an app: a type's own, or else the app's.

Users set these on `App` and on its types; workers, functions and clients read them here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from headgate.jobs.core.backend import AsyncSecretStore
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.events import Events
from headgate.jobs.core.retention import Keep, RecordsLevel
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.handlers.hooks import Hook, has_hooks, hooks_for
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.options.replay import Replay
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.messages.envelope import Envelope
from headgate.jobs.messages.keyring import Keyring
from headgate.jobs.records.items import REPLAY_SOURCE
from headgate.jobs.values.texts import kind_of

if TYPE_CHECKING:
    from headgate.jobs.core.events import Event


def app_itself(given: object) -> App:
    """Return what a client was given as its app.

    Raises:
        ConfigurationError: it is something else, such as the app's path.
    """
    if isinstance(given, App):
        return given
    instead = f"write load_app({given!r})" if isinstance(given, str) else "pass what App(...) made"
    raise ConfigurationError(f"a client takes an App, got {kind_of(given)}: {instead}")


def types_from(app: App, queue: str) -> list[JobType[Any, Any]]:
    """Return the job types that may run from a queue group: its own, and those that accept it."""
    return [declared for declared in app.types.values() if queue in declared.runs_from]


def timeout_of(app: App, job: JobType[Any, Any]) -> timedelta:
    """Return the timeout of one attempt of a type."""
    return app.timeout if job.timeout is None else job.timeout


def records_of(app: App, job: JobType[Any, Any]) -> RecordsLevel:
    """Return the level of records written for a type's jobs."""
    return job.records or app.records


def keep_of(app: App, job: JobType[Any, Any]) -> Keep:
    """Return the retention of the records of a type's jobs."""
    return job.keep or app.keep


def job_keep_of(app: App, job: JobType[Any, Any], envelope: Envelope | None) -> Keep:
    """Return the retention of one job's records: its submission's, or else its type's.

    Args:
        app: the app.
        job: the job's type.
        envelope: the job's; None if it can't be read.
    """
    keep = job.keep or app.keep
    if envelope is None or (options := envelope.options) is None or options.keep is None:
        return keep
    return options.keep.over(keep)


def expiry_of(job: JobType[Any, Any], envelope: Envelope) -> datetime | None:
    """Return the time by which a job has to start; None for any time.

    Clients write it into the message. For all other senders, schedules among them, it follows from
    the type. A job that was dead before, and that somebody has sent back, is wanted whenever it
    comes.
    """
    if envelope.source.startswith(REPLAY_SOURCE):
        return None
    if envelope.expires_at is not None or job.expires is None:
        return envelope.expires_at
    return (envelope.not_before or envelope.submitted_at) + job.expires


def replay_of(app: App, job: JobType[Any, Any]) -> Replay | None:
    """Return the policy by which the sweep replays a type's dead letters, if any."""
    return job.replay if job.has_own_replay else app.replay


def keeps_results(app: App, job: JobType[Any, Any]) -> bool:
    """Return True if what a type's handler returns is kept: in its records, or its claim."""
    return job.once or records_of(app, job) in ("full", "outcomes")


def keeps_records(app: App) -> bool:
    """Return True if records are written for at least one type."""
    return any(records_of(app, declared) != "off" for declared in app.types.values())


def uses_claims(app: App) -> bool:
    """Return True if workers look at claims in the table: for ``once=True``, for jobs that later
    ones replace, and for the keys of jobs that expire, which are given back."""
    return keeps_records(app) or any(job.once or job.unique for job in app.types.values())


def records_submissions(app: App) -> bool:
    """Return True if submitters write records of at least one type."""
    return any(records_of(app, declared) == "full" for declared in app.types.values())


def hooks_of(app: App, event: Event) -> Iterator[Hook]:
    """Yield the hooks to call for an event: the app's own, then those of its job's type."""
    yield from hooks_for(app, event)
    if (declared := app.types.get(getattr(event, "job_type", ""))) is not None:
        yield from hooks_for(declared, event)


def is_hooked(app: App, kind: type[Event]) -> bool:
    """Return True if the app or one of its types has hooks for events of that kind."""
    return any(has_hooks(owner, kind) for owner in (app, *app.types.values()))


def signing_secret_of(app: App) -> str | None:
    """Return the name or the ARN of the secret with the key that signs an app's messages, if any.

    None: they aren't signed, or the keys were given themselves.
    """
    if app.signing is None or app.signing.given_keys:
        return None
    return app.signing.secret or app.topology.signing_secret_name


def keyring_of(
    app: App, secrets: AsyncSecretStore, concurrency: Parallelism, clock: Clock, events: Events
) -> Keyring | None:
    """Return the keys of an app whose messages are signed; None for any other.

    ``concurrency`` is that of ``secrets``: threads if it never suspends, else tasks.
    """
    if (signing := app.signing) is None:
        return None
    return Keyring(
        secrets,
        signing_secret_of(app) or "",
        given=signing.given_keys,
        accept_unsigned=signing.accept_unsigned,
        concurrency=concurrency,
        clock=clock,
        events=events,
    )


def load_handlers(app: App) -> None:
    """Import the modules of ``handlers=``, as everything does that runs jobs.

    Raises:
        AppImportError: a module can't be imported.
        HandlerMissing: a type still has no handler afterwards.
        ConfigurationError: pydantic can't read the payloads of a type, or write the results that
            are kept of it; or a handler, a resource or an `around` wants what can't be opened for
            it.
    """
    from headgate.jobs.definitions.importing import imported  # submitters don't need it

    for module in app.handler_modules:
        imported(module, f"App({app.name!r}, handlers=[{module!r}])")
    for declared in app.types.values():
        declared.require_runnable()
        if keeps_results(app, declared):
            declared.require_writable()
    app.resources.check(declared.require_handler() for declared in app.types.values())
