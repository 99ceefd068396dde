"""CDK's entry point, ``python -m headgate.infra.app``: synthesizes the stack of one app.

The CDK context names the app (``headgate:app``, as ``module:attribute``) and optionally the stage
(``headgate:stage``); ``HEADGATE_APP`` and ``HEADGATE_STAGE`` are the fallbacks. The settings of the
stages are in the context too (`infra.stages`). A synthesized stack has passed ``headgate check``
and cdk-nag.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace

from headgate.infra.checks.node import has_node

try:
    if __name__ == "__main__" and not has_node():
        sys.exit("headgate: synthesis needs Node 20 or newer, and there is no node on the PATH")
    import aws_cdk as cdk
    from constructs import Node
    from jsii.errors import JavaScriptError
except ModuleNotFoundError as missing:
    if __name__ != "__main__":
        raise
    sys.exit(f"headgate: synthesis needs {missing.name}: pip install 'headgate[infra]'")

from headgate.infra.checks.cdk_errors import in_words, resources_over, said_by_cdk
from headgate.infra.checks.nag import add_nag
from headgate.infra.checks.nesting import nested_further
from headgate.infra.stack import HeadgateStack
from headgate.infra.stages import (
    Stage,
    asked_for,
    read_stage,
    read_standby_stage,
    standby_stack,
)
from headgate.jobs.core.settings import Settings
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.app_path import load_app
from headgate.jobs.definitions.current_folder import look_here_first
from headgate.jobs.deployment.cdk_context import is_ours
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import ConfigurationError, HeadgateError

_FAULTY = 1
_USAGE = 2


def main() -> int:
    """Synthesize; returns the process's exit code."""
    try:
        _synthesize(())
    except HeadgateError as error:
        _say(str(error))
        return _USAGE
    except RuntimeError as error:  # jsii has no class of its own for CDK's errors
        if not isinstance(error.__cause__, JavaScriptError):
            raise
        _say(in_words(error))
        return _FAULTY
    return 0


def _synthesize(nested: tuple[str, ...]) -> None:
    """Write the stack's template; with alarms in nested stacks if it is too large otherwise."""
    assembly = cdk.App()
    stack = add_stack(assembly, nested)
    add_nag(assembly)
    try:
        assembly.synth()
    except RuntimeError as error:
        if nested or (smaller := _smaller(stack, error)) is None:
            raise
        counted = said_by_cdk(error).partition(": AWS::")[0]
        _say(
            f"{counted}: the alarms of the queue groups {', '.join(smaller.nested)} go into nested "
            "stacks. Write "
            f'"nested": {json.dumps(smaller.nested)} into the deployment to keep it so'
        )
        _synthesize(smaller.nested)


def _smaller(stack: HeadgateStack, error: Exception) -> Deployment | None:
    """Return a deployment that fits a stack, if the error says that this one doesn't."""
    if not (over := resources_over(error)):
        return None
    return nested_further(stack.jobs.app, stack.jobs.deployment, over)


def _say(text: str) -> None:
    print(f"headgate: {text}", file=sys.stderr)  # noqa: T201 - a program's own output


def add_stack(assembly: cdk.App, nested: tuple[str, ...] = ()) -> HeadgateStack:
    """Load the app that the context or the environment names, and add its stack.

    If its stage has a standby, that is a second stack, in its own region.

    Args:
        assembly: the CDK app.
        nested: the queue groups whose alarms are in nested stacks; empty: those that the context
            names for the stage.

    Raises:
        ConfigurationError: no app is named, it can't be imported or provisioned, it is of another
            stage than the one asked for, or the stage's settings are invalid.
    """
    settings = Settings.from_env()
    path = _context(assembly.node, "headgate:app") or settings.app
    if not path:
        raise ConfigurationError(
            'no app is named: set "headgate:app" in cdk.json\'s context to module:attribute, as in '
            "shop.app:app, or pass -c headgate:app=..., or set HEADGATE_APP"
        )
    node = assembly.node
    app = _load(path, asked_for(_context(node, "headgate:stage"), settings.stage))
    declared = node.get_all_context()
    ours = {key: declared[key] for key in declared if is_ours(key)}
    stage, standby = read_stage(app.stage, ours), read_standby_stage(app.stage, ours)
    name = "-".join(filter(None, (app.name, app.stage)))
    stack = _stack(assembly, name, app, path, stage, nested)
    if standby is not None:
        _stack(assembly, standby_stack(name), app, path, standby, nested)
    return stack


def _stack(
    assembly: cdk.App,
    name: str,
    app: App,
    app_path: str,
    stage: Stage,
    nested: tuple[str, ...],
) -> HeadgateStack:
    deployment = stage.deployment
    return HeadgateStack(
        assembly,
        name,
        app=stage.app_in(app),
        app_path=app_path,
        deployment=replace(deployment, nested=nested) if nested else deployment,
        env=cdk.Environment(account=stage.account, region=stage.region),
    )


def _load(path: str, stage: str | None) -> App:
    if stage:
        os.environ["HEADGATE_STAGE"] = stage  # read by an App that names no stage
    look_here_first()  # PYTHONSAFEPATH keeps `python -m` from it
    app = load_app(path)
    if stage and app.stage != stage:
        raise ConfigurationError(
            f"{path!r} was declared with stage={app.stage!r}, but {stage!r} is asked for: leave "
            "stage= out of the App, or ask for the same"
        )
    return app


def _context(node: Node, key: str) -> str | None:
    value = node.try_get_context(key)
    return str(value) if value else None


if __name__ == "__main__":
    sys.exit(main())
