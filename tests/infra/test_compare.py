"""Templates are equal if only the hashes of their assets differ."""

from __future__ import annotations

from typing import Any

import pytest

from tests.infra.compare import differences

ONE, OTHER = "0a" * 32, "1b" * 32


def function(**properties: Any) -> dict[str, Any]:
    return {"Resources": {"Bridge": {"Type": "AWS::Lambda::Function", "Properties": properties}}}


def test_hashes_of_assets_are_no_difference() -> None:
    before = function(S3Key=f"{ONE}.zip", Layers=[{"Fn::Sub": f"repository:{ONE}"}])
    after = function(S3Key=f"{OTHER}.zip", Layers=[{"Fn::Sub": f"repository:{OTHER}"}])
    assert not [*differences(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (function(Timeout=30), function(Timeout=31), "Properties.Timeout: 30 is now 31"),
        (function(Timeout=30), function(), "Properties.Timeout: is gone"),
        (function(), function(Timeout=30), "Properties.Timeout: is new"),
        (function(Layers=["a"]), function(Layers=["b"]), 'Layers[0]: "a" is now "b"'),
        (function(Layers=["a"]), function(Layers=[]), 'Layers: ["a"] is now []'),
        (function(Timeout=1), function(Timeout="1"), 'Timeout: 1 is now "1"'),
        (function(Tracing={}), function(Tracing=[]), "Tracing: {} is now []"),
    ],
)
def test_each_difference_is_told_with_its_place(before: Any, after: Any, says: str) -> None:
    [told] = differences(before, after)
    assert told.endswith(says)
    assert told.startswith("Resources.Bridge.")


def test_another_way_to_write_a_text_is_the_same_where_that_is_said() -> None:
    before, after = function(Handler="bridge.handler"), function(Handler="a.bridge.handler")
    assert [*differences(before, after)]
    assert not [*differences(before, after, {r"^a\.": ""})]
