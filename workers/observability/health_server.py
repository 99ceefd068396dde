"""A small HTTP server for the health and the metrics of a worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from headgate.jobs.errors import ConfigurationError
from headgate.workers.observability.health import Assessment, Health
from headgate.workers.observability.prometheus import Metrics

_SHUTDOWN_S = 1.0
_OK = 200
_UNAVAILABLE = 503


class Endpoint:
    """Serves a worker's health and metrics, in the worker's own event loop.

    - ``/healthz``: 200 while the process works, as any answer shows: the failure of a part ends the
      process. The body holds the verdict on the worker's health, and the checks behind it.
    - ``/startupz``: 503 until a receive has succeeded for the first time, and 200 from then on;
      also 200 while there is no room to receive, as other workers hold all of a fleet limit.
    - ``/readyz``: 200 while jobs can be received; 503 before and after, and while SQS or every
      queue is unavailable.
    - ``/metrics``: Prometheus's text format.

    Args:
        health: the worker's health.
        metrics: the worker's metrics.
        refresh: reads what the metrics show and no event tells; awaited before each scrape.
        ready: returns True while the worker runs and has not begun to stop.
        host: the address to bind; only this machine's own by default.
        port: the port to bind; 0 takes any free one, see `port`.
    """

    def __init__(
        self,
        health: Health,
        metrics: Metrics,
        *,
        ready: Callable[[], bool],
        refresh: Callable[[], Awaitable[None]],
        host: str = "127.0.0.1",
        port: int,
    ) -> None:
        self._health = health
        self._metrics = metrics
        self._ready = ready
        self._refresh = refresh
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """The bound port; until then the requested one."""
        if self._runner is None or not self._runner.addresses:
            return self._port
        bound: int = self._runner.addresses[0][1]
        return bound

    async def start(self) -> None:
        """Start to serve.

        Raises:
            ConfigurationError: the address can't be bound.
        """
        if self._runner is not None:
            return
        app = web.Application()
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/startupz", self._startupz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._show_metrics),
            ]
        )
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError as error:
            await runner.cleanup()
            raise ConfigurationError(
                f"the health server can't listen on {self._host}:{self._port}: {error.strerror}. "
                "Choose another --health-port"
            ) from error
        self._runner = runner

    async def close(self) -> None:
        """Stop serving; slow connections are cut."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.json_response(_told(self._health.assess()))

    async def _startupz(self, _request: web.Request) -> web.Response:
        return self._answer(self._health.has_started, "started")

    async def _readyz(self, _request: web.Request) -> web.Response:
        return self._answer(self._ready() and self._health.can_receive, "ready")

    def _answer(self, well: bool, name: str) -> web.Response:
        told = {name: well, **_told(self._health.assess())}
        return web.json_response(told, status=_OK if well else _UNAVAILABLE)

    async def _show_metrics(self, _request: web.Request) -> web.Response:
        await self._refresh()
        return web.Response(body=self._metrics.text(), content_type="text/plain", charset="utf-8")


def _told(found: Assessment) -> dict[str, object]:
    return {
        "status": found.status,
        "checks": [
            {"name": check.name, "status": check.status, "detail": check.detail}
            for check in found.checks
        ],
    }
