"""Routes: which job types run from which queues, as the bridge is deployed with them.

Whoever may create or change a schedule writes the bridge's input. So the bridge believes no input
about its queue: it sends a job only to a queue that the job's type runs from, as the app declared
it when the bridge was deployed, and refuses everything else.

A type that only a newer app declares is refused too. Nothing is lost by that: Lambda keeps the
whole input among the failed firings, and it is sent once it is handed to the bridge again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Self

from pydantic_core import from_json

from headgate.jobs.errors import (
    MessageError,
    MessageQueueWrong,
    MessageTypeUnknown,
    MessageUnreadable,
)
from headgate.jobs.schedules.delayed_job import DelayedJob
from headgate.jobs.schedules.inputs import Input
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.texts import legible

if TYPE_CHECKING:  # the bridge has no app
    from headgate.jobs.definitions.app import App

FILE = "routes.json"
"""The file with the routes, beside `lambdas.bridge` in the function's asset. A function's
environment has room for 4 KB, which is too little for an app of many types.
https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"""

_LONGEST_NAME = 128


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """The queues that each job type runs from."""

    groups: Mapping[str, str]
    """The queue groups, by their queues' physical names."""
    runs_from: Mapping[str, frozenset[str]]
    """By job type, the queue groups whose messages may run as it: its own and ``accepts_from``."""

    @classmethod
    def of(cls, app: App) -> Self:
        """Return the routes of an app, as far as it is declared by now."""
        return cls(
            groups={spec.name: spec.group for spec in app.topology.queues},
            runs_from={name: frozenset(job.runs_from) for name, job in app.types.items()},
        )

    @classmethod
    def from_text(cls, text: str | bytes) -> Self:
        """Return the routes that `to_text` wrote."""
        read = from_json(text)
        runs_from = {name: frozenset(groups) for name, groups in read["runs_from"].items()}
        return cls(groups=read["groups"], runs_from=runs_from)

    def to_text(self) -> str:
        """Return the routes as JSON, the same for the same declarations."""
        runs_from = {name: sorted(groups) for name, groups in self.runs_from.items()}
        return json.dumps({"groups": dict(self.groups), "runs_from": runs_from}, sort_keys=True)

    def refusal(self, given: Input) -> MessageError | None:
        """Return the reason not to send the job of an input; None if it may be sent."""
        job_type, queue = given.type, given.queue_name
        if (runs_from := self.runs_from.get(job_type)) is None:
            return MessageTypeUnknown(
                f"the app that the bridge is deployed with has no job type {_shown(job_type)}. If "
                "a newer one has it: deploy that one, and hand the input to the bridge again"
            )
        if self.groups.get(queue) not in runs_from:
            return MessageQueueWrong(
                f"jobs of the type {job_type!r} run from {_listed(runs_from)}, and the input names "
                f"the queue {_shown(queue)}. If a newer app has it so: deploy that one, and hand "
                "the input to the bridge again"
            )
        if isinstance(given, DelayedJob) and _type_in(given.body) != job_type:
            return MessageUnreadable(
                f"the message that the input holds is not a job of the type {job_type!r}, which "
                "the input names"
            )
        return None


def _type_in(body: str) -> object:
    """Return the job type that a worker would read from a message's body."""
    try:
        read = from_json(body)
    except ValueError:
        return None
    return read.get("type") if isinstance(read, dict) else None


def _shown(name: str) -> str:
    return repr(legible(name, _LONGEST_NAME))


def _listed(groups: Iterable[str]) -> str:
    return " or ".join(repr(group) for group in sorted(groups))
