"""Command lines that are close to a right one, and how they are written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from headgate.ops.cli.refusals import in_own_words

APP_FLAGS = ("-A", "--app")

_APP_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_TAKING_APPS = ("worker", "dev", "shell")
"""Commands that take the app as their argument, too."""

_RENAMED = {("status",): ("jobs", "show"), ("schedules", "ls"): ("schedules", "list")}


class Commands(TyperGroup):
    """The commands of ``headgate``.

    One that is misspelt in a known way is told the right line, and values that an option does not
    take are refused in words of ours.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command, whose own options are read within."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            in_own_words(error)
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; completion by a shell is left alone."""
        if not ctx.resilient_parsing and (words := rewritten(args, app=ctx.params.get("app"))):
            ctx.fail(f"write this as: headgate {shlex.join(words)}")
        return super().resolve_command(ctx, args)


def rewritten(words: Sequence[str], *, app: str | None) -> list[str] | None:
    """Return the words that should have followed ``headgate``; None if these may be right.

    Args:
        words: the noun, or the verb that stands alone, and all behind it.
        app: the path that ``-A`` named before them.

    >>> rewritten(["status", "shop.app:app", "ID"], app=None)
    ['-A', 'shop.app:app', 'jobs', 'show', 'ID']
    """
    rest, path = _without_app(words)
    for old, new in _RENAMED.items():
        if tuple(rest[: len(old)]) == old:
            rest[: len(old)] = new
    if rest == list(words):
        return None
    return [*(("-A", found) if (found := path or app) else ()), *rest]


def _without_app(words: Sequence[str]) -> tuple[list[str], str | None]:
    """Take the app out of the words, where it is named behind a command that does not take it."""
    rest = list(words)
    for at, word in enumerate(words[:-1]):
        if word == "--":
            break
        if word in APP_FLAGS:
            return rest[:at] + rest[at + 2 :], rest[at + 1]
    if rest[0] not in _TAKING_APPS and len(rest) > 1 and _APP_PATH.fullmatch(rest[1]):
        return rest[:1] + rest[2:], rest[1]
    return rest, None
