"""All rules, and the check of an app by each of them.

Each rule looks at one thing and yields faults. A single invalid value is refused where it is
declared; contradictions between values that are declared apart are found here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.checks.deployment_rules import (
    alarm_never_fires,
    alarms_of_no_queue,
    budget_without_reader,
    deployment_unfit,
    limits_multiply,
    limits_not_in_functions,
    nested_of_no_queue,
    no_stage,
    nobody_is_told,
    own_key_in_a_standby,
    timeout_above_functions,
    unprotected,
    visibility_below_advice,
)
from headgate.jobs.deployment.checks.existing_rules import (
    existing_of_no_queue,
    queue_of_another_account,
    receives_of_existing,
)
from headgate.jobs.deployment.checks.name_rules import names_alike, names_too_long
from headgate.jobs.deployment.checks.retry_rules import (
    attempts_above_backstop,
    custom_backoff_fails,
    dead_letters_expire_first,
    retries_outlive_retention,
    wait_beyond_visibility,
)
from headgate.jobs.deployment.checks.schedule_rules import (
    cost_above_limit,
    rate_below_schedule,
    schedule_never_fires,
    schedule_over,
)
from headgate.jobs.deployment.checks.size_rules import stack_too_large
from headgate.jobs.deployment.checks.type_rules import (
    accepts_ambiguous,
    accepts_from_unknown_queue,
    batch_never_full,
    batch_outwaits_expiry,
    event_fields_unfit,
    fifo_without_group,
    no_timeout_in_a_process,
    payload_lost_in_json,
    result_lost_in_json,
    timeout_beyond_lane,
)
from headgate.jobs.deployment.checks.variable_rules import (
    variables_of_lambda,
    variables_too_large,
)
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import AppFaulty, Fault

Rule = Callable[[App, datetime], Iterator[Fault]]
DeploymentRule = Callable[[App, Deployment], Iterator[Fault]]

RULES: tuple[Rule, ...] = (
    custom_backoff_fails,
    wait_beyond_visibility,
    retries_outlive_retention,
    attempts_above_backstop,
    dead_letters_expire_first,
    schedule_never_fires,
    schedule_over,
    rate_below_schedule,
    cost_above_limit,
    timeout_beyond_lane,
    no_timeout_in_a_process,
    fifo_without_group,
    batch_never_full,
    batch_outwaits_expiry,
    accepts_from_unknown_queue,
    accepts_ambiguous,
    event_fields_unfit,
    payload_lost_in_json,
    result_lost_in_json,
)
"""The rules for the app alone. Two types of one name, a missing handler, contradicting day fields
of a cron expression and values out of range are refused where they are declared or loaded."""

DEPLOYMENT_RULES: tuple[DeploymentRule, ...] = (
    deployment_unfit,
    timeout_above_functions,
    visibility_below_advice,
    nobody_is_told,
    limits_not_in_functions,
    limits_multiply,
    names_too_long,
    names_alike,
    variables_of_lambda,
    variables_too_large,
    alarm_never_fires,
    alarms_of_no_queue,
    nested_of_no_queue,
    own_key_in_a_standby,
    stack_too_large,
    budget_without_reader,
    no_stage,
    unprotected,
    existing_of_no_queue,
    queue_of_another_account,
    receives_of_existing,
)
"""The rules for an app together with its deployment."""


def check(app: App, now: datetime, deployment: Deployment | None = None) -> list[Fault]:
    """Return all faults of an app, errors first; an app without any is fit to be deployed.

    Args:
        app: the app, with everything declared.
        now: the present, since past dates of schedules can't fire any more; aware.
        deployment: the deployment that is to run its jobs; None skips its rules.
    """
    found = [fault for rule in RULES for fault in rule(app, now)]
    if deployment is not None:
        found += [fault for rule in DEPLOYMENT_RULES for fault in rule(app, deployment)]
    return sorted(found, key=lambda fault: fault.severity != "error")


def require_fit(app: App, deployment: Deployment, now: datetime) -> list[Fault]:
    """Return the warnings for an app that is fit for this deployment.

    Raises:
        AppFaulty: it isn't; the message has all errors at once.
    """
    faults = check(app, now, deployment)
    if errors := [fault for fault in faults if fault.severity == "error"]:
        told = "".join(f"\n- {fault}" for fault in errors)
        raise AppFaulty(f"the app {app.name!r} can't be deployed:{told}", errors)
    return faults
