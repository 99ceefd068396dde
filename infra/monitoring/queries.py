"""Queries over the logs, saved for CloudWatch Logs Insights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import aws_logs as logs
from constructs import Construct

OF_JOBS: Mapping[str, str] = {
    "failures by type and error": r"""
        filter message like /^job\.failed/
        | stats count(*) as failures, latest(error_message) as last by job_type, error_type
        | sort failures desc""",
    "slowest jobs": r"""
        filter message like /^job\.(completed|failed)/
        | fields @timestamp, job_type, job_id, attempt, ran_s, error_type
        | sort ran_s desc
        | limit 100""",
    "one job's story": r"""
        filter job_id = "PUT THE ID OF THE JOB HERE"
        | fields @timestamp, level, message, attempt, error_type, error_message, @logStream
        | sort @timestamp asc""",
    "retries": r"""
        filter message like /^job\.retry_scheduled/
        | stats count(*) as retries, avg(delay_s) as mean_delay_s by job_type, attempt, max_attempts
        | sort retries desc""",
    "dead letters by reason": r"""
        filter message like /^job\.(dead_lettered|quarantined)/
            or (message like /^message\.unrunnable/ and @message not like /"retry_in_s": ?\d/)
        | stats count(*) as dead, latest(job_id) as last by job_type, reason, error_type
        | sort dead desc""",
    "what a deploy interrupted": r"""
        filter message like /^job\.interrupted/
        | stats count(*) as interrupted by bin(5m), job_type, reason, @logStream
        | sort interrupted desc""",
}
"""Logs Insights queries by name, over the logs of workers and of functions that run jobs."""

OF_THE_BRIDGE: Mapping[str, str] = {
    "what the bridge submitted": r"""
        filter message in ["job submitted", "delayed job sent"]
        | fields @timestamp, job_type, job_id, schedule, scheduled_time, scheduler_attempt,
            event_rule, event_id, delayed_until
        | sort @timestamp desc
        | limit 100""",
}
"""Logs Insights queries by name, over the bridge function's log."""


class Queries(Construct):
    """The saved queries of an app, in a folder of its name.

    Where no log group is known, since the workers run elsewhere, it is chosen on each use.

    Args:
        service: the folder.
        job_logs: the log groups of workers, and of functions that run jobs.
        bridge_log: the bridge's log group; None: there is no bridge.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        service: str,
        job_logs: Sequence[logs.ILogGroup],
        bridge_log: logs.ILogGroup | None,
    ) -> None:
        super().__init__(scope, construct_id)
        for name, query in OF_JOBS.items():
            self._save(f"{service}/{name}", query, job_logs)
        if bridge_log is not None:
            for name, query in OF_THE_BRIDGE.items():
                self._save(f"{service}/{name}", query, [bridge_log])

    def _save(self, name: str, query: str, log_groups: Sequence[logs.ILogGroup]) -> None:
        logs.CfnQueryDefinition(
            self,
            name.rpartition("/")[2].replace(" ", "-"),
            name=name,
            query_string="\n".join(line.strip() for line in query.strip().splitlines()),
            log_group_names=[each.log_group_name for each in log_groups] or None,
        )
