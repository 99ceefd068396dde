"""All job types with their queues, priorities, time limits and schedules."""

from __future__ import annotations

from examples.assistant.app import app
from headgate import Concurrency, RateLimit

TYPES = """
check-quotas          billing    normal    1:00 10
clean-sessions        jobs       low       5:00 3
consolidate-memories  memory     low      10:00 4
dispatch-webhook      webhooks   high      0:15 5
embed-chunks          documents  normal    5:00 6
erase-user            memory     high      1:00 4
evaluate-patterns     learning   low      10:00 3
export-sessions       jobs       normal    5:00 3
forget-memories       memory     low       5:00 4
ingest-document       documents  normal    2:00 6
optimize-index        documents  low      15:00 6
record-usage          billing    critical  0:10 10
reembed-documents     documents  low       5:00 6
remember              memory     high      0:20 4
score-feedback        learning   low       0:30 3
send-notice           billing    high      0:10 10
summarize-session     jobs       high      0:30 3
train-patterns        learning   low      30:00 3
"""
"""Each type's queue, priority, time limit in minutes, and attempts."""


def test_there_are_eighteen_types_as_declared() -> None:
    found = []
    for name, job in sorted(app.types.items()):
        assert job.timeout is not None
        minutes, seconds = divmod(int(job.timeout.total_seconds()), 60)
        limit = f"{minutes}:{seconds:02}"
        found.append([name, job.queue, str(job.priority), limit, str(job.retry.max_attempts)])
    assert found == [line.split() for line in TYPES.strip().splitlines()]
    assert len(found) == 18


def test_five_cron_schedules_have_parameters_of_their_own() -> None:
    scheduled = {name: job for name, job in app.types.items() if job.schedule}
    assert {name: job.scheduled_payload(*job.schedules) for name, job in scheduled.items()} == {
        "consolidate-memories": {"threshold": 0.75},
        "optimize-index": {"least_recall": 0.95},
        "train-patterns": {"least_examples": 10, "least_accuracy": 0.7},
        "check-quotas": {"warn_at": [50, 80, 100], "suspend_at": 120},
        "clean-sessions": {"idle": "P7D", "most": 500},
    }
    assert all(str(job.schedule).count("cron(") for job in scheduled.values())


def test_one_tenant_or_endpoint_takes_no_more_than_its_part() -> None:
    limits = {name: queue.limits for name, queue in app.queues.items()}
    assert limits["memory"].concurrency == Concurrency(2, key="tenant", scope="fleet")
    assert isinstance(limits["webhooks"].rate_limit, RateLimit)
    assert limits["webhooks"].rate_limit.scope == "fleet"
    assert limits["webhooks"].breaker is not None
    assert limits["learning"].concurrency == Concurrency(1, scope="fleet")
