"""The part of CloudWatch's alarms that rules use: one value per minute, and the final state.

FILL inserts missing values, even for a metric that has none in the whole window.
Windows slide by the minute.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headgate.infra.monitoring.rule import Rule

Minutes = Sequence[float | None]
"""A metric's values by minute; None where nothing was written."""

STATISTICS: Mapping[str, Callable[[list[float]], float]] = {
    "Sum": sum,
    "Minimum": min,
    "Maximum": max,
    "p99": max,  # for fewer than a hundred values
}

COMPARED: Mapping[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Gt: lambda left, right: left > right,
    ast.GtE: lambda left, right: left >= right,
    ast.Eq: lambda left, right: left == right,
}
COUNTED: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda left, right: left + right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
}


def goes_off(rule: Rule, seen: Mapping[str, Minutes]) -> bool:
    """Return True if the alarm is on at the end; metrics not in ``seen`` have no values."""
    values = [_value(rule, seen, periods_ago) for periods_ago in range(rule.periods)]
    return sum(_breaches(rule, value) for value in values) >= rule.points


def _breaches(rule: Rule, value: float | None) -> bool:
    if value is None:
        return rule.silence_alarms
    return value >= rule.threshold if rule.at else value > rule.threshold


def _value(rule: Rule, seen: Mapping[str, Minutes], periods_ago: int) -> float | None:
    minutes = rule.period_s // 60
    of_period: dict[str, float | None] = {}
    for name, series in rule.metrics.items():
        known = list(seen.get(name, ()))
        end = len(known) - periods_ago * minutes
        window = [
            value for value in known[max(0, end - minutes) : max(0, end)] if value is not None
        ]
        of_period[name] = STATISTICS[series.statistic](window) if window else None
    if rule.expression is None:
        [only] = of_period.values()
        return only
    text = rule.expression.replace(" AND ", " and ").replace(" OR ", " or ")
    value: float = _evaluated(ast.parse(text, mode="eval").body, of_period)
    return value


def _evaluated(node: ast.expr, values: Mapping[str, float | None]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.Call(func=ast.Name(id="FILL"), args=[metric, instead]):
            value = _evaluated(metric, values)
            return _evaluated(instead, values) if value is None else value
        case ast.Call(func=ast.Name(id="IF"), args=[condition, then, otherwise]):
            return _evaluated(then if _evaluated(condition, values) else otherwise, values)
        case ast.Call(func=ast.Name(id="MAX" | "SUM" as name), args=[ast.List(elts=elements)]):
            each = [_evaluated(element, values) for element in elements]
            return max(each) if name == "MAX" else sum(each)
        case ast.BoolOp(op=operator, values=parts):
            told = [bool(_evaluated(part, values)) for part in parts]
            return all(told) if isinstance(operator, ast.And) else any(told)
        case ast.Compare(left=left, ops=[comparison], comparators=[right]):
            return COMPARED[type(comparison)](_evaluated(left, values), _evaluated(right, values))
        case ast.BinOp(left=left, op=operation, right=right):
            return COUNTED[type(operation)](_evaluated(left, values), _evaluated(right, values))
    raise AssertionError(f"the rules used no such expression so far: {ast.unparse(node)}")
