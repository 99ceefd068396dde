"""Every declared gap has tests that expose it, and every such test a declared gap."""

from __future__ import annotations

from enum import StrEnum
from types import ModuleType

from tests.conformance import (
    gaps,
    schedulers,
    tables,
    test_scheduler,
    test_table,
    test_transport,
)
from tests.conformance.schedulers import SchedulerFeature
from tests.conformance.servers import Feature
from tests.conformance.tables import TableFeature


def _needed_by_tests(suite: ModuleType) -> set[StrEnum]:
    marks = [
        mark
        for test in vars(suite).values()
        for mark in getattr(test, "pytestmark", ())
        if mark.name == "needs"
    ]
    return {mark.args[0] for mark in marks}


def test_every_feature_has_a_test_that_needs_it() -> None:
    assert _needed_by_tests(test_transport) == set(Feature)
    assert _needed_by_tests(test_scheduler) == set(SchedulerFeature)
    assert _needed_by_tests(test_table) == set(TableFeature)


def test_every_feature_is_lacking_somewhere() -> None:
    lacking = {*gaps.MOTO, *gaps.MOTO_UNSTEADY, *gaps.MINISTACK, *gaps.ELASTICMQ}
    assert lacking == set(Feature)
    assert {*schedulers.MOTO, *schedulers.MINISTACK} == set(SchedulerFeature)
    assert {*tables.MOTO, *tables.MOTO_UNSTEADY} == set(TableFeature)
