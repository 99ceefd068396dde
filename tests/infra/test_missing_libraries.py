"""Without CDK's libraries: one line that names the extra."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_without_cdk(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program where CDK's library is not installed."""
    hidden = "import sys; sys.modules['aws_cdk'] = None; "
    return subprocess.run(
        [sys.executable, "-c", hidden + code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def test_a_synthesis_ends_with_one_line() -> None:
    ended = run_without_cdk(
        "import runpy; runpy.run_module('headgate.infra.app', run_name='__main__')"
    )
    assert ended.returncode == 1
    assert ended.stderr == "headgate: synthesis needs aws_cdk: pip install 'headgate[infra]'\n"


def test_a_construct_names_the_extra_and_a_deployment_needs_none() -> None:
    ended = run_without_cdk("from headgate.infra import Deployment, JobSystem")
    [*_, last] = ended.stderr.splitlines()
    assert last == (
        "headgate.jobs.errors.configuration.LibraryMissing: "
        "headgate.infra.JobSystem needs aws_cdk: pip install 'headgate[infra]'"
    )
