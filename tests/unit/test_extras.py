"""Parts of Headgate whose library is not installed: one line names the extra to install."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

COMMAND = "from headgate.ops import main; sys.argv = ['headgate', {}]; main()"

NEEDS = {
    "worker": (
        "aiobotocore",
        "from headgate.jobs.aws.connections.connection import async_session; async_session()",
        "talking to AWS from an event loop needs aiobotocore: pip install 'headgate[worker]'",
    ),
    "emf": (
        "aws_lambda_powertools",
        "import headgate.jobs.deployment.metric_lines as m; m.MetricLines('shop', rng=None)",
        "writing metrics for CloudWatch needs aws-lambda-powertools: pip install 'headgate[emf]'",
    ),
    "otel": (
        "opentelemetry",
        "import headgate.jobs.execution.tracing",
        "tracing needs OpenTelemetry: pip install 'headgate[otel]', and configure its SDK",
    ),
    "encryption": (
        "cryptography",
        "from headgate.jobs.messages.sealing import check_library; check_library()",
        "App(encryption=...) needs cryptography: pip install 'headgate[encryption]'",
    ),
    "sentry": (
        "sentry_sdk",
        "import headgate, headgate.sentry; headgate.sentry.report_failures(headgate.App('shop'))",
        "reporting to Sentry needs sentry-sdk: pip install 'headgate[sentry]'",
    ),
    "lambda": (
        "aws_lambda_powertools",
        "from headgate.lambdas import consume",
        "headgate.lambdas needs aws-lambda-powertools: pip install 'headgate[lambda]'",
    ),
    "infra": (
        "aws_cdk",
        "from headgate.infra import JobSystem",
        "headgate.infra.JobSystem needs aws_cdk: pip install 'headgate[infra]'",
    ),
    "ops": (
        "typer",
        COMMAND.format("'--help'"),
        "the command line needs typer: pip install 'headgate[ops]'",
    ),
    "export": (
        "yaml",
        "import headgate.ops.export.yaml_text",
        "writing YAML needs PyYAML: pip install 'headgate[export]'",
    ),
    "console": (
        "jinja2",
        "from headgate import console",
        "headgate.console needs jinja2: pip install 'headgate[console]'",
    ),
    "local": (
        "watchfiles",
        COMMAND.format("'dev', 'shop.app:app'"),
        "headgate dev needs watchfiles: pip install 'headgate[local]'",
    ),
}
"""By extra: a library of it, what needs that library, and the line that is to be the last."""

NOT_NEEDED = {
    "fast": "without uvloop a worker runs in asyncio's own event loop",
    "dev": "for contributors",
}


def run_without(library: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run a program where a library is not installed."""
    hidden = f"import sys; sys.modules[{library!r}] = None\n"
    return subprocess.run(
        [sys.executable, "-c", hidden + code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def test_each_extra_is_known_here() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(declared["optional-dependencies"]) == {*NEEDS, *NOT_NEEDED}


@pytest.mark.parametrize("extra", NEEDS)
def test_the_last_line_names_the_extra(extra: str) -> None:
    library, code, said = NEEDS[extra]
    ended = run_without(library, code)
    assert ended.returncode == (2 if "main()" in code else 1)  # the command's own code
    assert ended.stderr.splitlines()[-1].endswith(f": {said}")


@pytest.mark.parametrize(
    ("library", "arguments", "extra"),
    [
        ("jinja2", "'-A', 'shop.app:app', 'console'", "console"),
        ("psutil", "'worker', 'shop.app:app'", "worker"),
    ],
)
def test_a_command_says_it_in_one_line(library: str, arguments: str, extra: str) -> None:
    ended = run_without(library, COMMAND.format(arguments))
    wanted = f"headgate: this command needs {library}: pip install 'headgate[{extra}]'\n"
    assert (ended.returncode, ended.stderr) == (2, wanted)


def test_the_event_loop_of_python_stands_in_for_a_faster_one() -> None:
    ended = run_without(
        "uvloop", "from headgate.workers.process.event_loop import loop_factory as f; print(f())"
    )
    assert (ended.returncode, ended.stdout) == (0, "None\n")


def test_it_is_an_import_error_and_one_of_headgate_s() -> None:
    ended = run_without(
        "aws_lambda_powertools",
        "from headgate.errors import ConfigurationError, LibraryMissing\n"
        "for kind in (ImportError, ConfigurationError, LibraryMissing):\n"
        "    try:\n"
        "        import headgate.lambdas.bridge\n"
        "    except kind as error:\n"
        "        print(error.name)\n",
    )
    assert (ended.returncode, ended.stdout) == (0, "aws-lambda-powertools\n" * 3)
