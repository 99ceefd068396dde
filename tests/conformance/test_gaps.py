"""The declared gaps and the tests that show them belong together."""

from __future__ import annotations

from tests.conformance import gaps, test_transport
from tests.conformance.servers import Feature


def _needed_by_tests() -> set[Feature]:
    marks = [
        mark
        for test in vars(test_transport).values()
        for mark in getattr(test, "pytestmark", ())
        if mark.name == "needs"
    ]
    return {mark.args[0] for mark in marks}


def test_every_feature_has_a_test_that_needs_it() -> None:
    assert _needed_by_tests() == set(Feature)


def test_every_feature_is_lacking_somewhere() -> None:
    lacking = {*gaps.MOTO, *gaps.MOTO_UNSTEADY, *gaps.MINISTACK, *gaps.ELASTICMQ}
    assert lacking == set(Feature)
