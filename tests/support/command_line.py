"""The command line in the tests' own process."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from headgate.ops import main


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str


class CommandLine:
    """Runs ``headgate`` as its installed script does, with an app's name if one is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *words: str, app: str | None = None) -> Ended:
        """Run a command to its end."""
        named = () if app is None else ("-A", app)
        self._monkeypatch.setattr(sys, "argv", ["headgate", *named, *words])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = self._capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, captured.out, captured.err)
