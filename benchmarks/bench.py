"""The order of measurements: contestants take turns, so that all share the machine's variations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from benchmarks import rows
from benchmarks.contestants import (
    ALL,
    BARE,
    BARE_POLLERS,
    CELERY_GEVENT,
    DRAMATIQ,
    HEADGATE,
    TASKIQ,
    Contestant,
    in_turn,
)
from benchmarks.costs import Costs
from benchmarks.hardship import Hardship
from benchmarks.imports import import_ms
from benchmarks.results import Collector
from benchmarks.scale import Scale
from benchmarks.stage import Stage
from benchmarks.variants import Variants
from benchmarks.waits import ON_FOUR_QUEUES, Waits
from headgate.jobs.core.ports.transport import OutgoingMessage
from tests.support.proxy import ProxyProcess
from tests.support.swallowing_table import SwallowingTable

_COUNTED = (HEADGATE, CELERY_GEVENT, DRAMATIQ, TASKIQ, BARE)
_ONE_BY_ONE = (CELERY_GEVENT, DRAMATIQ)
"""Contestants that submit one job per request, which takes minutes where latency is added."""
_WITH_SLOTS = (HEADGATE, CELERY_GEVENT, DRAMATIQ, TASKIQ, BARE_POLLERS)
_ONE_OF_EACH = (HEADGATE, CELERY_GEVENT, BARE)
_FAR_MS = 50
"""Latency of a queue in another continent, at which only the fastest drain."""
_FAST = (HEADGATE, TASKIQ, BARE_POLLERS)

_JOB_S = 0.05
_REQUESTS_TIMED = 300


class Bench:
    """All measurements on one server."""

    LONG: ClassVar[tuple[str, ...]] = ("idle", "instructions")
    """Parts that take a minute or more, which a quick run leaves out."""
    PARTS: ClassVar[tuple[str, ...]] = (
        "requests",
        "drain",
        "records",
        "slots",
        "wide",
        "processes",
        "payloads",
        "tls",
        "growth",
        "costs",
        "virtual",
        "instructions",
        "pickup",
        "critical",
        "sustained",
        "idle",
        "kill",
        "stop",
        "long",
        "soak",
        "imports",
        "proxy",
    )

    def __init__(self, server: str, folder: Path, scale: Scale) -> None:
        self._began = time.monotonic()
        self._server = server
        self._folder = folder
        self._scale = scale
        self._stages = {each: Stage(each, server, folder) for each in ALL}
        self._bodies: dict[Contestant, list[OutgoingMessage]] = {}
        self.results = Collector()
        self._waits = Waits(server, self._stages, scale, self.results, self._say)
        self._variants = Variants(server, folder, scale, self.results, self._say)
        self._costs = Costs(scale, self.results, self._say)
        self._hardship = Hardship(server, folder, scale, self.results, self._say)

    def run(self, parts: Iterable[str]) -> None:
        """Measure the parts, after warming up the server."""
        self._warm_up()
        by_name: dict[str, Callable[[], None]] = {
            "requests": self._requests,
            "drain": self._drain,
            "records": self._records,
            "slots": self._slots,
            "wide": self._variants.wide,
            "processes": self._variants.processes,
            "payloads": self._variants.payloads,
            "tls": self._variants.tls,
            "growth": self._variants.growth,
            "costs": self._costs.costs,
            "virtual": self._costs.virtual,
            "instructions": self._costs.instructions,
            "pickup": self._waits.pickup,
            "critical": self._waits.critical,
            "sustained": self._sustained,
            "idle": self._idle,
            "kill": self._hardship.kill,
            "stop": self._hardship.stop,
            "long": self._hardship.long,
            "soak": self._hardship.soak,
            "imports": self._imports,
            "proxy": self._proxy,
        }
        for part in parts:
            by_name[part]()

    def _warm_up(self) -> None:
        """Warm up the JVM, which compiles hot code, at no contestant's expense."""
        for _ in range(self._scale.rounds):
            self._drain_once(BARE_POLLERS, self._server)

    def _requests(self) -> None:
        with ProxyProcess(self._server) as proxy:
            for latency_ms in self._scale.latencies_ms:
                proxy.delay(latency_ms / 1000)
                for contestant in in_turn(_COUNTED, self._scale.few_rounds):
                    slow = latency_ms > 0 and contestant in _ONE_BY_ONE
                    jobs = self._scale.jobs // (10 if slow else 1)
                    self._say(f"requests-{latency_ms}", contestant.name)
                    self._requests_of(contestant, proxy, jobs, str(latency_ms))

    def _requests_of(
        self, contestant: Contestant, proxy: ProxyProcess, jobs: int, latency: str
    ) -> None:
        stage = self._stages[contestant]
        stage.clear("drain")
        sent = rows.submitted_requests(stage, proxy, jobs)
        if contestant not in self._bodies:
            self._bodies[contestant] = stage.record(stage.queues("drain")[0], jobs)
        taken = rows.drained_requests(stage, proxy, self._bodies[contestant], jobs)
        self.results.add(f"requests-{latency}", contestant.name, (sent + taken).total() / jobs)
        if contestant is HEADGATE:
            stage.clear("drain")
            single = ("headgate_peer.py", "submit-singly")
            sent = rows.submitted_requests(stage, proxy, jobs, single)
            total = (sent + taken).total()
            self.results.add(f"requests-single-{latency}", contestant.name, total / jobs)

    def _drain(self) -> None:
        with ProxyProcess(self._server) as proxy:
            for latency_ms in self._scale.latencies_ms:
                row = f"drain-{latency_ms}"
                who = ALL if self._scale.everyone else _ONE_OF_EACH
                self._drain_rounds(row, proxy, latency_ms, who, job_s=0)
            self._drain_rounds(f"drain-{_FAR_MS}", proxy, _FAR_MS, self._fast, job_s=0)

    def _records(self) -> None:
        """Repeat the drain with full records, which no other contestant keeps."""
        with SwallowingTable() as table:
            for contestant in in_turn((HEADGATE, BARE), self._scale.rounds):
                self._say("records", contestant.name)
                own = table.endpoint_url if contestant is HEADGATE else None
                drained = self._drain_once(contestant, self._server, row="records", table=own)
                self.results.add("records", contestant.name, drained.jobs_per_s)
            if not table.items():
                raise RuntimeError("no record was written, so nothing was measured")

    def _slots(self) -> None:
        with ProxyProcess(self._server) as proxy:
            for latency_ms in self._scale.latencies_ms:
                row = f"slots-{latency_ms}"
                who = _WITH_SLOTS if self._scale.everyone else _ONE_OF_EACH
                self._drain_rounds(row, proxy, latency_ms, who, job_s=_JOB_S)
            self._drain_rounds(f"slots-{_FAR_MS}", proxy, _FAR_MS, self._fast, job_s=_JOB_S)

    @property
    def _fast(self) -> Sequence[Contestant]:
        return _FAST if self._scale.everyone else (HEADGATE,)

    def _drain_rounds(
        self,
        row: str,
        proxy: ProxyProcess,
        latency_ms: int,
        contestants: Sequence[Contestant],
        *,
        job_s: float,
    ) -> None:
        proxy.delay(latency_ms / 1000)
        endpoint_url = proxy.endpoint_url if latency_ms else self._server
        rounds = self._scale.few_rounds if latency_ms else self._scale.rounds
        for contestant in in_turn(contestants, rounds):
            self._say(row, contestant.name)
            drained = self._drain_once(contestant, endpoint_url, row=row, job_s=job_s)
            self.results.add(row, contestant.name, drained.jobs_per_s)
            if row == "drain-0" and drained.cpu_s_per_1000 is not None:
                self.results.add("cpu", contestant.name, drained.cpu_s_per_1000)
            if row == "slots-0":
                self.results.add("memory", contestant.name, drained.memory_mb)

    def _drain_once(
        self,
        contestant: Contestant,
        endpoint_url: str,
        *,
        row: str = "",
        job_s: float = 0,
        table: str | None = None,
    ) -> rows.Drained:
        seconds = self._scale.drain_s
        rate = self.results.last(row, contestant.name)
        # Once the pace is known, submit no more than the time allows for.
        jobs = self._scale.most if rate is None else int(1.3 * rate * (seconds + 1)) + 100
        return rows.drain(
            self._stages[contestant],
            endpoint_url,
            self._recorded(contestant),
            jobs=min(jobs, self._scale.most),
            seconds=seconds,
            job_s=job_s,
            table=table,
        )

    def _sustained(self) -> None:
        scale = self._scale
        for _ in range(scale.few_rounds):
            self._say("sustained", HEADGATE.name)
            found = rows.sustained(
                self._stages[HEADGATE],
                self._server,
                jobs_per_s=scale.steady_jobs_per_s,
                seconds=scale.steady_s,
            )
            figures = {
                "sustained": found.jobs_per_s,
                "sustained-lost": found.lost,
                "sustained-twice": found.twice,
                "sustained-critical-p50": found.critical.p50_ms,
                "sustained-critical-p99": found.critical.p99_ms,
                "sustained-memory": found.memory_mb,
            }
            for row, figure in figures.items():
                self.results.add(row, HEADGATE.name, figure)

    def _idle(self) -> None:
        self._say("idle", "all side by side")
        stages = {each: self._stages[each] for each in ON_FOUR_QUEUES}
        found = rows.idle_requests(stages, self._server, self._scale.idle_s, self._scale.settle_s)
        for name, per_minute in found.items():
            self.results.add("idle", name, per_minute)

    def _imports(self) -> None:
        for _ in range(self._scale.imports):
            self.results.add(
                "import-jobs", HEADGATE.name, import_ms("headgate.jobs.definitions.app")
            )
            self.results.add("import-bridge", HEADGATE.name, import_ms("headgate.lambdas.bridge"))

    def _proxy(self) -> None:
        """Measure the latency that the proxy adds by itself, and when told to add 10 ms."""
        stage = self._stages[BARE]
        stage.clear("drain")
        (queue,) = stage.queues("drain")
        with ProxyProcess(self._server) as proxy:
            ways = {
                "past the proxy": (self._server, 0.0),
                "through it": (proxy.endpoint_url, 0.0),
                "through it, 10 ms added": (proxy.endpoint_url, 0.01),
            }
            for _ in range(self._scale.rounds):
                for way, (endpoint_url, latency_s) in ways.items():
                    proxy.delay(latency_s)
                    took_ms = rows.request_ms(endpoint_url, queue, _REQUESTS_TIMED)
                    self.results.add("proxy", way, took_ms)

    def _say(self, part: str, who: str) -> None:
        print(f"{time.monotonic() - self._began:5.0f} s  {part}: {who}", flush=True)

    def _recorded(self, contestant: Contestant) -> list[OutgoingMessage]:
        """Return messages that the contestant itself submitted."""
        if contestant not in self._bodies:
            stage, count = self._stages[contestant], min(1000, self._scale.jobs)
            stage.clear("drain")
            stage.submit("drain", 0, count, self._server)
            self._bodies[contestant] = stage.record(stage.queues("drain")[0], count)
        return self._bodies[contestant]
