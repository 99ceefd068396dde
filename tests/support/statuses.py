"""The status of a worker, as tests show, store and list it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headgate.jobs.core.topology import Priority
from headgate.jobs.records.fleet.worker_status import (
    LimitState,
    TenantHeld,
    WorkerJob,
    WorkerState,
    WorkerStatus,
)

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
JOB = WorkerJob(
    id="0196a2b4-0000-7000-8000-000000000001",
    type="send-email",
    queue="mail",
    priority=Priority.HIGH,
    attempt=2,
    started_at=NOW - timedelta(seconds=90),
)
STATUS = WorkerStatus(
    name="ip-10-0-1-23.eu-central-1.compute.internal-1-3cc7",
    state=WorkerState.WORKING,
    started_at=NOW - timedelta(hours=3),
    seen_at=NOW,
    version="0.1.0",
    app_version="4f2a91c",
    polls={"mail": list(Priority), "money": [Priority.CRITICAL]},
    slots=50,
    busy=1,
    waiting=3,
    running=[JOB],
    limits={"breaker:type:send-email": LimitState.OPEN},
    pauses=["the tenant 'org-1'"],
    tenants=[TenantHeld(tenant="org-1", queue="mail", priority=Priority.HIGH, held=4)],
    failed={"mail": 7},
    reserved=5,
)
