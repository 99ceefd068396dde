"""A stage of an app on AWS, as a value: its workers and functions, its alerts, its network.

CDK, ``headgate check`` and ``headgate cost`` all read it, so that what is provisioned, checked and
priced is the same. Nothing here calls AWS. ``cdk.json`` may hold one for all stages, and overrides
for each: see `jobs.deployment.cdk_context`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import ClassVar, Literal

from pydantic import ConfigDict

from headgate.jobs.deployment.alarms.mutes import MuteWindow
from headgate.jobs.deployment.alarms.thresholds import Thresholds
from headgate.jobs.deployment.console.web_console import WebConsole, check_console_network
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.surroundings import (
    LOG_RETENTION_DAYS,
    Architecture,
    ExistingVpc,
    Hardening,
    check_once,
    check_surroundings,
    secret_services,
)
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.kinds import check_kinds
from headgate.jobs.values.light_dataclass import frozen_dataclass

_KEY = re.compile(r"arn:[\w-]+:kms:[a-z0-9-]+:\d{12}:key/[\w-]+")
_CLUSTER = re.compile(r"[A-Za-z0-9_-]{1,255}")
_MAIL = re.compile(r"[^@\s]+@[^@\s]+")

ZONES = 2
"""Availability zones of a network that is made for the workers."""

GATEWAY_ENDPOINTS = ("dynamodb", "s3")
"""Services that such a network reaches free of charge. An image's layers come from S3 too."""

INTERFACE_ENDPOINTS = ("ecr.api", "ecr.dkr", "logs", "sqs")
"""Services that it reaches through endpoints billed by the hour, one in each of `endpoint_zones`:
the image, the log and the queues. For a task on Fargate, ECS itself needs none.
https://docs.aws.amazon.com/AmazonECS/latest/developerguide/vpc-endpoints.html"""

KEY_ENDPOINT = "kms"
"""Needed in addition if the app seals its payloads."""

DELAY_ENDPOINT = "scheduler"
"""One more paid endpoint, for an app with `long_delays`."""

SIGNING_ENDPOINT = "secretsmanager"
"""Another one, for an app whose messages are signed."""


