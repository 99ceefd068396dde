"""A proxy in front of a local SQS: it counts requests, delays them, and injects faults.

`Proxy` lives in a test's event loop, where faults are injected and counts are waited for::

    async with Proxy(server) as proxy:
        proxy.inject(Refuse(status=503, code="ServiceUnavailable"), times=2)
        worker = await stage.worker("steady", endpoint_url=proxy.endpoint_url)

`ProxyProcess` is the same in a process of its own, for benchmarks, so that it adds little more to
the measurement than the latency that it was told to add.
"""

from tests.support.proxy.faults import (
    BROKEN,
    THROTTLED,
    UNAVAILABLE,
    Cut,
    Delay,
    Drop,
    FailEntries,
    Fault,
    Hold,
    Refuse,
    Say,
    Trickle,
)
from tests.support.proxy.process import ProxyProcess
from tests.support.proxy.server import Proxy

__all__ = [
    "BROKEN",
    "THROTTLED",
    "UNAVAILABLE",
    "Cut",
    "Delay",
    "Drop",
    "FailEntries",
    "Fault",
    "Hold",
    "Proxy",
    "ProxyProcess",
    "Refuse",
    "Say",
    "Trickle",
]
