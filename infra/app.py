"""CDK's entry point, ``python -m headgate.infra.app``: synthesizes the stack of one app.

The CDK context names the app (``headgate:app``, as ``module:attribute``) and optionally the stage
(``headgate:stage``); ``HEADGATE_APP`` and ``HEADGATE_STAGE`` are the fallbacks. The settings of the
stages are in the context too (`infra.stages`). A synthesized stack has passed ``headgate check``
and cdk-nag.
"""

from __future__ import annotations

import os
import sys

import aws_cdk as cdk
from constructs import Node
from jsii.errors import JavaScriptError

from headgate.infra.checks.nag import add_nag
from headgate.infra.stack import HeadgateStack
from headgate.infra.stages import asked_for, read_stage
from headgate.jobs.core.settings import Settings
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.app_path import load_app
from headgate.jobs.definitions.current_folder import look_here_first
from headgate.jobs.deployment.cdk_context import is_ours
from headgate.jobs.errors import ConfigurationError, HeadgateError

_FAULTY = 1
_USAGE = 2
_FROM_JSII = "@jsii/kernel.RuntimeError: "
_TOO_MANY = "is greater than allowed maximum"  # of a stack's resources
_FEWER = (
    "A queue takes about nine of them, with its dead-letter queue, their policies and its alarms: "
    "declare fewer priorities (app.queue(..., priorities=[...])) or fewer queue groups, or have no "
    'alarms ("alarms": null in the deployment)'
)


def main() -> int:
    """Synthesize; returns the process's exit code."""
    assembly = cdk.App()
    try:
        add_stack(assembly)
        add_nag(assembly)
        assembly.synth()
    except HeadgateError as error:
        print(f"headgate: {error}", file=sys.stderr)  # noqa: T201 - a program's own output
        return _USAGE
    except RuntimeError as error:  # jsii has no class of its own for CDK's errors
        if not isinstance(error.__cause__, JavaScriptError):
            raise
        print(f"headgate: {_in_words(str(error))}", file=sys.stderr)  # noqa: T201 - as above
        return _FAULTY
    return 0


def _in_words(said: str) -> str:
    """Return an error of CDK's without what jsii adds, and with what to do."""
    if "ValidationFailed" in said:
        return "cdk-nag refuses the stack"  # CDK has printed the violated rules
    before, _, after = said.partition(_FROM_JSII)
    text = (after or before).strip()
    return f"{text}. {_FEWER}" if _TOO_MANY in text else text


def add_stack(assembly: cdk.App) -> HeadgateStack:
    """Load the app that the context or the environment names, and add its stack.

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
    stage = read_stage(app.stage, {key: declared[key] for key in declared if is_ours(key)})
    return HeadgateStack(
        assembly,
        "-".join(filter(None, (app.name, app.stage))),
        app=app,
        app_path=path,
        deployment=stage.deployment,
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
