"""An app's monitoring: alarms, a dashboard, saved queries and a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from headgate.infra.data.alert_topic import Alerts
from headgate.infra.monitoring.alarm_rules import rules_for
from headgate.infra.monitoring.alarms import Alarms
from headgate.infra.monitoring.budget import MonthlyBudget
from headgate.infra.monitoring.dashboard import Dashboard
from headgate.infra.monitoring.paging import Paging
from headgate.infra.monitoring.queries import Queries
from headgate.jobs.core.topology import Topology
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.metric_names import service_name
from headgate.jobs.deployment.resource_names import function_name
from headgate.jobs.deployment.scaling.backlog import counted_groups


class Monitoring(Construct):
    """The alarms, the dashboard, the saved queries and the budget of an app.

    Args:
        app: the app with the queues and types.
        deployment: the deployment, with workers, functions, thresholds and the budget.
        alerts: the topics to notify.
        bridge: the function that schedules and events invoke; None: there is none.
        schedules: whether the app has a group of schedules.
        services: the workers' services, by group name.
        sweep: the function that sweeps the dead letters.
        job_logs: the log groups of workers, and of functions that run jobs.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        app: App,
        deployment: Deployment,
        alerts: Alerts,
        bridge: lambda_.Function | None,
        schedules: bool,
        services: Mapping[str, ecs.FargateService],
        sweep: lambda_.IFunction,
        job_logs: Sequence[logs.ILogGroup],
    ) -> None:
        super().__init__(scope, construct_id)
        service = service_name(app.name, app.stage)
        rules = rules_for(
            app,
            deployment,
            bridge=bridge is not None,
            schedules=schedules,
            sweep=sweep.function_name,
        )
        self.alarms = Alarms(
            self,
            "Alarms",
            rules=rules,
            service=service,
            topic=alerts.tickets,
            recoveries=deployment.notify_recovery,
        )
        self.paging = Paging(
            self,
            "Paging",
            rules=rules,
            alarms=self.alarms,
            service=service,
            topic=alerts.topic,
            recoveries=deployment.notify_recovery,
            mutes=deployment.mutes,
        )
        # Otherwise, on a first deployment, they would go off before there could be a worker.
        self.alarms.node.add_dependency(*services.values())
        self.dashboard = Dashboard(
            self,
            "Dashboard",
            topology=app.topology,
            alarms=[*self.paging.by_name.values(), *self.alarms.by_name.values()],
            set_aside=_set_aside(app.topology, fires=bridge is not None),
            services=services,
            functions=_functions(app, deployment, bridge=bridge is not None)
            | {"sweep": sweep.function_name},
            schedules=schedules,
            standby=deployment.standby,
        )
        Queries(
            self,
            "Queries",
            service=service,
            job_logs=job_logs,
            bridge_log=bridge.log_group if bridge is not None else None,
        )
        if deployment.budget_usd:
            MonthlyBudget(
                self,
                "Budget",
                topology=app.topology,
                usd=deployment.budget_usd,
                of=deployment.budget_of,
                topic=alerts.tickets,
            )


def _set_aside(topology: Topology, *, fires: bool) -> Mapping[str, str]:
    firings = {"failed firings": topology.failed_firings_name} if fires else {}
    return {
        "quarantine": topology.quarantine_name,
        "failed sweeps": topology.failed_sweeps_name,
        **firings,
    }


def _functions(app: App, deployment: Deployment, *, bridge: bool) -> dict[str, str]:
    """Return the names on AWS of the app's functions, by label."""
    consumers = {
        group.name: function_name(app.topology, group.name) for group in deployment.consumers
    }
    counted = counted_groups(app.topology, deployment.workers)
    return (
        consumers
        | ({"bridge": app.topology.bridge_name} if bridge else {})
        | ({"demand": function_name(app.topology, "demand")} if counted else {})
    )
