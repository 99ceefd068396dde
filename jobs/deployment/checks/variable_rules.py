"""Rules for the environment variables of functions, of which Lambda takes less than ECS."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.variables import app_variables, function_variables
from headgate.jobs.errors import Fault

_MOST = 4 * 1024
"""Bytes of a function's variables, as a JSON object; the quota can't be raised.
https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"""

_ACCOUNT, _SHORT_REGION = "111122223333", "us-east-1"

_FIT = re.compile(r"[A-Za-z][A-Za-z0-9_]+")
"""https://docs.aws.amazon.com/lambda/latest/api/API_Environment.html"""

_OF_LAMBDA = frozenset(
    (
        *("_HANDLER", "_X_AMZN_TRACE_ID", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_EXECUTION_ENV"),
        *("AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"),
        *("AWS_LAMBDA_FUNCTION_VERSION", "AWS_LAMBDA_INITIALIZATION_TYPE"),
        *("AWS_LAMBDA_LOG_GROUP_NAME", "AWS_LAMBDA_LOG_STREAM_NAME", "AWS_LAMBDA_RUNTIME_API"),
        *("AWS_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
        *("LAMBDA_TASK_ROOT", "LAMBDA_RUNTIME_DIR"),
    )
)
"""https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html"""

_MOVE = (
    'Write it as "environment" of the worker groups that read it; functions get the deployment\'s'
)


def variables_of_lambda(app: App, deployment: Deployment) -> Iterator[Fault]:
    """A variable that Lambda sets itself, or whose name it doesn't take."""
    if not deployment.consumers:
        return
    for name in deployment.environment:
        if name in _OF_LAMBDA:
            why = "Lambda sets it itself and lets nobody set it, so synthesis fails"
        elif not _FIT.fullmatch(name):
            why = "Lambda takes names of two characters or more that begin with a letter"
        else:
            continue
        yield Fault(
            rule="variables-of-lambda",
            where=f"app {app.name}",
            what=f"the deployment's environment has {name}, and it has functions",
            why=why,
            instead=_MOVE,
        )


def variables_too_large(app: App, deployment: Deployment) -> Iterator[Fault]:
    """More environment variables than Lambda takes."""
    for group in deployment.consumers:
        if (size := _size(variables := _variables(app, deployment, group))) <= _MOST:
            continue
        largest = max(variables, key=lambda name: _size({name: variables[name]}))
        yield Fault(
            rule="variables-too-large",
            where=f"app {app.name}",
            what=f"the environment variables of the function {group.name!r} have {size:,} "
            f"bytes, and the largest is {largest}",
            why=f"Lambda takes {_MOST:,} of a function, and the deployment fails",
            instead=f"{_MOVE}. Put what the function itself reads into its code, a parameter or a "
            "secret",
        )


def _variables(app: App, deployment: Deployment, group: ConsumerGroup) -> dict[str, str]:
    """Return a function's variables; its name and its bucket's may be a few bytes longer."""
    bucket = app.topology.bucket.name_in(_ACCOUNT, _SHORT_REGION)
    own = app_variables(app, bucket=bucket, account=_ACCOUNT)
    return function_variables(group, group.name, {**deployment.environment, **own})


def _size(variables: dict[str, str]) -> int:
    return len(json.dumps(variables, separators=(",", ":"), ensure_ascii=False).encode())
