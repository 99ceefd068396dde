"""Opening what the record of a job holds sealed: its result and its progress."""

from __future__ import annotations

from dataclasses import replace

from headgate.jobs.errors import PayloadUnopenable, TransportError
from headgate.jobs.messages.envelope import Sealed
from headgate.jobs.messages.sealing import About, Kind, Seals
from headgate.jobs.records.history import JobRecord, ProgressRecord


async def with_opened_result(seals: Seals | None, record: JobRecord) -> JobRecord:
    """Return a record with its result opened; one that is large has been read into ``result``.

    Raises:
        PayloadUnopenable: nothing here will ever open it.
        TransportError: KMS can't be asked for the data key, or refuses.
    """
    if (sealed := record.result_sealed) is None:
        return record
    if sealed.text is None:
        if not isinstance(record.result, str):
            raise PayloadUnopenable("the object with the sealed result holds something else")
        sealed = sealed.model_copy(update={"text": record.result})
    value = await _opening(seals).open(_about("result", record), sealed)
    return replace(record, result=value, result_sealed=None)


async def opened_record(seals: Seals | None, record: JobRecord) -> JobRecord:
    """Return a record with everything opened that it holds itself, or the reasons why not."""
    if (progress := record.progress) is not None and progress.sealed is not None:
        opened = await _opened_progress(seals, record, progress, progress.sealed)
        record = replace(record, progress=opened)
    if record.result_sealed is None or record.result_ref is not None:
        return record
    try:
        return await with_opened_result(seals, record)
    except (PayloadUnopenable, TransportError) as error:
        return replace(record, result_fault=str(error))


async def _opened_progress(
    seals: Seals | None, record: JobRecord, progress: ProgressRecord, sealed: Sealed
) -> ProgressRecord:
    try:
        words = await _opening(seals).open(_about("progress", record), sealed)
        note, data = str(words["note"]), dict(words["data"])
    except (PayloadUnopenable, TransportError) as error:
        return replace(progress, sealed_fault=str(error))
    except (KeyError, TypeError, ValueError):
        return replace(progress, sealed_fault="the sealed progress holds something else")
    return replace(progress, note=note, data=data, sealed=None)


def _opening(seals: Seals | None) -> Seals:
    if seals is None:
        raise PayloadUnopenable("it is sealed, and this app has no encryption=")
    return seals


def _about(kind: Kind, record: JobRecord) -> About:
    return About(kind=kind, type=record.type or "", of=record.id)