_THROWN_AWAY = (None, "dev")
"""Stages whose data is deleted with the stack, unless `Deployment.keep_data` says otherwise."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The resources of one stage on AWS besides the app's queues, table, bucket and schedules.

    Raises:
        ConfigurationError: two groups of one name, or a value is out of range.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    workers: tuple[WorkerGroup, ...] = (WorkerGroup(),)
    """The worker groups; empty if the workers run elsewhere, with `JobSystem.grant_work`."""
    consumers: tuple[ConsumerGroup, ...] = ()
    dockerfile: str = "Dockerfile"
    """The Dockerfile of the workers' image, which is built from the directory where CDK runs."""
    architecture: Architecture = "arm64"
    """The processors of the workers' tasks, which the image is built for."""
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Environment variables of all worker groups and consumers; a group may add to them."""
    secrets: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Secrets of all worker groups, by the environment variables that hold them: the ARN of one of
    Secrets Manager's, as in ``arn:aws:secretsmanager:eu-central-1:111122223333:secret:db-AbCdEf``,
    with ``:KEY`` after it for a key of its JSON, or ``ssm:NAME`` for a parameter of Systems
    Manager's. ECS reads them as it starts a task; a function has to read its own."""
    vpc: ExistingVpc | None = None
    """An existing VPC for the workers; None: a network is created, as `network` says."""
    cluster: str | None = None
    """The name of an existing ECS cluster, with the capacity providers FARGATE and, for Spot,
    FARGATE_SPOT; None: one is created."""
    encryption_key: str | None = None
    """The ARN of a customer-managed KMS key for the queues, the table and the bucket; None: keys
    that AWS manages. Its policy has to delegate permissions to IAM."""
    log_retention_days: int = 30
    """Days for which logs of workers and functions are kept, as CloudWatch Logs offers them: 1, 3,
    5, 7, 14, 30, 60, 90, 120, 150, 180, 365 and more.
    https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html"""
    log_key: str | None = None
    """The ARN of a customer-managed KMS key for the logs of workers and functions; None: a key of
    CloudWatch's. Its policy has to let ``logs.REGION.amazonaws.com`` use it.
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html"""
    alerts_to: tuple[str, ...] = ()
    """E-mail addresses for pages: a mail for each group of workers or functions with an alarm that
    pages (`Thresholds.pages`), and for dead letters of types with ``alert_at_once=True``."""
    tickets_to: tuple[str, ...] = ()
    """E-mail addresses for tickets: each alarm, summaries of dead letters, and a month that exceeds
    the budget. Empty: those of ``alerts_to``."""
    notify_recovery: bool = True
    """True if both are also notified when an alarm is over."""
    mutes: tuple[MuteWindow, ...] = ()
    """Windows in which alarms notify nobody."""
    roll_back_on_alarm: bool | None = None
    """True if ECS rolls back a deployment of workers during which the runs of their jobs begin to
    fail (``…-failing``). ECS then watches for about 15 minutes more before a deployment is
    complete. None: where data is kept."""
    budget_usd: int = 150
    """A month's costs in USD that trigger a notification; 0: no budget."""
    network: Literal["endpoints", "public"] = "endpoints"
    """The network that is created if the workers are given none.

    - ``"endpoints"``: no way to or from the internet; AWS's services are reached through endpoints,
      about 7 USD a month for each endpoint and zone.
    - ``"public"``: a public address for each task, about 4 USD a month, nothing let in, and
      everything let out: for handlers that call services outside AWS.
    """
    hardening: Hardening = field(default_factory=Hardening)
    """Options of the network that is created if the workers are given none."""
    endpoint_zones: int = 1
    """Zones with endpoints, 1 or 2. With one, workers stand still while its zone fails, and jobs
    wait in their queues."""
    standby: bool = False
    """True for a region that waits to take over: the job types' schedules exist there, but are
    disabled, since the other region's fire. See `as_standby`."""
    budget_of: Literal["account", "app", "stage"] = "account"
    """The costs that the budget counts.

    - ``"account"``: all costs of the AWS account.
    - ``"app"``: resources whose tag ``headgate:app`` is the app's name. Nothing is counted until
      that tag is activated for cost allocation, which only the account that pays can do.
    - ``"stage"``: likewise the tag ``headgate:system``, the app's name with its stage.
      https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/activating-tags.html
    """
    bridge_reserved: int | None = None
    """Part of the account's concurrency reserved for the bridge, and its limit, so that a thousand
    schedules of one minute take no more from your other functions; invocations that wait are sent
    within six hours. None reserves nothing, since a new account has too little to reserve any.
    https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html"""
    keep_data: bool | None = None
    """True if all that holds jobs, or opens them, outlives the stack and its removal from it:
    queues, dead-letter queues, table, bucket, group of schedules, keys. False: the stack deletes
    it, with all that is in it. None: True, except in the stage ``dev`` and without a stage."""
    protected: bool = False
    """Protection of the stack against termination, and of the table against deletion. CDK can't
    replace a protected stack whose first deployment failed, and CloudFormation can't roll back the
    creation of a protected table: turn it on once the first deployment has succeeded."""
    nested: tuple[str, ...] = ()
    """Queue groups whose alarms are in a nested stack each, since a stack has at most 500
    resources; nothing else moves. A group may be added or left out at any time: its alarms are then
    created anew, under other names, and begin without a history."""
    alarms: Thresholds | None = field(default_factory=Thresholds)
    """The alarms' thresholds; None: no alarms, for a stage that nobody is on call for."""
    console: WebConsole | None = None
    """The web console behind an internal load balancer, beside the workers; None: it is not part of
    the stack."""

    def __post_init__(self) -> None:
        check_kinds("the deployment", self)
        names = [group.name for group in self.workers] + [each.name for each in self.consumers]
        for name in names:
            if names.count(name) > 1:
                raise ConfigurationError(f"two worker groups or consumers are called {name!r}")
        if not 1 <= self.endpoint_zones <= ZONES:
            raise ConfigurationError(f"endpoint_zones must be 1 or 2, got {self.endpoint_zones}")
        if self.bridge_reserved is not None and self.bridge_reserved < 1:
            raise ConfigurationError(
                f"bridge_reserved is at least 1, or None, got {self.bridge_reserved}"
            )
        if self.budget_usd < 0:
            raise ConfigurationError(f"budget_usd must not be negative, got {self.budget_usd}")
        check_surroundings("the deployment", self.environment, self.secrets)
        if self.log_retention_days not in LOG_RETENTION_DAYS:
            raise ConfigurationError(
                f"log_retention_days must be one of {', '.join(map(str, LOG_RETENTION_DAYS))}, "
                f"CloudWatch's, got {self.log_retention_days}"
            )
        self._check_names()
        self._check_console()

    def _check_names(self) -> None:
        for name, key in (("encryption_key", self.encryption_key), ("log_key", self.log_key)):
            if key is not None and not _KEY.fullmatch(key):
                raise ConfigurationError(
                    f"{name} must be the ARN of a KMS key, arn:aws:kms:REGION:ACCOUNT:key/ID, and "
                    f"not of an alias, by which nothing is permitted to use it, got {key!r}"
                )
        if self.cluster is not None and not _CLUSTER.fullmatch(self.cluster):
            raise ConfigurationError(f"cluster must be the name of one, got {self.cluster!r}")
        for name in ("alerts_to", "tickets_to"):
            if malformed := [each for each in getattr(self, name) if not _MAIL.fullmatch(each)]:
                raise ConfigurationError(f"{name}: not an e-mail address: {malformed[0]!r}")
            check_once(name, getattr(self, name))

    def _check_console(self) -> None:
        if self.console is None:
            return
        if not self.workers:
            raise ConfigurationError(
                "the console runs beside the workers, and the deployment has none: leave it out, "
                "or run `headgate console` where the workers are"
            )
        if self.vpc is not None:  # otherwise one may be given where the stack is made
            check_console_network(self.vpc)

    @property
    def console_url(self) -> str:
        """The address of the web console, without a slash at its end; empty: there is none."""
        return "" if self.console is None else self.console.url

    def keeps_data(self, stage: str | None) -> bool:
        """Return `keep_data`, or the default of that stage."""
        return stage not in _THROWN_AWAY if self.keep_data is None else self.keep_data

    def rolls_back(self, stage: str | None) -> bool:
        """Return `roll_back_on_alarm`, or the default of that stage; False without alarms."""
        wanted = self.roll_back_on_alarm
        return self.alarms is not None and (self.keeps_data(stage) if wanted is None else wanted)

    def as_standby(self) -> Deployment:
        """Return the same deployment for a second region that waits to take over.

        Its schedules are disabled, its worker groups have no tasks while they have no jobs, and the
        budget of the first region counts for both.
        """
        workers = tuple(replace(group, min_tasks=0) for group in self.workers)
        return replace(self, standby=True, workers=workers, budget_usd=0)

    def environment_of(self, group: WorkerGroup) -> dict[str, str]:
        """Return a group's environment variables: its own, and those that it doesn't replace."""
        return {**_without(self.environment, group.secrets), **group.environment}

    def secrets_of(self, group: WorkerGroup) -> dict[str, str]:
        """Return a group's secrets, likewise."""
        return {**_without(self.secrets, group.environment), **group.secrets}

    def interface_endpoints(
        self, *, long_delays: bool, seals: bool, signing: bool = False
    ) -> tuple[str, ...]:
        """Return the services with paid endpoints in the workers' own network.

        Long delays need EventBridge Scheduler, encryption KMS, and secrets what holds them.

        Each has one in each of `endpoint_zones`. Empty if the network is public or exists already,
        or there are no workers.

        Args:
            long_delays: whether workers call EventBridge Scheduler.
            signing: whether they read the key that signs messages from Secrets Manager.
        """
        if not self.workers or self.network == "public" or self.vpc is not None:
            return ()
        delays = (DELAY_ENDPOINT,) if long_delays else ()
        keys = (KEY_ENDPOINT,) if seals else ()
        of_groups = (secret_services(group.secrets) for group in self.workers)
        read = secret_services(self.secrets).union(*of_groups)
        secrets = sorted(read | {SIGNING_ENDPOINT} if signing else read)
        return (*INTERFACE_ENDPOINTS, *delays, *keys, *secrets)


def _without(common: Mapping[str, str], replaced: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in common.items() if name not in replaced}
