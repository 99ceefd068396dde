"""Headgate's lines under the logging configurations of users."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]

_MADE = """
from datetime import UTC, datetime
from headgate import Priority
from headgate.jobs.core.event_log import log_event
from headgate.jobs.core.events import JobFailed
from headgate.jobs.values.own_log import OwnLog
import headgate.jobs.execution.calling.claimed_call, logging, logging.config

def fail():
    log_event(JobFailed(
        at=datetime.now(UTC), job_id="1", job_type="send", queue="jobs", priority=Priority.HIGH,
        tenant=None, attempt=1, max_attempts=3, error_type="ValueError", error_message="no",
        traceback="Traceback:\\n  here\\n", ran_s=1.0,
    ))
    OwnLog("headgate.job.send").info("a line of the handler")
"""

_WORKER = "from headgate.workers.logs import configure; configure(json=True)"
_FUNCTION = "from headgate.lambdas.logs import log_as_json; log_as_json()"
_ROOT = {
    "formatters": {"f": {"format": "MINE %(message)s"}},
    "handlers": {"h": {"class": "logging.StreamHandler", "formatter": "f"}},
    "root": {"level": "INFO", "handlers": ["h"]},
}
_INI = """
[loggers]
keys=root
[handlers]
keys=h
[formatters]
keys=f
[logger_root]
level=WARN
handlers=h
[handler_h]
class=StreamHandler
args=(sys.stderr,)
formatter=f
[formatter_f]
format=MINE %(message)s
"""


def written(setup: str, configured: str) -> list[str]:
    """Return what a process writes once a job has failed."""
    done = subprocess.run(
        [sys.executable, "-c", f"{_MADE}\n{setup}\n{configured}\nfail()"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return done.stderr.splitlines()


def dict_config(disable: bool | None, **others: object) -> str:
    """Return the call of ``dictConfig``; None leaves Python's default."""
    given = {} if disable is None else {"disable_existing_loggers": disable}
    return f"logging.config.dictConfig({ ({'version': 1} | given | others)!r})"


@pytest.mark.parametrize("disable", [None, True, False])
def test_a_failure_is_logged_in_the_format_that_the_app_gives_its_root(
    disable: bool | None,
) -> None:
    first, *others = written(_WORKER, dict_config(disable, **_ROOT))
    assert first.startswith("MINE job.failed job_id=1 ")
    assert others == ["Traceback:", "  here", "MINE a line of the handler"]


@pytest.mark.parametrize("disable", [None, False])
def test_a_worker_keeps_its_own_format_if_the_app_configures_no_root(disable: bool | None) -> None:
    lines = written(_WORKER, dict_config(disable, loggers={"shop": {"level": "DEBUG"}}))
    failed, handlers = map(json.loads, lines)
    assert failed["message"] == "job.failed"
    assert failed["traceback"] == "Traceback:\n  here\n"
    assert "exc_info" not in failed, "the traceback is written once"
    assert handlers["message"] == "a line of the handler"


def test_a_migration_that_configures_logs_in_a_job_silences_no_failure(tmp_path: Path) -> None:
    (tmp_path / "alembic.ini").write_text(_INI)
    configured = f"fail(); logging.config.fileConfig({str(tmp_path / 'alembic.ini')!r})"
    *_, failed, traceback, here = written(_WORKER, configured)
    assert failed.startswith("MINE job.failed ")
    assert (traceback, here) == ("Traceback:", "  here")


@pytest.mark.parametrize("disable", [None, False])
def test_a_function_logs_json_whatever_the_app_configures(disable: bool | None) -> None:
    failed, handlers = map(json.loads, written(_FUNCTION, dict_config(disable, **_ROOT)))
    assert failed["message"] == "job.failed"
    assert handlers["message"] == "a line of the handler"


def test_a_level_silences_it() -> None:
    loggers = {"headgate": {"level": "CRITICAL"}}
    assert written(_WORKER, dict_config(None, **_ROOT, loggers=loggers)) == []


def test_every_logger_of_headgate_is_one_that_is_not_disabled() -> None:
    folders = ("jobs", "workers", "lambdas", "ops", "headgate/contrib")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    others = {
        f"{path.relative_to(ROOT)}: {found}"
        for path in sources
        for found in re.findall(r"^_log\w* = logging\.getLogger.*", path.read_text(), re.MULTILINE)
    }
    # MiniStack's own, in MiniStack's process.
    assert others == {'ops/local/schedules.py: _logger = logging.getLogger("scheduler")'}
