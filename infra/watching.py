"""All that watches an app: alarms, a dashboard, saved queries, a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.budget import Budget
from infra.dashboard import Dashboard
from infra.monitoring import Alarms, rules_for
from infra.queries import Queries
from jobs.app import App
from jobs.deployment import Deployment
from jobs.metric_names import service_name


class Watching(Construct):
    """The alarms, the dashboard, the saved queries and the budget of an app.

    Args:
        app: whose queues and types.
        deployment: what runs its jobs, the thresholds and the budget.
        topic: is told.
        bridge: the function that schedules and events invoke; None: there is none.
        schedules: whether there is a group of schedules.
        services: the workers' services, by their groups' names.
        consumers: the functions that run jobs, by their groups' names.
        others: further functions of the app, by what they are called.
        job_logs: what workers and ``consumers`` write to.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        app: App,
        deployment: Deployment,
        topic: sns.ITopic,
        bridge: lambda_.Function | None,
        schedules: bool,
        services: Mapping[str, ecs.FargateService] | None = None,
        consumers: Mapping[str, lambda_.IFunction] | None = None,
        others: Mapping[str, lambda_.IFunction] | None = None,
        job_logs: Sequence[logs.ILogGroup] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        service = service_name(app.name, app.stage)
        functions = {
            name: function.function_name
            for name, function in {**(consumers or {}), **(others or {})}.items()
        }
        bridge_name = app.topology.bridge_name if bridge is not None else None
        self.alarms = Alarms(
            self,
            "Alarms",
            rules=rules_for(
                app, deployment, bridge=bridge_name, schedules=schedules, functions=functions
            ),
            service=service,
            topic=topic,
        )
        # Else those of a first deployment would go off before there could be a worker.
        self.alarms.node.add_dependency(*(services or {}).values())
        self.dashboard = Dashboard(
            self,
            "Dashboard",
            topology=app.topology,
            alarms=list(self.alarms.by_name.values()),
            services=services or {},
            functions=({"bridge": bridge_name} if bridge_name else {}) | functions,
            schedules=schedules,
        )
        Queries(
            self,
            "Queries",
            service=service,
            job_logs=job_logs,
            bridge_log=bridge.log_group if bridge is not None else None,
        )
        if deployment.budget_usd:
            Budget(
                self,
                "Budget",
                topology=app.topology,
                usd=deployment.budget_usd,
                of=deployment.budget_of,
                topic=topic,
            )
