"""The items of one job, as its submitter and its workers write them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.retention import Keep
from headgate.jobs.records.cancellation import cancellation
from headgate.jobs.records.items import REPLAY_SOURCE, Mark, partition, replayed_item
from tests.support.records import scribe

JOB = "0196a2b4-0000-7000-8000-000000000001"
START = datetime(2026, 1, 1, tzinfo=UTC)


class Story:
    """A job's history, built in order; ``items`` holds the resulting items.

    Args:
        job_id: the job's id.
        start: the time from which its seconds count.
        job_type: the job's type.
    """

    def __init__(
        self, job_id: str = JOB, *, start: datetime = START, job_type: str = "send"
    ) -> None:
        self.job_id = job_id
        self.job_type = job_type
        self.start = start
        self.items: list[Item] = []

    def at(self, second: float) -> datetime:
        return self.start + timedelta(seconds=second)

    def submitted(self, second: float = 0, **data: Any) -> Story:
        """Add the submission, at the level ``full``."""
        return self._of_job("submitted", second, {"priority": "normal", "source": "sdk", **data})

    def progress(self, second: float, percent: float, note: str = "", **data: Any) -> Story:
        fields = {"attempt": 1, "percent": percent, "note": note, "data": data}
        return self._of_job("progress", second, fields)

    def cancel(self, second: float, reason: str = "") -> Story:
        item, _ = cancellation(self.job_id, reason, self.at(second), useful=timedelta(days=4))
        self.items.append(item)
        return self

    def replayed(
        self, second: float, replay_id: str = "r-1", *, former: str | None = None
    ) -> Story:
        self.items.append(
            replayed_item(
                self.job_id,
                self.job_type,
                replay_id,
                replays=1,
                at=self.at(second),
                keep=Keep(),
                former=former,
            )
        )
        return self

    def run(
        self, second: float, what: str, receive: int = 1, *, message: str = "m-1", **data: Any
    ) -> Story:
        """Add one delivery and its outcome."""
        fields = {"type": self.job_type, "queue": "mail", "worker": "w-1", **data}
        has_died = str(data.get("source")).startswith(REPLAY_SOURCE)
        teller = replace(scribe(self.job_id, message, receive), has_died=has_died)
        self.items.append(teller.mark(Mark(what), self.at(second), fields))
        return self

    def _of_job(self, sk: str, second: float, data: dict[str, Any]) -> Story:
        self.items.append(
            Item(
                pk=partition(self.job_id),
                sk=sk,
                data={
                    "at": self.at(second).isoformat(),
                    "type": self.job_type,
                    "queue": "mail",
                    **data,
                },
            )
        )
        return self
