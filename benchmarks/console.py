"""The console in front of many dead letters and records: time, requests and memory.

    python -m benchmarks.console --letters 100000 --jobs 1000000

Starts `headgate console` on ElasticMQ and DynamoDB Local, and prints the seconds from its start to
the first page; those of each page when it is first looked at, at once again, and a minute later;
and for one viewer and for ten, each of whom keeps all pages open for a minute, the requests to AWS
and the console's memory. Filling the table takes the most time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import aiohttp

from benchmarks import dead_letters, job_records
from benchmarks.console_app import app
from benchmarks.environments import ROOT
from benchmarks.processes import WorkerProcess
from benchmarks.stage import ACCOUNT, use_test_account
from headgate.jobs.aws.dynamo.table import AsyncDynamoTable
from headgate.jobs.aws.provision import create_table
from headgate.ops.local.aws import LocalAws
from tests.support.java_servers import java_process
from tests.support.proxy import ProxyProcess

PAGES = ("/jobs", "/dead", "/", "/queues", "/workers")
VIEWERS = (1, 10)

_SQS, _TABLE, _OTHERS = "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"
_COMMAND = (sys.executable, "-c", "from headgate.ops import main; main()")
_ADDRESS = re.compile(r"http://\S+?(?=/ )")
_EVERY = re.compile(r'data-every="([\d.]+)"')
_WAITING = "AWS has not answered yet"
"""Said by a page in place of what has not been read."""

_MINUTE_S = 60.0
_LOOK_S = 0.01


def main() -> None:
    """Fill the servers, and look at the console."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--letters", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    arguments = parser.parse_args()
    use_test_account()
    with ExitStack() as stack:
        servers = {
            _SQS: stack.enter_context(java_process("elasticmq")).endpoint_url,
            _TABLE: stack.enter_context(java_process("dynamodb")).endpoint_url,
            _OTHERS: stack.enter_context(LocalAws()).endpoint_url,
        }
        os.environ.update(servers)
        dead_letters.fill(app, arguments.letters)
        asyncio.run(_fill_table(servers[_TABLE], arguments.jobs))
        asyncio.run(measure("benchmarks.console_app:app", servers))


async def _fill_table(endpoint_url: str, count: int) -> None:
    name = app.topology.table_name
    await create_table(name, endpoint_url=endpoint_url)
    async with AsyncDynamoTable(name, endpoint_url=endpoint_url) as table:
        await job_records.fill(table, range(count))


async def measure(path: str, servers: Mapping[str, str]) -> None:
    """Measure the console of an app.

    Args:
        path: the app's, as in ``shop.app:app``.
        servers: the endpoints of SQS, of the table, and of everything else, by the variables that
            name them.
    """
    with ExitStack() as stack:
        proxies = {name: stack.enter_context(ProxyProcess(url)) for name, url in servers.items()}
        began_s = time.perf_counter()
        console, read_log = stack.enter_context(_console(path, proxies))
        async with aiohttp.ClientSession(await _address(console, read_log)) as session:
            await _html(session, "/queues")
            print(f"from its start to the first page  {time.perf_counter() - began_s:.2f} s")
            await _time_pages(session)
            for viewers in VIEWERS:
                await _watch(session, viewers, proxies)
                print(f"{console.memory_mb():.0f} MB")


@contextmanager
def _console(
    path: str, proxies: Mapping[str, ProxyProcess]
) -> Iterator[tuple[WorkerProcess, Callable[[], str]]]:
    """Run `headgate console`; yield it, and a function that returns what it has printed."""
    environment = {
        **ACCOUNT,
        **{name: proxy.endpoint_url for name, proxy in proxies.items()},
        "PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path)),
        "PYTHONUNBUFFERED": "1",
    }
    command = [*_COMMAND, "-A", path, "console", "--port", "0"]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with WorkerProcess(command, cwd=Path(folder), environment=environment, log=log) as process:
            yield process, log.read_text


async def _address(console: WorkerProcess, read_log: Callable[[], str]) -> str:
    while (said := _ADDRESS.search(read_log())) is None:
        console.check()
        await asyncio.sleep(_LOOK_S)
    return said.group()


async def _time_pages(session: aiohttp.ClientSession) -> None:
    looks = {path: [await _seconds(session, path), await _seconds(session, path)] for path in PAGES}
    await asyncio.sleep(_MINUTE_S)
    for path, seconds in looks.items():
        first, again, later = *seconds, await _seconds(session, path)
        print(f"{path:<10} first {first:.2f} s, again {again:.3f} s, a minute later {later:.2f} s")


async def _seconds(session: aiohttp.ClientSession, path: str) -> float:
    """Return the seconds until a page is there with all that it asks AWS for."""
    began_s = time.perf_counter()
    while _WAITING in await _html(session, path):  # noqa: ASYNC110 - in another process
        await asyncio.sleep(_LOOK_S)
    return time.perf_counter() - began_s


async def _watch(
    session: aiohttp.ClientSession, viewers: int, proxies: Mapping[str, ProxyProcess]
) -> None:
    """Have viewers keep all pages open for a minute; print the requests to AWS."""
    await asyncio.sleep(_MINUTE_S)  # what was read before is old by then
    before = [proxies[name].counts().total() for name in (_SQS, _TABLE)]
    async with asyncio.TaskGroup() as group:
        for viewer in range(viewers):
            for path in PAGES:
                group.create_task(_keep_open(session, path, after_s=viewer / viewers))
    sqs, table = (
        proxies[name].counts().total() - count
        for name, count in zip((_SQS, _TABLE), before, strict=True)
    )
    noun = "viewer" if viewers == 1 else "viewers"
    print(
        f"{viewers:>2} {noun} for a minute: {sqs:,} requests to SQS, {table:,} to the table; ",
        end="",
    )


async def _keep_open(session: aiohttp.ClientSession, path: str, *, after_s: float) -> None:
    """Open a page, and look again as often as its script does in a browser."""
    await asyncio.sleep(after_s)
    ends_s = time.monotonic() + _MINUTE_S
    while time.monotonic() < ends_s:
        page = await _html(session, path)
        every = _EVERY.search(page)
        await asyncio.sleep(float(every[1]) if every and float(every[1]) else _MINUTE_S)


async def _html(session: aiohttp.ClientSession, path: str) -> str:
    async with session.get(path, headers={"accept": "text/html"}) as answer:
        answer.raise_for_status()
        return await answer.text()


if __name__ == "__main__":
    main()
