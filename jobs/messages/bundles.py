"""Bundles: several jobs of one type, and of one tenant, in one message.

    {"v":2,"bundle":[
    {"v":1,"id":"0199…","type":"embed","payload":{…}, … },
    {"v":1,"id":"0199…","type":"embed","payload":{…}, … }
    ]}

Each job stands on a line of its own, as the body of the message that it would have alone: sealed,
and signed, as that is. JSON has no line feed within a text, so a bundle is taken apart without
being parsed, and a signature is checked against the very text for which it was made. To a reader
that doesn't know bundles it is of a later version of the format, and is parked with that reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from headgate.jobs.core.ports.transport import EntryFailure, OutgoingMessage
from headgate.jobs.errors import MessageError
from headgate.jobs.messages.envelope import VERSION as JOB_VERSION
from headgate.jobs.messages.envelope import parse
from headgate.jobs.values.light_dataclass import light_dataclass

R = TypeVar("R")

VERSION = 2
"""The version of the format that a bundle has; each of its jobs has its own."""

MOST_JOBS = 1_000
"""Maximum number of jobs in a bundle; a message with more is not read as one."""

_HEAD, _BETWEEN, _TAIL = f'{{"v":{VERSION},"bundle":[\n', ",\n", "\n]}"

_FRAME_BYTES = len(_HEAD) + len(_TAIL)


@light_dataclass(frozen=True, slots=True)
class PackedMessage:
    """A message to send, and the jobs in it."""

    message: OutgoingMessage
    indices: Sequence[int]
    """The places of its jobs among those that were packed."""

    @property
    def size(self) -> int:
        """Bytes as SQS counts them."""
        return self.message.size


def bundle_body(jobs: Iterable[str]) -> str:
    """Return the body of a bundle of jobs, given as the bodies of their messages."""
    return f"{_HEAD}{_BETWEEN.join(jobs)}{_TAIL}"


def is_bundle(body: str) -> bool:
    """Return True for the body of a bundle, which `jobs_of` takes apart; it may be a broken one."""
    return body.startswith(_HEAD)


def jobs_of(body: str) -> list[str] | None:
    """Return the bodies of the jobs of a bundle; None if the message is no bundle."""
    if not is_bundle(body) or not body.endswith(_TAIL):
        return None
    jobs = body[len(_HEAD) : -len(_TAIL)].split(_BETWEEN, MOST_JOBS)
    if len(jobs) > MOST_JOBS:
        return None
    return jobs if all(job[:1] == "{" and job[-1:] == "}" for job in jobs) else None


def bodies_of(body: str) -> list[str]:
    """Return the bodies of a message's jobs: several if it is a bundle, else its own."""
    return jobs_of(body) or [body]


def job_in(body: str, job_id: str) -> str | None:
    """Return the body of the job that has an id, of those in a bundle; None if there is none."""
    if job_id not in body:  # in nearly all messages that are searched for it
        return None
    for job in jobs_of(body) or ():
        with suppress(MessageError):
            if job_id in job and str(parse(job).id) == job_id:
                return job
    return None


def packed(messages: Sequence[OutgoingMessage], most_bytes: Sequence[int]) -> list[PackedMessage]:
    """Pack the messages of jobs into as few as possible.

    Args:
        messages: the messages, for one queue.
        most_bytes: for each, the bytes of a bundle that it may be in; 0 if it goes alone.

    Returns:
        the parcels, ordered by the first job of each. Those of one bundle keep their order.
    """
    parcels: list[_Filling] = []
    last: dict[object, _Filling] = {}
    for index, (message, most) in enumerate(zip(messages, most_bytes, strict=True)):
        is_small = message.size + _FRAME_BYTES + len(_BETWEEN) < most
        key = (message.group, most, *message.attributes.items()) if is_small else index
        filling = last.get(key)
        if filling is None or not filling.has_room(message, most):
            filling = last[key] = _Filling(message)
            parcels.append(filling)
        filling.add(index, message)
    return [filling.parcel() for filling in parcels]


class _Filling:
    """A parcel to which jobs of one type and tenant are added."""

    def __init__(self, first: OutgoingMessage) -> None:
        self._first = first
        self._attribute_bytes = replace(first, body="").size
        self._bytes = _FRAME_BYTES + self._attribute_bytes
        self._indices: list[int] = []
        self._bodies: list[str] = []

    def has_room(self, message: OutgoingMessage, most: int) -> bool:
        """Return True if the message's job fits, too."""
        return len(self._bodies) < MOST_JOBS and self._bytes + self._added(message) <= most

    def add(self, index: int, message: OutgoingMessage) -> None:
        """Add a message's job."""
        self._indices.append(index)
        self._bodies.append(message.body)
        self._bytes += self._added(message)

    def parcel(self) -> PackedMessage:
        """Return the message to send: the job's own if it is the only one."""
        if len(self._bodies) == 1:
            return PackedMessage(self._first, self._indices)
        return PackedMessage(replace(self._first, body=bundle_body(self._bodies)), self._indices)

    def _added(self, message: OutgoingMessage) -> int:
        return message.size - self._attribute_bytes + len(_BETWEEN)


def by_job(parcels: Iterable[PackedMessage], results: Iterable[R]) -> list[R]:
    """Return the result of each job that was packed, given those of the parcels."""
    found = {
        index: result
        for parcel, result in zip(parcels, results, strict=True)
        for index in parcel.indices
    }
    return [found[index] for index in range(len(found))]


def failures_by_job(
    parcels: Sequence[PackedMessage], failures: Iterable[EntryFailure]
) -> list[EntryFailure]:
    """Return the failures of jobs, given those of the parcels of one request."""
    return [
        replace(failure, index=index)
        for failure in failures
        for index in parcels[failure.index].indices
    ]


def json_schema() -> dict[str, Any]:
    """Return a bundle's JSON Schema, for other languages; its jobs have the one of envelopes.

    It can't tell that each job stands on a line of its own; see the module's docstring.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:headgate:bundle:v{VERSION}",
        "title": "Headgate bundle",
        "description": (
            "Several jobs of one type and one tenant in one SQS message. Each stands on a line of "
            "its own, with no line feed between its tokens. The first line is the text up to the "
            "opening bracket, without spaces; a comma and a line feed follow each job but the "
            "last, and a line feed and the two closing brackets the last."
        ),
        "type": "object",
        "properties": {
            "v": {"const": VERSION, "description": "The version of this format."},
            "bundle": {
                "description": "The jobs, each as the body of the message that it has alone.",
                "type": "array",
                "items": {"$ref": f"urn:headgate:envelope:v{JOB_VERSION}"},
                "minItems": 1,
                "maxItems": MOST_JOBS,
            },
        },
        "required": ["v", "bundle"],
        "additionalProperties": False,
    }
