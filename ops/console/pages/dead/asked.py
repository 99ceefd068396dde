"""The dead letters that a form is about: those chosen, or all that a filter selects."""

from __future__ import annotations

from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.console.forms import Fields, refuse
from headgate.ops.console.pages.dead.filters import letter_filter, wanted_letters
from headgate.ops.console.pages.wanted import Wanted
from headgate.ops.console.words import plural

_MOST = 1_000


@light_dataclass(frozen=True, slots=True, kw_only=True)
class AskedLetters:
    """A form: the letters that it is about, and whether that has been confirmed."""

    ids: tuple[str, ...]
    """The messages that are chosen."""
    wanted: Wanted
    all: bool
    """True: all that ``wanted`` selects, in place of ``ids``."""
    confirmed: bool

    @property
    def back(self) -> str:
        """The path of the list that it came from."""
        return f"/dead{self.wanted.query()}"

    @property
    def letters(self) -> str:
        """The letters in words, for the log."""
        if not self.all:
            return f"{plural(len(self.ids), 'dead letter')}: {', '.join(self.ids[:20])}"
        return f"all dead letters of {self.wanted.query() or 'the app'}"

    def filter(self) -> DeadLetterFilter:
        """Return the filter that selects them."""
        return letter_filter(self.wanted) if self.all else DeadLetterFilter(ids=self.ids)

    def fields(self) -> list[tuple[str, str]]:
        """Return the fields of a form that asks for the same."""
        chosen = [("all", "1")] if self.all else [("letter", each) for each in self.ids]
        return [*chosen, *self.wanted.given]


def asked_letters(form: Fields) -> AskedLetters:
    """Read which letters a form is about.

    Raises:
        HTTPException: there are none, too many, or the filter can't be read.
    """
    asked = AskedLetters(
        ids=form.texts("letter", most=128),
        wanted=wanted_letters(form),
        all=form.flag("all"),
        confirmed=form.flag("confirmed"),
    )
    if not asked.ids and not asked.all:
        refuse("No dead letter is chosen: tick some in the list.")
    if len(asked.ids) > _MOST:
        refuse(f"At most {_MOST:,} dead letters are chosen at a time.")
    return asked
