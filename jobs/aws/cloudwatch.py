"""CloudWatch: `AsyncCloudWatchMetrics` is a `jobs.core.backend.AsyncMetricReader`, and
`CloudWatchMetrics` a synchronous one.

Both open with their first call, which few programs ever make. A request costs by the metrics that
it asks for, about 0.01 USD a thousand.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Unpack

from headgate.jobs.aws.connections.clients import (
    AnyClients,
    AsyncClients,
    Clients,
    OnDemand,
    client_of,
)
from headgate.jobs.aws.connections.connection import Access, Connection
from headgate.jobs.aws.connections.faults import naming
from headgate.jobs.core.backend import MetricQuery
from headgate.jobs.core.existing.arns import bare_name
from headgate.jobs.core.immediate import driven
from headgate.jobs.values.stored import number

_AT_ONCE = 500
"""Maximum number of metrics of one request (same page)."""

_PAGES = 10
"""Maximum number of requests for the values of these: an answer may name another page for ever."""

_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S = 2.0, 3.0
"""Short, with one try: whoever looks at queues can do without."""


class _Calls:
    """The calls, over a client that is opened on demand."""

    def __init__(self, clients: AnyClients) -> None:
        self._client: OnDemand[Any] = client_of(clients, "cloudwatch")
        self.start, self.stop = self._client.start, self._client.stop

    async def read(
        self, queries: Sequence[MetricQuery], *, since: datetime, until: datetime
    ) -> Mapping[MetricQuery, Mapping[datetime, float]]:
        """Return the values of each metric that has any (GetMetricData)."""
        found: dict[MetricQuery, Mapping[datetime, float]] = {}
        for start in range(0, len(queries), _AT_ONCE):
            part = queries[start : start + _AT_ONCE]
            for each, values in (await self._values(part, since, until)).items():
                found[each] = dict(sorted(values.items()))
        return found

    async def _values(
        self, queries: Sequence[MetricQuery], since: datetime, until: datetime
    ) -> Mapping[MetricQuery, dict[datetime, float]]:
        client = await self._client.opened()
        names = {f"m{at}": each for at, each in enumerate(queries)}
        request: dict[str, Any] = {
            "MetricDataQueries": [_asked(name, each) for name, each in names.items()],
            "StartTime": since,
            "EndTime": until,
        }
        found: dict[MetricQuery, dict[datetime, float]] = {}
        for _ in range(_PAGES):
            with naming("cloudwatch:GetMetricData", queries[0].namespace):
                answer = await client.get_metric_data(**request)
            for name, values in _read(answer):
                if name in names:
                    found.setdefault(names[name], {}).update(values)
            if not (token := answer.get("NextToken")):
                break
            request["NextToken"] = token
        return found


class AsyncCloudWatchMetrics(_Calls):
    """Metrics of queues for an event loop.

    Args:
        access: As in `Connection`; the session is one of aiobotocore.
    """

    def __init__(self, **access: Unpack[Access]) -> None:
        super().__init__(AsyncClients(_connection(access)))


class CloudWatchMetrics:
    """Metrics of queues for synchronous code. Safe to share between threads.

    Args:
        access: As in `Connection`; the session is one of boto3.
    """

    def __init__(self, **access: Unpack[Access]) -> None:
        calls = _Calls(Clients(_connection(access)))
        self.read = driven(calls.read)
        self.close = driven(calls.stop)


def _connection(access: Access) -> Connection:
    return Connection(
        connect_timeout_s=_CONNECT_TIMEOUT_S,
        read_timeout_s=_READ_TIMEOUT_S,
        attempts=1,
        pool=1,
        **access,
    )


def _asked(name: str, query: MetricQuery) -> dict[str, Any]:
    dimensions = query.dimensions or (("QueueName", bare_name(query.queue)),)
    account = {} if query.account is None else {"AccountId": query.account}
    return account | {
        "Id": name,
        "MetricStat": {
            "Metric": {
                "Namespace": query.namespace,
                "MetricName": query.name,
                "Dimensions": [{"Name": each, "Value": value} for each, value in dimensions],
            },
            "Period": query.period_s,
            "Stat": query.statistic,
        },
    }


def _read(answer: Mapping[str, Any]) -> list[tuple[str, dict[datetime, float]]]:
    """Return the values by name and time; anything else is left out."""
    results = answer.get("MetricDataResults")
    return [
        (str(each.get("Id")), dict(_points(each)))
        for each in (results if isinstance(results, list) else [])
        if isinstance(each, Mapping)
    ]


def _points(result: Mapping[str, Any]) -> list[tuple[datetime, float]]:
    times, values = result.get("Timestamps") or [], result.get("Values") or []
    return [
        (at.astimezone(UTC), value)
        for at, value in zip(times, map(number, values), strict=False)
        if isinstance(at, datetime) and value is not None
    ]
