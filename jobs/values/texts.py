"""Sanitisation of texts from outside, so that any table, queue, log or page can hold them.

An error may quote half a megabyte, a file's name may contain lone surrogates, a protocol's answer
NULs. DynamoDB refuses items over 400 KB and invalid UTF-8, SQS refuses characters that XML 1.0
excludes, and a terminal obeys control characters. So a text is made legible once, where it enters
Headgate.
"""

from __future__ import annotations

import re

from headgate.jobs.errors import ChildFailed
from headgate.jobs.values.json_values import is_utf8

LONGEST = 8_000
"""Maximum characters of an error's message, a traceback or a reason."""

LONGEST_NAME = 256
"""Maximum characters of the name of an error's class."""

# C0 and C1 except for tab and newline, surrogates (always lone in a `str`), noncharacters.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff"
_UNFIT = f"\r\n|[{_CONTROLS}]"

# Besides those, what changes the direction of the text beside it, and other separators of lines.
# https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters
_MISLEADING = f"\r\n|[{_CONTROLS}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"


def legible(
    text: object, most: int = LONGEST, *, from_end: bool = False, whole: int | None = None
) -> str:
    r"""Return a text of at most ``most`` characters, valid as UTF-8 and without control characters.

    Such characters are escaped as in Python's literals, except for newlines and tabs. A text that
    is cut states its full length.

    >>> legible("caf\udce9\x00")
    'caf\\udce9\\x00'

    Args:
        text: a `str`, or any other object to convert with ``str()``, which may fail.
        most: the maximum length, escapes counted.
        from_end: keep the end instead of the start, as for a traceback.
        whole: the length to state, of a text of which this is a part; None is this one's.
    """
    text = said(text)
    kept = text[-most:] if from_end else text[:most]
    escaped = re.sub(_UNFIT, _escaped, kept)
    length = len(text) if whole is None else whole
    if length <= most and len(escaped) <= most:
        return escaped
    mark = f"({length:,} characters)"
    if (room := most - len(mark) - 2) < 0:
        return escaped[:most]
    return f"{mark} …{escaped[len(escaped) - room :]}" if from_end else f"{escaped[:room]}… {mark}"


def with_article(noun: str) -> str:
    """Return a noun, such as the name of a class, after "a" or "an".

    A leading U is taken for the sound that it has in UUID and user.

    >>> with_article("object"), with_article("dict"), with_article("UUID")
    ('an object', 'a dict', 'a UUID')
    """
    return f"an {noun}" if noun[:1] in tuple("AEIOaeio") else f"a {noun}"


def kind_of(value: object) -> str:
    """Return the name of a value's class with its article.

    >>> kind_of(7)
    'an int'
    """
    return with_article(type(value).__name__)


def printable(text: str) -> str:
    r"""Return a text that can do nothing to the terminal it is printed on.

    Control characters, bidirectional ones included, are escaped as in Python's literals, except for
    newlines and tabs.

    >>> printable("\x1b[2J and \u202e")
    '\\x1b[2J and \\u202e'
    """
    return re.sub(_MISLEADING, _escaped, text)


def encodable(text: str) -> str:
    r"""Return the text with lone surrogates, which UTF-8 can't represent, escaped as in JSON.

    A JSON text keeps its meaning, since they can only occur within strings there.

    >>> encodable("caf\udce9")
    'caf\\udce9'
    """
    return text if is_utf8(text) else text.encode(errors="backslashreplace").decode()


def text_of(error: BaseException) -> str:
    """Return the error's message, made legible."""
    return legible(error)


def type_of(error: BaseException) -> str:
    """Return the name of the error's class; for a child process's error, its class there."""
    name = error.error_type if isinstance(error, ChildFailed) else type(error).__name__
    return legible(name, LONGEST_NAME)


def _escaped(found: re.Match[str]) -> str:
    unfit = found.group()
    return "\n" if unfit == "\r\n" else unfit.encode("unicode_escape").decode()


def said(value: object) -> str:
    """Return a text as it is, or any other object's; its ``__str__`` may fail."""
    if isinstance(value, str):
        return value
    try:
        return str(value)
    except Exception as fault:  # noqa: BLE001 - the user's code, which must not cost the verdict
        return f"<{type(fault).__name__} in {type(value).__name__}.__str__>"
