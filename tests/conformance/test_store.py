"""The guarantees of every `AsyncObjectStore`, whichever server is behind it."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta

import pytest

from headgate.jobs.aws import s3
from headgate.jobs.errors import BucketMissing, PayloadLost, TransportError
from headgate.jobs.testing.memory import store as memory_store
from tests.conformance.stores import StoreUnderTest

KEY = "payloads/019b7ca4-7a2e-7000-8000-000000000001"
MOST = 2**24


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x1f\x8b\x08\x00\x00", id="looks like gzip"),
        pytest.param(bytes(range(256)), id="any byte"),
        pytest.param(b"aws-chunked\r\n0\r\n\r\n", id="looks like chunks"),
    ],
)
async def test_an_object_comes_back_as_it_was_put(bucket: StoreUnderTest, content: bytes) -> None:
    await bucket.async_store.put(KEY, content)

    assert await bucket.async_store.get(KEY, max_bytes=MOST) == content
    assert bucket.store.get(KEY, max_bytes=MOST) == content


async def test_an_object_put_synchronously_is_the_same_when_read(bucket: StoreUnderTest) -> None:
    bucket.store.put(KEY, b"of plain code")

    assert await bucket.async_store.get(KEY, max_bytes=MOST) == b"of plain code"


async def test_an_object_of_many_megabytes_comes_back_whole(bucket: StoreUnderTest) -> None:
    content = os.urandom(2**16) * 128

    await bucket.async_store.put(KEY, content)

    assert await bucket.async_store.get(KEY, max_bytes=MOST) == content


async def test_the_last_object_under_a_key_counts(bucket: StoreUnderTest) -> None:
    await bucket.async_store.put(KEY, b"first")
    await bucket.async_store.put(KEY, b"second")

    assert await bucket.async_store.get(KEY, max_bytes=MOST) == b"second"


async def test_the_first_object_created_under_a_key_stays(bucket: StoreUnderTest) -> None:
    assert await bucket.async_store.create(KEY, b"first")
    assert not await bucket.async_store.create(KEY, b"second")
    assert not bucket.store.create(KEY, b"first")

    assert await bucket.async_store.get(KEY, max_bytes=MOST) == b"first"
    assert bucket.store.create(f"{KEY}0", b"first")


async def test_an_object_that_was_put_is_not_created_again(bucket: StoreUnderTest) -> None:
    await bucket.async_store.put(KEY, b"first")

    assert not await bucket.async_store.create(KEY, b"second")
    assert await bucket.async_store.get(KEY, max_bytes=MOST) == b"first"


async def test_objects_are_listed_by_prefix_in_order_and_from_a_key_on(
    bucket: StoreUnderTest,
) -> None:
    for name in ("b", "a/2", "a/1", "a"):
        await bucket.async_store.put(name, b"x")

    everything = await bucket.async_store.page("a/")
    assert [each.key for each in everything.objects] == ["a/1", "a/2"]
    assert everything.after == ""
    assert [each.key for each in bucket.store.page("a/", after="a/1").objects] == ["a/2"]
    assert [*(await bucket.async_store.page("a/", after="a/2")).objects] == []


async def test_a_listing_says_when_an_object_was_stored_last(bucket: StoreUnderTest) -> None:
    await bucket.async_store.put(KEY, b"first")
    [before] = (await bucket.async_store.page(KEY)).objects
    await bucket.async_store.put(KEY, b"second")
    [after] = bucket.store.page(KEY).objects

    assert before.stored_at.utcoffset() == timedelta(0)
    assert before.stored_at <= after.stored_at <= datetime.now(UTC) + timedelta(minutes=1)


async def test_a_listing_goes_on_where_its_first_page_ends(
    bucket: StoreUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "MAX_LISTED", 2)
    monkeypatch.setattr(memory_store, "MAX_LISTED", 2)
    for name in ("a/1", "a/2", "a/3"):
        await bucket.async_store.put(name, b"x")

    first = await bucket.async_store.page("a/")
    second = bucket.store.page("a/", after=first.after)

    assert [[each.key for each in page.objects] for page in (first, second)] == [
        ["a/1", "a/2"],
        ["a/3"],
    ]
    assert (first.after, second.after) == ("a/2", "")


async def test_a_deleted_object_is_gone_and_may_be_deleted_again(bucket: StoreUnderTest) -> None:
    await bucket.async_store.put(KEY, b"content")

    await bucket.async_store.delete(KEY)
    bucket.store.delete(KEY)

    assert await bucket.async_store.get(KEY, max_bytes=MOST) is None


async def test_there_is_no_object_under_another_key(bucket: StoreUnderTest) -> None:
    await bucket.async_store.put(KEY, b"content")

    assert await bucket.async_store.get(f"{KEY}0", max_bytes=MOST) is None
    assert bucket.store.get(KEY[:-1], max_bytes=MOST) is None


async def test_an_object_that_is_too_large_is_not_read(bucket: StoreUnderTest) -> None:
    await bucket.async_store.put(KEY, b"x" * 1_000)

    for most in (0, 1, 999):
        with pytest.raises(PayloadLost, match=f"has over {most} bytes"):
            await bucket.async_store.get(KEY, max_bytes=most)
        with pytest.raises(PayloadLost, match=f"has over {most} bytes"):
            bucket.store.get(KEY, max_bytes=most)
    assert await bucket.async_store.get(KEY, max_bytes=1_000) == b"x" * 1_000
    assert bucket.store.get(KEY, max_bytes=1_000) == b"x" * 1_000


async def test_calls_may_overlap(bucket: StoreUnderTest) -> None:
    keys = [f"{KEY}-{number}" for number in range(20)]

    await asyncio.gather(*(bucket.async_store.put(key, key.encode()) for key in keys))
    found = await asyncio.gather(*(bucket.async_store.get(key, max_bytes=MOST) for key in keys))

    assert found == [key.encode() for key in keys]


async def test_a_bucket_that_is_missing_is_named_with_the_command_that_makes_it(
    bucket: StoreUnderTest,
) -> None:
    for call in (
        bucket.nowhere.put(KEY, b"x"),
        bucket.nowhere.create(KEY, b"x"),
        bucket.nowhere.get(KEY, max_bytes=MOST),
        bucket.nowhere.page(""),
    ):
        with pytest.raises(BucketMissing, match=r"does not exist.*cdk deploy") as refused:
            await call
        assert isinstance(refused.value, TransportError)
        assert not refused.value.transient
