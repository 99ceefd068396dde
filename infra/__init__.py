"""CDK constructs that provision an app's system on AWS, and the values that configure them.

`JobSystem` goes into a stack of your own; `HeadgateStack` is a complete stack. `IJobSystem` is what
a system offers wherever it is created. CDK is imported on their first use, so that ``headgate
cost`` and ``headgate check`` read a deployment without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if not __name__.startswith("headgate."):
    raise ImportError("'infra' is a folder of Headgate's sources: write `import headgate.infra`")

if TYPE_CHECKING:
    from headgate.infra.data.existing_resources import ExistingResources as ExistingResources
    from headgate.infra.ijob_system import IJobSystem as IJobSystem
    from headgate.infra.job_system import JobSystem as JobSystem
    from headgate.infra.stack import HeadgateStack as HeadgateStack
    from headgate.jobs.deployment.alarms.mutes import MuteWindow as MuteWindow
    from headgate.jobs.deployment.alarms.thresholds import QueueThresholds as QueueThresholds
    from headgate.jobs.deployment.alarms.thresholds import Thresholds as Thresholds
    from headgate.jobs.deployment.console.sign_in import SignIn as SignIn
    from headgate.jobs.deployment.console.web_console import WebConsole as WebConsole
    from headgate.jobs.deployment.deployment import Deployment as Deployment
    from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup as ConsumerGroup
    from headgate.jobs.deployment.groups.pollers import ProvisionedPollers as ProvisionedPollers
    from headgate.jobs.deployment.groups.queue_selection import QueueSelection as QueueSelection
    from headgate.jobs.deployment.groups.worker_group import WorkerGroup as WorkerGroup
    from headgate.jobs.deployment.surroundings import ExistingVpc as ExistingVpc
    from headgate.jobs.deployment.surroundings import Hardening as Hardening
    from headgate.jobs.deployment.surroundings import Sidecar as Sidecar

__all__ = [
    "ConsumerGroup",
    "Deployment",
    "ExistingResources",
    "ExistingVpc",
    "Hardening",
    "HeadgateStack",
    "IJobSystem",
    "JobSystem",
    "MuteWindow",
    "ProvisionedPollers",
    "QueueSelection",
    "QueueThresholds",
    "Sidecar",
    "SignIn",
    "Thresholds",
    "WebConsole",
    "WorkerGroup",
]

_HOMES = {
    "ConsumerGroup": "jobs.deployment.groups.consumer_group",
    "Deployment": "jobs.deployment.deployment",
    "ExistingResources": "infra.data.existing_resources",
    "ExistingVpc": "jobs.deployment.surroundings",
    "Hardening": "jobs.deployment.surroundings",
    "HeadgateStack": "infra.stack",
    "IJobSystem": "infra.ijob_system",
    "JobSystem": "infra.job_system",
    "MuteWindow": "jobs.deployment.alarms.mutes",
    "ProvisionedPollers": "jobs.deployment.groups.pollers",
    "QueueSelection": "jobs.deployment.groups.queue_selection",
    "QueueThresholds": "jobs.deployment.alarms.thresholds",
    "Sidecar": "jobs.deployment.surroundings",
    "SignIn": "jobs.deployment.console.sign_in",
    "Thresholds": "jobs.deployment.alarms.thresholds",
    "WebConsole": "jobs.deployment.console.web_console",
    "WorkerGroup": "jobs.deployment.groups.worker_group",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"headgate.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        from headgate.jobs.errors import LibraryMissing

        raise LibraryMissing(f"headgate.infra.{name}", error.name, "headgate[infra]") from error
    globals()[name] = found = getattr(module, name)
    return found
