"""An environment in which nothing here can reach a real AWS account."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

REGION = "us-east-1"


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
