from __future__ import annotations

from tests.support.stage_fixtures import bare_stage, server, stage

__all__ = ["bare_stage", "server", "stage"]
