"""A policy is split where it is too long for IAM, and allows the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.jobs.deployment.policy_parts import LONGEST_POLICY, parts
from headgate.jobs.errors import ConfigurationError
from tests.support.policies import allowed, statement


@pytest.mark.parametrize("statements", [[], [statement(3)]])
def test_a_policy_that_is_short_enough_stays_one(statements: list[Any]) -> None:
    document = {"Version": "2012-10-17", "Statement": statements}
    assert list(parts(document)) == [document]


def test_a_short_statement_fills_a_part_that_has_room() -> None:
    document = {"Statement": [statement(count, f"sqs:{count}") for count in (80, 90, 20)]}
    first, second = parts(document)
    assert [each["Action"] for each in first["Statement"]] == ["sqs:80", "sqs:20"]
    assert [each["Action"] for each in second["Statement"]] == ["sqs:90"]


@pytest.mark.parametrize("counts", [(40, 40, 40), (300,), (300, 1, 90)])
def test_a_longer_one_is_split_and_allows_the_same(counts: tuple[int, ...]) -> None:
    statements = [statement(count, f"sqs:Action{at}") for at, count in enumerate(counts)]
    whole = {"Version": "2012-10-17", "Statement": statements}
    split = list(parts(whole))
    assert len(split) > 1
    for part in split:
        assert len(json.dumps(part, separators=(",", ":"))) <= LONGEST_POLICY
    assert set().union(*map(allowed, split)) == allowed(whole)


def test_a_statement_that_no_split_makes_short_enough_is_refused() -> None:
    huge = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "x" * LONGEST_POLICY}
    with pytest.raises(ConfigurationError, match="s3:GetObject is longer than AWS allows"):
        list(parts({"Statement": [huge]}))
