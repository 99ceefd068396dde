"""Bundles: how jobs are packed into messages, and read from them again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.core.ports.transport import EntryFailure, OutgoingMessage
from headgate.jobs.core.topology import Priority
from headgate.jobs.errors import MessageSchemaNewer
from headgate.jobs.messages.bundles import (
    MOST_JOBS,
    bodies_of,
    bundle_body,
    by_job,
    failures_by_job,
    is_bundle,
    jobs_of,
    packed,
)
from headgate.jobs.messages.envelope import VERSION, Envelope, parse
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.messages.outgoing import message_of

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def message(text: str = "", tenant: str | None = None, job_type: str = "embed") -> OutgoingMessage:
    envelope = Envelope(
        v=VERSION,
        id=new_job_id(NOW),
        type=job_type,
        payload={"text": text},
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=NOW,
    )
    sent = message_of(envelope)
    return OutgoingMessage(body=sent.body, attributes=sent.attributes, group=tenant)


def pack(*messages: OutgoingMessage, most: int = 64_000) -> list[list[int]]:
    """Return the places of the jobs of each message that is sent."""
    return [list(each.indices) for each in packed(messages, [most] * len(messages))]


@given(st.lists(st.text(), min_size=2, max_size=20))
def test_each_job_of_a_bundle_is_read_as_the_very_text_that_was_packed(texts: list[str]) -> None:
    messages = [message(text) for text in texts]
    [sent] = packed(messages, [1_000_000] * len(messages))
    assert jobs_of(sent.message.body) == [each.body for each in messages]


def test_a_job_alone_travels_in_a_message_of_its_own() -> None:
    alone = message("one")
    [sent] = packed([alone], [64_000])
    assert sent.message is alone
    assert jobs_of(alone.body) is None
    assert bodies_of(alone.body) == [alone.body]


def test_jobs_that_may_share_no_message_travel_alone() -> None:
    messages = [message(str(number)) for number in range(4)]
    found = packed(messages, [64_000, 0, 64_000, 0])
    assert [list(each.indices) for each in found] == [[0, 2], [1], [3]]
    assert by_job(found, ["a", "b", "c"]) == ["a", "b", "a", "c"]


def test_a_bundle_holds_the_jobs_of_one_type_and_one_tenant() -> None:
    jobs = [message(tenant="a"), message(tenant="b"), message(tenant="a"), message(job_type="x")]
    assert pack(*jobs) == [[0, 2], [1], [3]]


@pytest.mark.parametrize("most", [1_000, 5_000, 64_000])
def test_no_bundle_is_larger_than_its_limit_and_few_are_needed(most: int) -> None:
    messages = [message("ä" * 20) for _ in range(300)]
    found = packed(messages, [most] * len(messages))
    sizes = [each.size for each in found]
    assert max(sizes) <= most
    assert all(size > most - 400 for size in sizes[:-1])
    assert sorted(index for each in found for index in each.indices) == list(range(300))


def test_a_job_too_large_for_a_bundle_travels_alone_and_the_others_together() -> None:
    assert pack(message(), message("x" * 70_000), message()) == [[0, 2], [1]]


def test_a_bundle_has_a_thousand_jobs_at_most() -> None:
    few_bytes = OutgoingMessage(body="{}")
    found = packed([few_bytes] * (MOST_JOBS + 1), [1_000_000] * (MOST_JOBS + 1))
    assert [len(each.indices) for each in found] == [MOST_JOBS, 1]
    too_many = bundle_body(["{}"] * (MOST_JOBS + 1))
    assert is_bundle(too_many)
    assert jobs_of(too_many) is None


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        '{"v":2,"bundle":[]}',
        '{"v":2,"bundle":[\n]}',
        '{"v":2,"bundle":[\n\n]}',
        '{"v":2,"bundle":[\n{},\n]}',
        '{"v":2,"bundle":[\n{},\n1\n]}',
        '{"v":2,"bundle":[\n{}',
        '{"v":2, "bundle": [{}]}',
        message().body,
    ],
)
def test_what_is_not_written_as_a_bundle_is_none(body: str) -> None:
    assert jobs_of(body) is None


def test_a_reader_of_version_1_alone_finds_a_newer_version() -> None:
    with pytest.raises(MessageSchemaNewer, match="version 2"):
        parse(bundle_body([message().body]))


def test_a_message_that_fails_fails_each_of_its_jobs() -> None:
    found = packed([message(), message(tenant="b"), message()], [64_000] * 3)
    failure = EntryFailure(index=0, code="Busy", message="later", sender_fault=False)
    assert [each.index for each in failures_by_job(found, [failure])] == [0, 2]
