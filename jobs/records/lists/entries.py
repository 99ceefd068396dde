"""Entries of the lists in the table's index, one for each thing that people look for.

    list          what happened                                  state, if it is the latest
    replayed      a replay has sent a dead job anew              waiting
    running       an attempt had run for a second                running
    failed        an attempt failed or crashed                   retrying
    dead          it went to its dead-letter queue               dead
    quarantined   it went to the quarantine                      quarantined
    cancelled     it was cancelled                               cancelled
    dropped       a later job replaced it                        dropped
    discarded     its handler ended it                           discarded
    recent        its handler returned                           completed

Jobs that wait for the first time are in no list. An entry of ``running`` stays there when its
attempt ends, so that list is only read where it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from headgate.jobs.core.ports.table import Item
from headgate.jobs.records.items import SHARDS, list_name
from headgate.jobs.records.reading import checked
from headgate.jobs.records.state import JobState
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.stored import moment

STATES: Mapping[str, JobState] = {
    "replayed": JobState.WAITING,
    "running": JobState.RUNNING,
    "failed": JobState.RETRYING,
    "dead": JobState.DEAD,
    "quarantined": JobState.QUARANTINED,
    "cancelled": JobState.CANCELLED,
    "dropped": JobState.DROPPED,
    "discarded": JobState.DISCARDED,
    "recent": JobState.COMPLETED,
}
"""The state that each list stands for. Of a job's entries with the same time, that of the list
named last counts, as in its records (`jobs.records.state`)."""

_UNASKED = frozenset(STATES.values()) - {JobState.RUNNING}


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ListEntry:
    """One entry of a list."""

    job_id: str
    job_type: str
    state: JobState
    """The state of the job, if nothing has happened to it since."""
    at: datetime
    place: str
    """Its sort key: the time and the job's id."""
    queue: str | None = None
    tenant: str | None = None
    """The tenant's ``org``."""
    former: str | None = None
    """Of a job that was replayed as another type, the one that it had before."""


def read_entry(item: Item) -> ListEntry | None:
    """Return the entry that an item of the index holds; None if it is not one of Headgate's."""
    if (line := item.line) is None:
        return None
    kind, _, rest = line.list.partition("#")
    job_type, _, _ = rest.rpartition("#")
    time, _, job_id = line.place.partition("#")
    at, state = moment(time), STATES.get(kind)
    if at is None or state is None or not job_id:
        return None
    told = checked(line.summary)
    tenant = told.get("tenant") or {}
    return ListEntry(
        job_id=job_id,
        job_type=job_type,
        state=state,
        at=at,
        place=line.place,
        queue=told.get("queue"),
        tenant=tenant.get("org"),
        former=told.get("former"),
    )


def lists_of(types: Iterable[str], states: Iterable[JobState] = ()) -> Sequence[str]:
    """Return the names of the lists of some types, of the states given or of all but running.

    Those of a type are in the order of `STATES`.
    """
    wanted = frozenset(states) or _UNASKED
    kinds = [kind for kind, state in STATES.items() if state in wanted]
    return [
        list_name(kind, each, shard) for each in types for kind in kinds for shard in range(SHARDS)
    ]
