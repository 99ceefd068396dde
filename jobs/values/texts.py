"""Texts that others wrote, as everything that holds them takes them: table, queue, log, page.

An error may quote half a megabyte, a file's name may come with lone surrogates, a protocol's answer
with NULs. DynamoDB refuses an item over 400 KB and what is no UTF-8, SQS what XML 1.0 can't hold,
and a terminal obeys control characters. So a text is made legible once, where it becomes ours.
"""

from __future__ import annotations

import re

from headgate.jobs.errors import ChildFailed
from headgate.jobs.values.json_values import is_utf8

LONGEST = 8_000
"""Characters of an error's message, a traceback or a reason."""

LONGEST_NAME = 256
"""Characters of the name of an error's class."""

# C0 and C1 but for tab and newline, surrogates (in a `str` they are all lone), noncharacters.
_UNFIT = re.compile("\r\n|[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def legible(text: object, most: int = LONGEST, *, from_end: bool = False) -> str:
    r"""A text of at most ``most`` characters that is valid UTF-8 without control characters.

    What it may not hold is escaped as in Python's literals, newlines and tabs excepted. What is cut
    off is told by its length.

    >>> legible("caf\udce9\x00")
    'caf\\udce9\\x00'

    Args:
        text: anything else than a `str` is asked for its own, which may fail.
        most: how long it may be, escapes counted.
        from_end: keep the end instead of the start, as of a traceback.
    """
    said = text if isinstance(text, str) else _said(text)
    kept = said[-most:] if from_end else said[:most]
    escaped = _UNFIT.sub(_escaped, kept)
    if len(said) <= most and len(escaped) <= most:
        return escaped
    mark = f"({len(said):,} characters)"
    if (room := most - len(mark) - 2) < 0:
        return escaped[:most]
    return f"{mark} …{escaped[len(escaped) - room :]}" if from_end else f"{escaped[:room]}… {mark}"


def encodable(text: str) -> str:
    r"""A text whose lone surrogates are escaped as in JSON, which UTF-8 can't hold; the same else.

    In a JSON text, where they can only stand in strings, it means the same as before.

    >>> encodable("caf\udce9")
    'caf\\udce9'
    """
    return text if is_utf8(text) else text.encode(errors="backslashreplace").decode()


def text_of(error: BaseException) -> str:
    """What an error says, legibly."""
    return legible(error)


def type_of(error: BaseException) -> str:
    """The class's name; of an error in a child process, the one it had there."""
    name = error.error_type if isinstance(error, ChildFailed) else type(error).__name__
    return legible(name, LONGEST_NAME)


def _escaped(found: re.Match[str]) -> str:
    unfit = found.group()
    return "\n" if unfit == "\r\n" else unfit.encode("unicode_escape").decode()


def _said(value: object) -> str:
    try:
        return str(value)
    except Exception as fault:  # noqa: BLE001 - the user's code, which must not cost the verdict
        return f"<{type(fault).__name__} in {type(value).__name__}.__str__>"
