"""S3: payloads too large for messages, and results too large for records."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import records_of
from headgate.jobs.records.items import keeps
from headgate.jobs.records.results import MAX_RESULT_BYTES
from headgate.ops.costing.bill import Charge
from headgate.ops.costing.fleet import Fleet
from headgate.ops.costing.load import Load
from headgate.ops.costing.sqs import is_offloaded
from headgate.ops.prices import MONTH_S, OBJECTS_GOT, OBJECTS_PUT, OBJECTS_STORED

_GB = 2**30


def charges(app: App, fleet: Fleet, load: Load) -> Iterator[Charge]:
    """Yield a month's charges for S3. Compression of the objects is not taken into account."""
    kept = app.topology.payload_retention.total_seconds() / MONTH_S
    for stream in fleet.streams:
        name = stream.job.name
        if is_offloaded(stream, load, app.max_message_bytes):
            stored = stream.jobs * load.payload_bytes / _GB * kept
            yield Charge(price=OBJECTS_PUT, units=stream.jobs, job_type=name)
            yield Charge(price=OBJECTS_GOT, units=stream.runs, job_type=name)
            yield Charge(price=OBJECTS_STORED, units=stored, job_type=name)
        records = keeps(records_of(app, stream.job), "outcomes")
        if records and stream.job.returns and load.result_bytes > MAX_RESULT_BYTES:
            stored = stream.completed * load.result_bytes / _GB * kept
            yield Charge(price=OBJECTS_PUT, units=stream.completed, job_type=name)
            yield Charge(price=OBJECTS_STORED, units=stored, job_type=name)
