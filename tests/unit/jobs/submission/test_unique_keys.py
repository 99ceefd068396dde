"""The keys of unique jobs: equal payloads have equal keys, in every process and version."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, Unique
from headgate.errors import OptionInvalid
from headgate.jobs.submission.set_order import in_order
from headgate.testing import Harness

HOURLY = Unique(within=timedelta(hours=1))

ELSEWHERE = """
from headgate.testing import Harness
from tests.unit.jobs.submission.test_unique_keys import key_of, Tagged
print(key_of(Tagged, Tagged(tags={"alpha", "beta", "gamma", "delta"})))
"""


class Tagged(BaseModel):
    tags: set[str]


class Nested(BaseModel):
    within: dict[int, list[Tagged]]
    sets: frozenset[frozenset[str]]


def key_of(model: Any, payload: Any) -> str:
    app = App("shop")
    job = app.define("tag", model, unique=HOURLY)
    harness = Harness(app)
    harness.client.submit(job, payload)
    [message] = harness.sqs.messages("shop-jobs-normal")
    found: str = json.loads(message.body)["options"]["unique"]["key"]
    return found


def test_equal_sets_have_one_key_in_every_process() -> None:
    keys = set()
    for seed in "123":
        ran = subprocess.run(
            [sys.executable, "-c", ELSEWHERE],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        )
        keys.add(ran.stdout.strip())
    assert len(keys) == 1


@pytest.mark.parametrize("model", [set[int], frozenset[int]])
def test_the_order_in_which_a_set_was_filled_does_not_count(model: Any) -> None:
    assert key_of(model, {0, 8, 16}) == key_of(model, {16, 8, 0})
    assert key_of(model, {0, 8, 16}) != key_of(model, {0, 8, 17})


def test_sets_are_put_in_order_wherever_a_payload_holds_them() -> None:
    given = {1: [{"tags": {"b", "a"}}], "sets": frozenset({frozenset("dc"), frozenset("ba")})}
    written = {"1": [{"tags": ["b", "a"]}], "sets": [["d", "c"], ["b", "a"]]}
    ordered = {"1": [{"tags": ["a", "b"]}], "sets": [["a", "b"], ["c", "d"]]}
    assert in_order(given, written) == ordered
    payload = Nested(within={1: [Tagged(tags={"a", "b"})]}, sets=frozenset())
    assert key_of(Nested, payload)


def test_lists_keep_their_order_and_the_keys_of_earlier_versions() -> None:
    assert key_of(list[int], [1, 2]) != key_of(list[int], [2, 1])
    parts = ["first", "tag", None, "payload", {"b": [2, 1], "a": [1]}]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()
    expected = hashlib.sha256(text).hexdigest()[:40]
    assert key_of(dict[str, list[int]], {"a": [1], "b": [2, 1]}) == expected


@pytest.mark.parametrize(
    "options", [{"unique": Unique(within=60, keep="last")}, {"unique": HOURLY, "expires": 60}]
)
def test_a_unique_submission_whose_key_no_worker_looks_at_is_refused(options: Any) -> None:
    app = App("shop", records="off")
    job = app.define("tag", int)
    client = Harness(app).client
    with pytest.raises(OptionInvalid, match=r"declare the type with unique="):
        client.submit(job, 1, **options)
    assert not client.submit(job, 1, unique=HOURLY).is_duplicate


@pytest.mark.parametrize(
    ("records", "options"),
    [("off", {"once": True}), ("off", {"unique": HOURLY}), ("failures", {})],
)
def test_of_submissions_that_workers_look_at_the_last_counts(records: Any, options: Any) -> None:
    app, ran = App("shop", records=records), list[int]()

    @app.job("tag", **options)
    async def tag(number: int) -> None:
        ran.append(number)

    harness = Harness(app)
    for number in (1, 2, 3):
        last = Unique(within=60, key="k", keep="last")
        harness.client.submit(tag, number, unique=last)
    harness.drain()
    assert ran == [3]
