"""The process of a worker group's container: its command, variables, user and health check.

It is the same on ECS, Kubernetes and Compose, and needs no CDK.
"""

from __future__ import annotations

from headgate.jobs.deployment.groups.worker_group import HEALTH_HOSTS, WorkerGroup

HEALTH_PORT = 8080
"""The first process's port; by default only the task's own containers can reach it."""

USER = "10001"
"""The unprivileged user of every container, whatever its image says; the workers' Dockerfile has it
too."""

CHECK_EVERY_S = 30
CHECK_PATIENCE_S = 5
CHECK_RETRIES = 3
STARTING_S = 120
"""Time until the first receive, in which failed checks don't count."""

_QUEUE_GRACE_S = 300
"""Longer than the checks take to fail: tasks that fail them count against a deploy, but tasks that
exit by themselves may not.
https://docs.aws.amazon.com/AmazonECS/latest/developerguide/deployment-circuit-breaker.html"""

_CHECK = """
from http.client import HTTPConnection
for port in range({first}, {first} + {processes}):
    connection = HTTPConnection("127.0.0.1", port, timeout={patience_s})
    connection.request("GET", "{path}")
    if connection.getresponse().status != 200:
        raise SystemExit(1)
""".strip()
"""By default asks each process whether it has ever received: a task that can't, such as one of the
wrong stage, fails its deploy, while one that has is healthy as long as it answers, even in an
outage. Python's images have no curl, and `headgate` takes a second to start."""


def command(group: WorkerGroup, *, emf: bool = True, port: int | None = None) -> list[str]:
    """Return the arguments of ``headgate`` that start a worker of this group.

    Args:
        group: the worker group.
        emf: whether its log has metrics for CloudWatch.
        port: the first process's port; None: `HEALTH_PORT`.
    """
    lanes = []
    if group.queues is not None:
        lanes += ["--queues", ",".join(group.queues)]
    if group.priorities is not None:
        lanes += ["--priorities", ",".join(group.priorities)]
    host = [] if group.health_host == HEALTH_HOSTS[0] else ["--health-host", group.health_host]
    return [
        "worker",
        *lanes,
        "--concurrency",
        str(group.concurrency),
        "--processes",
        str(group.processes),
        "--drain",
        f"{group.drain.total_seconds():g}s",
        "--queue-grace",
        f"{_QUEUE_GRACE_S}s",
        "--health-port",
        str(HEALTH_PORT if port is None else port),
        *host,
        *(["--emf"] if emf else []),
        "--log-json",
    ]


def health_check(group: WorkerGroup, path: str = "/startupz") -> list[str]:
    """Return the command that asks all of a container's processes whether they are healthy."""
    program = _CHECK.format(
        first=HEALTH_PORT, processes=group.processes, patience_s=CHECK_PATIENCE_S - 1, path=path
    )
    return ["python", "-I", "-S", "-c", program]


def worker_variables(group: WorkerGroup, app_path: str) -> dict[str, str]:
    """Return the variables that a group's workers read besides the app's.

    Args:
        group: the worker group.
        app_path: the app's ``module:attribute`` in the image.
    """
    return {
        "HEADGATE_APP": app_path,
        "HEADGATE_STOP_TIMEOUT": f"{group.stop_timeout.total_seconds():g}",
    }
