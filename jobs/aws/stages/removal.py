"""Removal of what `jobs.aws.provision` has created, from a local stack."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from headgate.jobs.aws.connections.connection import Connection, async_aws_client
from headgate.jobs.aws.connections.faults import naming
from headgate.jobs.aws.queue_descriptions import failed_firings, failed_sweeps, pairs, quarantine
from headgate.jobs.core.topology import Topology


def queue_names(topology: Topology) -> list[str]:
    """Return the names of all queues that a topology has on AWS."""
    described = [queue for pair in pairs(topology) for queue in pair]
    described += [describe(topology) for describe in (quarantine, failed_firings, failed_sweeps)]
    return [queue.name for queue in described]


async def remove_provisioned(
    topology: Topology, *, endpoint_url: str | None = None, region: str | None = None
) -> None:
    """Delete a topology's queues, table, bucket and group of schedules, with all that they hold.

    What doesn't exist is passed over.

    Raises:
        ConfigurationError: aiobotocore is not installed.
        TransportError: AWS could not be asked, or refused.
    """
    connection = Connection(endpoint_url=endpoint_url, region=region)
    async with async_aws_client("sqs", connection) as sqs:
        await _delete_queues(sqs, queue_names(topology))
    async with async_aws_client("dynamodb", connection) as dynamodb:
        missing = suppress(dynamodb.exceptions.ResourceNotFoundException)
        with naming("dynamodb:DeleteTable", topology.table_name), missing:
            await dynamodb.delete_table(TableName=topology.table_name)
    async with async_aws_client("sts", connection) as sts, async_aws_client("s3", connection) as s3:
        with naming("s3:DeleteBucket", topology.bucket.prefix):
            account = (await sts.get_caller_identity())["Account"]
            await _delete_bucket(s3, topology.bucket.name_in(account, s3.meta.region_name))
    async with async_aws_client("scheduler", connection) as scheduler:
        await _delete_group(scheduler, topology.schedule_group)


async def left_queues(
    topology: Topology, *, endpoint_url: str | None = None, region: str | None = None
) -> list[str]:
    """Return the names of a topology's queues that exist.

    Raises:
        ConfigurationError: aiobotocore is not installed.
        TransportError: AWS could not be asked, or refused.
    """
    connection = Connection(endpoint_url=endpoint_url, region=region)
    async with async_aws_client("sqs", connection) as sqs:
        return [name for name in queue_names(topology) if await _url(sqs, name) is not None]


async def _delete_queues(sqs: Any, names: Iterable[str]) -> None:
    for name in names:
        if (url := await _url(sqs, name)) is not None:
            with naming("sqs:DeleteQueue", name):
                await sqs.delete_queue(QueueUrl=url)


async def _url(sqs: Any, name: str) -> str | None:
    with naming("sqs:GetQueueUrl", name), suppress(sqs.exceptions.QueueDoesNotExist):
        url: str = (await sqs.get_queue_url(QueueName=name))["QueueUrl"]
        return url
    return None


async def _delete_bucket(s3: Any, name: str) -> None:
    with suppress(s3.exceptions.NoSuchBucket):
        async for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
            for found in page.get("Contents", ()):
                await s3.delete_object(Bucket=name, Key=found["Key"])
        await s3.delete_bucket(Bucket=name)


async def _delete_group(scheduler: Any, name: str) -> None:
    missing = suppress(scheduler.exceptions.ResourceNotFoundException)
    with naming("scheduler:DeleteScheduleGroup", name), missing:
        await scheduler.delete_schedule_group(Name=name)
