"""``headgate dashboard``: dashboards for monitoring tools."""

from __future__ import annotations

from headgate.ops.cli.shared import examples, noun

dashboard = noun(
    "Print dashboards for monitoring tools.", examples("headgate dashboard grafana > headgate.json")
)


@dashboard.command(epilog=examples("headgate dashboard grafana > headgate.json"))
def grafana() -> None:
    """Print a dashboard for Grafana, to be imported there.

    It shows the metrics that workers with --health-port serve to Prometheus. The data source and
    the job of Prometheus's configuration are chosen in the dashboard.
    """
    from headgate.ops.dashboards import grafana_dashboard

    print(grafana_dashboard(), end="")
