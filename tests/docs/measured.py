"""The benchmarks' latest results, as the README shows them: five rows of benchmarks/README.md."""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchmarks.table import ROWS
from tests.docs.generate import ROOT

_CONTESTANTS = ("headgate", "celery (gevent)", "dramatiq-sqs", "taskiq-aio-sqs")
_SHOWN = {
    "requests-0": "SQS requests a job",
    "drain-10": "jobs a second of one worker, at 10 ms of latency",
    "cpu": "CPU seconds for 1,000 jobs",
    "stop-hidden": "messages left hidden by a stop in the midst of work",
    "long-starts": "starts of one 10 s job, at 3 s of visibility",
}
"""The rows, by their keys, as a reader understands them who knows nothing of the rest."""


def peers() -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return the head and the rows of the table: medians, without their ranges.

    Raises:
        KeyError: a row or a contestant is not among the results.
    """
    page = (ROOT / "benchmarks" / "README.md").read_text()
    section = page.partition("<!-- results -->")[2].partition("<!-- end of results -->")[0]
    lines = [re.split(r" \| ?", line[2:-2]) for line in section.splitlines() if line[:2] == "| "]
    head, results = lines[0], {line[0]: line for line in lines[1:]}
    titles = {row.key: row.title for row in ROWS}
    [day] = re.findall(r"`make bench` on ([\d-]+)", section)
    columns = [head.index(name) for name in _CONTESTANTS]
    rows = [
        (said, *(results[titles[key]][column].partition(" (")[0] for column in columns))
        for key, said in _SHOWN.items()
    ]
    return (f"measured on {day}", *_CONTESTANTS), rows
