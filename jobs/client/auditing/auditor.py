"""Entering actions into the audit: before each, and after it with its outcome."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Self

from headgate.jobs.client.auditing.actor import checked_actor, current_actor
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.ports.table import AsyncTable, Item
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import AuditFailed, TransportError
from headgate.jobs.records.audit.entry import (
    AuditAction,
    AuditEntry,
    AuditOutcome,
    AuditTarget,
    begun_item,
    ended_item,
    in_one_line,
    new_place,
)
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_log import OwnLog
from headgate.jobs.values.texts import LONGEST, text_of, type_of

_REFUSED = "refused"
"""The outcome, in the log alone, of an action that was not begun: it could not be entered."""

_log = OwnLog("headgate.audit")


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Auditor:
    """Writes an app's audit for one client.

    Args:
        table: holds the audit.
        clock: tells the time.
        keep: the retention of entries.
        own_actor: the client's actor; None is the process's user.
    """

    table: AsyncTable
    clock: Clock
    keep: timedelta
    own_actor: str | None

    @property
    def actor(self) -> str:
        """The present actor."""
        return current_actor(self.own_actor)

    def action(
        self,
        action: AuditAction,
        kind: str,
        name: str,
        *,
        reason: str = "",
        detail: str = "",
    ) -> Audited:
        """Return an action to be entered, as a context to carry it out in.

        Args:
            action: what is done.
            kind, name: the target, as in `AuditTarget`.
            reason: the reason that was given.
            detail: what else was asked for; no payload.
        """
        now = self.clock.now()
        entry = AuditEntry(
            id=new_place(now),
            at=now,
            actor=self.actor,
            action=action,
            target=AuditTarget(kind=kind, name=name),
            reason=reason,
            detail=detail,
        )
        return Audited(self, entry)

    async def begin(self, entry: AuditEntry) -> None:
        """Write that an action begins.

        Raises:
            AuditFailed: it could not be written.
        """
        try:
            await self._create(begun_item(entry, self.keep))
        except TransportError as error:
            _tell(replace(entry, error_type=type_of(error)), _REFUSED)
            raise AuditFailed(error) from error

    async def end(self, entry: AuditEntry) -> None:
        """Write an action's outcome, and log it; the action stands if it can't be written."""
        try:
            await self._create(ended_item(entry, self.keep))
        except TransportError as error:
            _log.warning(
                "the outcome of %s by %s is missing in the audit: %s",
                entry.action,
                entry.actor,
                text_of(error),
            )
        _tell(entry, str(entry.outcome))

    async def _create(self, item: Item) -> None:
        if await self.table.replace(item) is not None:
            raise TransportError(f"the audit has another entry {item.sk!r}")


def auditor_of(app: App, table: AsyncTable, clock: Clock, actor: str | None) -> Auditor:
    """Return what enters a client's actions into the audit.

    Args:
        app: the client's app.
        table: holds the audit.
        clock: tells the time.
        actor: the client's actor; None is the process's user.

    Raises:
        SettingsInvalid: the actor's name is too long, or blank.
    """
    own = None if actor is None else checked_actor("Client(actor=...) or HEADGATE_ACTOR", actor)
    return Auditor(table=table, clock=clock, keep=app.keep_audit, own_actor=own)


class Audited:
    """One action while it is carried out. It sets `count` and `result`, if it has any."""

    def __init__(self, auditor: Auditor, entry: AuditEntry) -> None:
        self._auditor = auditor
        self._entry = entry
        self.count: int | None = None
        """Number of the things acted on."""
        self.result = ""
        """Its outcome; no payload."""

    async def __aenter__(self) -> Self:
        await self._auditor.begin(self._entry)
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        ended = replace(
            self._entry,
            outcome=AuditOutcome.DONE if error is None else AuditOutcome.FAILED,
            ended_at=self._auditor.clock.now(),
            count=self.count,
            result=self.result,
            error_type="" if error is None else type_of(error),
        )
        await self._auditor.end(ended)


def _tell(entry: AuditEntry, outcome: str) -> None:
    """Log an action, with everything about it as fields."""
    told = {
        "audit_id": entry.id,
        "actor": entry.actor,
        "action": str(entry.action),
        "target": str(entry.target),
        "reason": entry.reason,
        "detail": entry.detail,
        "outcome": outcome,
        "count": entry.count,
        "result": entry.result,
        "error_type": entry.error_type,
    }
    lines = {name: _line(value) for name, value in told.items() if value not in ("", None)}
    level = logging.INFO if outcome == AuditOutcome.DONE else logging.WARNING
    _log.log(
        level,
        "%s: %s %s: %s",
        *(lines[name] for name in ("actor", "action", "target", "outcome")),
        extra=lines,
    )


def _line(value: object) -> object:
    return in_one_line(value, LONGEST) if isinstance(value, str) else value
