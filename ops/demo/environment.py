"""A local AWS, and an environment in which nothing here can reach a real account."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from headgate.ops.local.aws import LocalAws

REGION = "us-east-1"

_START_WITHIN_S = 30.0


@asynccontextmanager
async def local_aws(*, fires_schedules: bool = True) -> AsyncIterator[str]:
    """Run a local AWS, and return its endpoint; its blocking start can be cancelled.

    With ``fires_schedules=False`` it only stores them.
    """
    aws = LocalAws(start_within_s=_START_WITHIN_S, fires_schedules=fires_schedules)
    starting = asyncio.ensure_future(asyncio.to_thread(aws.start))
    try:
        await asyncio.shield(starting)
        yield aws.endpoint_url
    finally:
        await asyncio.to_thread(aws.stop)
        # A start under way fails once its process is gone; a process that it spawns only after this
        # stop is stopped by the next. Either way its error is irrelevant.
        await asyncio.wait({starting})
        await asyncio.to_thread(aws.stop)
        starting.exception()


@contextmanager
def only_local_aws(endpoint_url: str) -> Iterator[None]:
    """Point AWS's SDKs at the local endpoint within the block, and hide the user's accounts.

    botocore reads credentials from the environment, files, profiles and the instance's metadata;
    all but the first are disabled, and the credentials in the environment are valid nowhere.
    Proxies are bypassed.
    """
    ours = _nobody(endpoint_url)
    theirs = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    theirs |= {name: os.environ[name] for name in ours if name in os.environ}
    _replace(theirs, ours)
    try:
        yield
    finally:
        _replace(ours, theirs)


def _replace(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    for name in old:
        os.environ.pop(name, None)
    os.environ.update(new)


def _nobody(endpoint_url: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": "headgate-demo",
        "AWS_SECRET_ACCESS_KEY": "headgate-demo",
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "*",
        "no_proxy": "*",
    }
