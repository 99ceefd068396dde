"""Expressions over metrics are spelled in one place, and count what is missing as 0."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.infra.monitoring import maths, metrics

ROOT = Path(__file__).parents[3]
SPELLED = ("FILL(", "SUM([{", "MAX([{")


def test_metrics_of_several_queues_have_a_variable_each() -> None:
    each = maths.numbered("waiting", ["shop-jobs-high", "shop-jobs-low"], metrics.visible)
    assert {name: series.dimensions for name, series in each.items()} == {
        "waiting0": {"QueueName": "shop-jobs-high"},
        "waiting1": {"QueueName": "shop-jobs-low"},
    }
    assert maths.total(each) == "SUM([FILL(waiting0, 0), FILL(waiting1, 0)])"
    assert maths.highest(each) == "MAX([FILL(waiting0, 0), FILL(waiting1, 0)])"


def test_a_rate_is_zero_for_a_few_failures() -> None:
    assert maths.rate("a", "a + b", at_least=5) == "IF(a >= 5, 100 * (a) / (a + b), 0)"


@pytest.mark.parametrize("folder", ["monitoring", "fargate"])
def test_no_other_module_spells_an_expression_s_functions(folder: str) -> None:
    others = [
        path.name
        for path in (ROOT / "infra" / folder).glob("*.py")
        if path.name != "maths.py" and any(each in path.read_text() for each in SPELLED)
    ]
    assert others == []
