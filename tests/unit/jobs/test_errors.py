"""The trees in the docstrings of jobs.errors and jobs.retry.signals match the classes."""

from __future__ import annotations

import inspect
import re
from types import ModuleType

import pytest

from headgate.jobs import errors
from headgate.jobs.errors import (
    HeadgateError,
    JobTimeout,
    PartlySubmitted,
    QueueMissing,
    Refusal,
    ResultTimeout,
    Stopped,
    did_you_mean,
)
from headgate.jobs.retry import signals
from headgate.jobs.retry.signals import JobSignal


def drawn(home: ModuleType) -> dict[str, str | None]:
    """Return each class of the drawing with its parent, None for a root."""
    parents: list[str] = []
    tree: dict[str, str | None] = {}
    for line in (home.__doc__ or "").splitlines()[2:]:
        if found := re.match(r"([│ ├└─]*)(\w+)", line):
            depth = len(found[1]) // 4
            tree[found[2]] = parents[depth - 1] if depth else None
            parents[depth:] = [found[2]]
    return tree


def declared(home: ModuleType) -> dict[str, str | None]:
    classes = {
        cls
        for _, cls in inspect.getmembers(home, inspect.isclass)
        if issubclass(cls, BaseException) and cls.__module__.startswith(home.__name__)
    }
    return {
        cls.__name__: next((base.__name__ for base in cls.__bases__ if base in classes), None)
        for cls in classes
    }


@pytest.mark.parametrize("home", [errors, signals], ids=["errors", "signals"])
def test_the_tree_in_the_docstring_is_the_tree_of_the_classes(home: ModuleType) -> None:
    assert drawn(home) == declared(home)


def test_every_error_but_the_signals_has_the_one_root() -> None:
    roots = {name for name, parent in drawn(errors).items() if parent is None}
    assert roots == {HeadgateError.__name__, Stopped.__name__}
    assert not issubclass(JobSignal, HeadgateError)


def test_a_stop_is_no_exception_that_a_handler_would_swallow() -> None:
    assert not issubclass(Stopped, Exception)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (JobTimeout("render", 30), "'render' ran past its timeout of 30 s"),
        (ResultTimeout("id", state="running", timeout_s=5), "has not finished within 5 s"),
    ],
)
def test_a_timeout_is_pythons_own_too(error: HeadgateError, told: str) -> None:
    with pytest.raises(TimeoutError) as raised:
        raise error
    assert told in str(raised.value)
    assert raised.value.errno is None


@pytest.mark.parametrize(
    ("name", "known", "answer"),
    [
        ("prioriy", ["priority", "tenant"], "did you mean 'priority'?"),
        ("zzz", ["b", "a"], "known are: a, b"),
        ("zzz", [], "none is declared"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_or_with_all(
    name: str, known: list[str], answer: str
) -> None:
    assert did_you_mean(name, known) == answer


def test_a_missing_queue_is_named_with_the_command_that_makes_it() -> None:
    error = QueueMissing("shop-jobs-high")
    assert error.queue == "shop-jobs-high"
    assert "'shop-jobs-high' does not exist" in str(error)
    assert "cdk deploy" in str(error)


def test_a_failed_submission_says_how_many_which_and_what_to_submit_again() -> None:
    refusal = Refusal(
        index=3, id="the-id", code="InternalError", message="try later", sender_fault=False
    )
    error = PartlySubmitted([refusal], submitted=7)
    assert error.refusals == (refusal,)
    assert error.submitted == 7
    assert "1 of 7 jobs" in str(error)
    assert "the-id: InternalError: try later" in str(error)
