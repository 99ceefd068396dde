"""A stack that would have too many resources puts alarms into nested stacks."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import aws_cdk as cdk
import pytest
from jsii.errors import JavaScriptError

import headgate.infra.app
from headgate import App
from headgate.infra.app import main
from headgate.infra.checks.nesting import nested_further
from headgate.jobs.deployment.deployment import Deployment
from tests.infra.conftest import ELSEWHERE, Params

TOO_MANY = (
    "@jsii/kernel.RuntimeError: Number of resources in stack 'shop': {} is greater than allowed "
    "maximum of 500: AWS::SQS::Queue (96)"
)


def broad(groups: int = 3) -> App:
    """Return an app with groups of four queues each, of five alarms each."""
    app = App("shop", stage="prod", priorities="all")
    for number in range(groups):
        app.queue(f"group-{number}").define(f"type-{number}", Params)
    return app


@pytest.mark.parametrize(
    ("over", "nested"),
    [(1, ("group-2",)), (19, ("group-2",)), (20, ("group-2", "group-1"))],
)
def test_as_few_groups_are_nested_as_suffice_the_last_ones_first(
    over: int, nested: tuple[str, ...]
) -> None:
    found = nested_further(broad(), ELSEWHERE, over)
    assert found == replace(ELSEWHERE, nested=nested)


def test_what_is_nested_already_stays_so_and_is_not_counted_again() -> None:
    first = replace(ELSEWHERE, nested=("group-0",))
    found = nested_further(broad(), first, 1)
    assert found == replace(first, nested=("group-0", "group-2"))


def test_a_stack_that_is_too_large_without_alarms_can_t_be_helped() -> None:
    assert nested_further(broad(), ELSEWHERE, 100) is None
    assert nested_further(broad(), replace(ELSEWHERE, alarms=None), 1) is None


class Assembly:
    """CDK's app, whose synthesis fails while its stack has too many resources."""

    def __init__(self, resources: dict[tuple[str, ...], int]) -> None:
        self._resources = resources
        self.nested: tuple[str, ...] = ()

    def synth(self) -> None:
        if (found := self._resources[self.nested]) > 500:
            raise RuntimeError(TOO_MANY.format(found)) from JavaScriptError("at Kernel")  # type: ignore[no-untyped-call]  # jsii has no types


@pytest.fixture
def synthesized(monkeypatch: pytest.MonkeyPatch) -> list[Deployment]:
    """Return the deployments that were synthesized, of a stack of 510 resources, nested of 491."""
    done: list[Deployment] = []

    def add_stack(assembly: Assembly, nested: tuple[str, ...]) -> Any:
        done.append(replace(ELSEWHERE, nested=nested))
        assembly.nested = done[-1].nested
        return SimpleNamespace(jobs=SimpleNamespace(app=broad(), deployment=done[-1]))

    entry = headgate.infra.app
    resources = {(): 510, ("group-2",): 491}
    monkeypatch.setattr(cdk, "App", lambda: Assembly(resources))
    monkeypatch.setattr(entry, "add_stack", add_stack)
    monkeypatch.setattr(entry, "add_nag", lambda assembly: assembly)
    return done


def test_the_command_nests_by_itself_and_says_what_to_write(
    synthesized: list[Deployment], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main() == 0
    assert [each.nested for each in synthesized] == [(), ("group-2",)]
    assert capsys.readouterr().err == (
        "headgate: Number of resources in stack 'shop': 510 is greater than allowed maximum of "
        "500: the alarms of the queue groups group-2 go into nested stacks. Write "
        '"nested": ["group-2"] into the deployment to keep it so\n'
    )
