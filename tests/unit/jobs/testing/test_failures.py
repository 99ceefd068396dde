from __future__ import annotations

from headgate import App, DoNotRetry
from headgate.jobs.testing.failures import failures
from headgate.testing import Harness


def test_each_failed_job_is_told_once_with_its_last_traceback() -> None:
    app = App("shop")
    texts = iter(["first", "second", "third"])

    @app.job("send")
    def send(to: str) -> None:
        if to == "ada":
            raise ConnectionError(next(texts))

    jobs = Harness(app)
    for to in ("ada", "bob"):
        jobs.client.submit(send, to)
    jobs.drain()
    [heading, *lines] = failures(jobs.events).splitlines()
    assert heading.startswith("send ")
    assert heading.endswith(", attempt 3 of 3:")
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "ConnectionError: third"
    assert len([line for line in lines if "ConnectionError:" in line]) == 1


def test_a_job_that_died_without_a_failure_is_told_with_its_reason() -> None:
    app = App("shop")

    @app.job("send")
    def send(to: str) -> None:
        raise DoNotRetry(f"{to} has moved")

    jobs = Harness(app)
    jobs.client.submit(send, "ada")
    jobs.drain()
    *_, died = jobs.events
    assert failures([died]).endswith(", attempt 1 of 3: do-not-retry: ada has moved")


def test_of_many_failed_jobs_the_first_five_are_told() -> None:
    app = App("shop")

    @app.job("send")
    def send(to: int) -> None:
        raise ValueError(f"number {to}")

    jobs = Harness(app)
    for number in range(8):
        jobs.client.submit(send, number)
    jobs.drain()
    *_, last = failures(jobs.events).splitlines()
    assert last == "... and 3 more"
    assert failures([]) == ""
