"""An app's permissions as managed policies, for roles that are made elsewhere.

They hold what CDK grants, made by the same grants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from aws_cdk import Stack
from aws_cdk import aws_iam as iam

from headgate.infra.ijob_system import IJobSystem
from headgate.infra.system_settings import grant_group
from headgate.jobs.core.naming import role_in
from headgate.jobs.deployment.groups.worker_group import WorkerGroup

_FOR_PEOPLE_AND_SERVICES: Mapping[str, Callable[[IJobSystem, iam.IGrantable], object]] = {
    "submit": lambda system, grantee: system.grant_submit(grantee, unique=True),
    "follow": lambda system, grantee: system.grant_follow(grantee),
    "view": lambda system, grantee: system.grant_view(grantee),
    "operate": lambda system, grantee: system.grant_operate(grantee),
}
"""The policies that don't follow from a worker group, by the last part of their names."""


def add_policies(
    stack: Stack, system: IJobSystem, groups: Iterable[WorkerGroup]
) -> Mapping[str, iam.ManagedPolicy]:
    """Add a policy for each kind of grant, and one for each worker group.

    Their names are the app's, with its stage's if any, and the key that they are returned under,
    such as ``submit`` or ``work-mail``; they end with the region, as policies belong to an account.

    Raises:
        UnknownQueue: a worker group names a queue that the app doesn't have.
    """
    made = {}
    for name, grant in _FOR_PEOPLE_AND_SERVICES.items():
        made[name] = _add(stack, system, name)
        grant(system, made[name])
    for group in groups:
        name = f"work-{group.name}"
        made[name] = _add(stack, system, name)
        grant_group(system, made[name], group)
    return made


def _add(stack: Stack, system: IJobSystem, name: str) -> iam.ManagedPolicy:
    whole = f"{system.app.topology.schedule_group}-{name}"
    return iam.ManagedPolicy(
        stack,
        f"Policy-{name}",
        managed_policy_name=role_in(whole, stack.region),
        description=f"What {name} takes in {system.app.topology.schedule_group}",
    )
