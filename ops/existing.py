"""The resources that ``cdk.json`` says exist already, for commands about what is deployed.

A deployment passes them to its workers and functions as ``HEADGATE_EXISTING``. A command in the
folder of ``cdk.json`` finds them there by itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headgate.jobs.core.settings import Settings
from headgate.ops.cdk_json import FILE, read_context

if TYPE_CHECKING:
    from headgate.jobs.definitions.app import App

_VARIABLE = "HEADGATE_EXISTING"
_KEY = '"existing"'


def use_existing(app: App) -> None:
    """Have an app use what exists for its stage, by the current folder's ``cdk.json``.

    In the region of the stage's standby that is what exists there. Where the variable is set, it
    alone decides; a stage that the file doesn't declare has nothing. Child processes inherit it as
    the variable.

    Raises:
        ConfigurationError: the file can't be read, what it names is invalid, or the app's code
            names other resources.
    """
    if Settings.from_env().existing or not _is_mentioned():
        return
    # The reading of a deployment is imported only where there is something to read.
    from headgate.jobs.aws.connections.connection import region_of_settings
    from headgate.jobs.deployment.regions.standby import existing_in

    found = existing_in(read_context(FILE), app.stage, region_of_settings)
    if found is None:
        return
    app.use_existing(found)
    if found:
        os.environ[_VARIABLE] = found.to_text()


def _is_mentioned() -> bool:
    return FILE.is_file() and _KEY in FILE.read_text(encoding="utf-8", errors="replace")
