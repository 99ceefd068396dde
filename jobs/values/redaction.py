"""Texts of errors without what they must not show: an app's patterns, and the secrets of a payload.

A text is redacted once, where it is made of an exception, so that no log, event, dead letter or
record ever has it otherwise.
"""

from __future__ import annotations

import dataclasses
import re
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from headgate.jobs.errors import ChildFailed, ConfigurationError, HeadgateError
from headgate.jobs.values.texts import LONGEST, legible, said

REDACTED = "[redacted]"

MARGIN = 1_000
"""Characters beyond `LONGEST` in which patterns are looked for: of a longer match that the cut goes
through, the beginning stays."""

_FRAMES = 20

_INPUT = re.compile(r"(?<=input_value=).*(?=, input_type=)")
"""The input that pydantic's validation errors quote."""

_PLAIN = (str, bytes, int, float, bool, type(None))


class Redaction:
    """Hides what matches one of some patterns, besides what validation errors quote.

    Args:
        patterns: regular expressions.

    Raises:
        ConfigurationError: one is not valid, is for bytes, or matches the empty text.
    """

    __slots__ = ("_patterns",)

    def __init__(self, patterns: Iterable[str | re.Pattern[str]] = ()) -> None:
        if isinstance(patterns, str | bytes | re.Pattern) or not isinstance(patterns, Iterable):
            raise ConfigurationError(
                f"App(redact=...) takes a list of patterns, as in [r'\\d{{16}}'], got {patterns!r}"
            )
        self._patterns = (_INPUT, *map(_compiled, patterns))

    def text(self, value: object, secrets: Collection[str] = ()) -> str:
        """Return the text of an error, or another one, made legible.

        Args:
            value: the error; a child process has redacted those that come from it already.
            secrets: further texts to hide, from `secrets_of`.
        """
        if isinstance(value, ChildFailed):
            return legible(value)
        return self._hidden(said(value), secrets)

    def traceback(self, error: BaseException, secrets: Collection[str] = ()) -> str:
        """Return the traceback's last frames, where the fault is, as for `text`.

        It begins with the user's code: the frames that lead there are Headgate's. An error of
        Headgate's own in which the user's code has no part is its text alone.
        """
        if isinstance(error, ChildFailed):
            return legible(error.traceback, from_end=True)
        from headgate.jobs.values.tracebacks import from_users_code  # few processes need it

        trace = from_users_code(error.__traceback__)
        if trace is None and isinstance(error, HeadgateError):
            lines = traceback.format_exception_only(error)  # whose text says all
        else:
            lines = traceback.format_exception(
                type(error), error, trace or error.__traceback__, limit=-_FRAMES
            )
        return self._hidden("".join(lines), secrets, from_end=True)

    def _hidden(self, text: str, secrets: Collection[str], *, from_end: bool = False) -> str:
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, REDACTED)
        whole, most = len(text), LONGEST + MARGIN
        # Patterns may take long, so they are given no more than can be shown.
        text = text[-most:] if from_end else text[:most]
        for pattern in self._patterns:
            text = pattern.sub(REDACTED, text)
        if whole > most:  # the cut may have gone through a match
            text = text[MARGIN:] if from_end else text[:-MARGIN]
        return legible(text, from_end=from_end, whole=whole)


def secrets_of(payload: Any) -> frozenset[str]:
    """Return the values of all `SecretStr` and `SecretBytes` in a payload, as texts show them."""
    from pydantic import SecretBytes, SecretStr  # slow to import, and only errors need it

    found: set[str] = set()
    left, seen = [payload], set[int]()
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, SecretStr | SecretBytes):
            found.update(_spellings(value.get_secret_value()))
        else:
            left += [each for each in _within(value) if not isinstance(each, _PLAIN)]
    return frozenset(found - {""})


def _within(value: Any) -> Iterable[Any]:
    """Return the values that another one is made of."""
    if isinstance(value, BaseModel):
        return [*vars(value).values(), *(value.__pydantic_extra__ or {}).values()]
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, each.name, None) for each in dataclasses.fields(value)]
    return ()


def _spellings(secret: str | bytes) -> Iterator[str]:
    """Yield a secret as it is, and as a ``repr`` quotes it."""
    if isinstance(secret, bytes):
        yield secret.decode(errors="replace")
        yield repr(secret)[2:-1]
    else:
        yield secret
        yield repr(secret)[1:-1]


def _compiled(pattern: object) -> re.Pattern[str]:
    if not isinstance(pattern, str | re.Pattern) or isinstance(
        getattr(pattern, "pattern", ""), bytes
    ):
        raise ConfigurationError(
            f"App(redact=...): {pattern!r} is no pattern: write a text, or re.compile(...) of one"
        )
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigurationError(
            f"App(redact=...): {pattern!r} is no regular expression: {error}"
        ) from error
    if compiled.search("") is not None:
        raise ConfigurationError(
            f"App(redact=...): {compiled.pattern!r} matches the empty text, and so everywhere: "
            "write + in place of *, or name what has to be there"
        )
    return compiled


NOTHING = Redaction()
"""Hides nothing but what validation errors quote."""
