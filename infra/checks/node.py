"""Node, which CDK's library runs as soon as it is imported."""

from __future__ import annotations

import os
import shutil


def has_node() -> bool:
    """Return True if CDK's library finds Node: on the ``PATH``, or by jsii's ``JSII_NODE``.

    Without it the import of ``aws_cdk`` ends in a traceback, and another when it is cleaned up.
    """
    return shutil.which(os.environ.get("JSII_NODE", "node")) is not None
