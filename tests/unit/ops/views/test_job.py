"""The end of a job that was waited for, as ``headgate submit --wait`` prints it."""

from __future__ import annotations

import json

import pytest

from headgate import App, Client, Encryption
from headgate.jobs.errors import ResultInvalid
from headgate.jobs.testing import Harness
from headgate.ops.views.job import show_end
from tests.support.backends import over

LARGE = 400_000


def shop(encryption: Encryption | None = None) -> App:
    app = App("shop", records="outcomes", encryption=encryption)

    @app.job("render")
    def render(size: int) -> str:
        return "x" * size

    return app


def test_a_result_that_is_in_the_bucket_is_printed_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    jobs = Harness(shop())
    job = jobs.client.submit(jobs.app.find_type("render"), LARGE)
    jobs.drain()
    assert job.history().result_ref is not None
    assert show_end(job, None) == 0
    assert json.loads(capsys.readouterr().out) == "x" * LARGE


def test_a_result_that_is_gone_is_an_error_and_not_null(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = Harness(shop())
    job = jobs.client.submit(jobs.app.find_type("render"), LARGE)
    jobs.drain()
    jobs.store.objects.clear()
    with pytest.raises(ResultInvalid, match="its result can't be read"):
        show_end(job, None)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("size", [3, LARGE])
def test_a_sealed_result_that_cannot_be_opened_is_an_error_and_not_null(
    size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = Harness(shop(Encryption()))
    job = jobs.client.submit(jobs.app.find_type("render"), size)
    jobs.drain()
    assert show_end(job, None) == 0
    assert json.loads(capsys.readouterr().out) == "x" * size
    backend = over(jobs.sqs.sync, table=jobs.table.sync, store=jobs.store.sync)
    with Client(shop(), backend=backend) as elsewhere, pytest.raises(ResultInvalid, match="sealed"):
        show_end(elsewhere.handle(job.id), None)
    assert capsys.readouterr().out == ""
