"""The end of a run of `headgate verify`, however it comes."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headgate.jobs.errors import ConfigurationError
from headgate.ops.verify import session
from headgate.ops.verify.options import VerifyOptions
from headgate.ops.verify.planning import VerifyPlan, plan_of


class StandIn:
    """In place of a run: it is interrupted, or breaks."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.cleaned_up = 0

    async def try_all(self) -> None:
        if self.fault is not None:
            raise self.fault
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    async def clean_up(self) -> None:
        self.cleaned_up += 1


def plan(folder: Path, monkeypatch: pytest.MonkeyPatch, *, keep: bool = False) -> VerifyPlan:
    monkeypatch.chdir(folder)
    url = "http://127.0.0.1:9"  # never asked
    return plan_of(VerifyOptions(stage="verify-a", endpoint_url=url, keep=keep))


def carried_out(planned: VerifyPlan, run: StandIn, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(session, "_run", lambda *_parts: run)
    return session.verify(planned, lambda _result: None, Console(file=io.StringIO()))


@pytest.mark.parametrize(("keep", "times"), [(False, 1), (True, 0)])
def test_after_ctrl_c_it_is_cleaned_up_unless_it_is_to_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: bool, times: int
) -> None:
    run = StandIn()
    code = carried_out(plan(tmp_path, monkeypatch, keep=keep), run, monkeypatch)
    assert (code, run.cleaned_up) == (130, times)


def test_after_a_fault_of_its_own_it_is_cleaned_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = StandIn(ConfigurationError("there is no docker"))
    with pytest.raises(ConfigurationError, match="no docker"):
        carried_out(plan(tmp_path, monkeypatch), run, monkeypatch)
    assert run.cleaned_up == 1
