"""Reports of failed jobs to Sentry."""

from headgate.jobs.deployment.sentry import Reporter, report_failures

__all__ = ["Reporter", "report_failures"]
