"""Tracebacks of apps that can't be run: the user's own code, once, and the reason after it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headgate import load_app
from headgate.errors import HeadgateError
from headgate.ops.dev.faults import users_traceback

Traced = Callable[[str], str]


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Traced]:
    """Return the traceback of loading an app of this source."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def load(source: str) -> str:
        (tmp_path / "traced_shop.py").write_text(source)
        with pytest.raises(HeadgateError) as raised:
            load_app("traced_shop:app")
        return users_traceback(raised.value)

    yield load
    sys.modules.pop("traced_shop", None)


def test_an_error_of_the_user_s_code_is_shown_with_its_text(traced: Traced) -> None:
    said = traced("def load():\n    {}['x']\n\nload()\n").splitlines()
    assert said[0] == "Traceback (most recent call last):"
    assert "    load()" in said
    assert said[-1] == "KeyError: 'x'"
    assert "importlib" not in "".join(said)


def test_a_wrong_declaration_is_shown_by_its_line_and_the_reason_is_left_to_follow(
    traced: Traced,
) -> None:
    said = traced("from headgate import App\napp = App('shop', retries=3)\n")
    assert "line 2, in <module>\n    app = App('shop', retries=3)" in said
    assert "has no option" not in said


def test_a_value_that_headgate_refused_deep_within_is_shown_where_the_user_wrote_it(
    traced: Traced,
) -> None:
    said = traced("from headgate import Schedule\nnightly = Schedule.cron('0 8 * * *')\n")
    assert "line 2, in <module>\n    nightly = Schedule.cron('0 8 * * *')" in said
    assert "headgate" not in said.partition("traced_shop.py")[2].replace("from headgate", "")


def test_a_syntax_error_is_shown_where_it_stands(traced: Traced) -> None:
    assert "line 1\n    def broken(:" in traced("def broken(:\n")


def test_an_app_that_is_not_there_is_no_line_s_fault(traced: Traced) -> None:
    assert "traced_shop.py" not in traced("")
