"""Policies of IAM, split so that each is short enough for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from headgate.jobs.errors import ConfigurationError

LONGEST_POLICY = 6_144
"""Characters of a managed policy, white space not counted.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"""

LONGEST_INLINE = 10_240
"""Characters of all inline policies of a role together, likewise."""

MOST_POLICIES = 10
"""Managed policies of a role, unless the account's quota was raised."""

_VERSION = "2012-10-17"

Document = Mapping[str, Any]
Statement = Mapping[str, Any]
Length = Callable[[Sequence[Statement]], int]


def document_of(statements: Sequence[Statement]) -> Document:
    """Return a policy with these statements."""
    return {"Version": _VERSION, "Statement": list(statements)}


def written_length(statements: Sequence[Statement]) -> int:
    """Return the length of a policy with these statements, as IAM counts it."""
    return len(json.dumps(document_of(statements), separators=(",", ":")))


def parts(document: Document, length: Length = written_length) -> Iterator[Document]:
    """Yield documents that say the same together, none longer than a managed policy may be.

    Args:
        document: the policy.
        length: the length of a document with these statements.

    Raises:
        ConfigurationError: a statement for a single resource is longer.
    """
    made: list[list[Statement]] = [[]]
    for statement in _pieces(document["Statement"], length):
        for held in made:
            if length([*held, statement]) <= LONGEST_POLICY:
                held.append(statement)
                break
        else:
            made.append([statement])
    yield from map(document_of, made)


def _pieces(statements: Sequence[Statement], length: Length) -> Iterator[Statement]:
    """Yield statements each of which fits alone; a longer one is split by its resources."""
    for statement in statements:
        if length([statement]) <= LONGEST_POLICY:
            yield statement
            continue
        resources = statement["Resource"]
        if not isinstance(resources, list) or len(resources) < 2:
            raise ConfigurationError(
                f"a policy's statement for {statement['Action']} is longer than AWS allows"
            )
        middle = len(resources) // 2
        halves = (resources[:middle], resources[middle:])
        yield from _pieces([{**statement, "Resource": half} for half in halves], length)
