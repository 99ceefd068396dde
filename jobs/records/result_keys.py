"""Keys of large results in the app's bucket; they expire as payloads do."""

from __future__ import annotations

from headgate.jobs.core.naming import EARLIER_RESULTS, RESULTS


def result_key(job_id: str, job_type: str) -> str:
    """Return the key of a job's result.

    With the type, so that a job of another type that has the same id can't overwrite it.
    """
    return f"{RESULTS}{job_id}/{job_type}"


def is_result_key(key: str, job_id: str, job_type: str | None) -> bool:
    """Return True if a job's result may be at a key.

    Earlier versions kept results among the payloads, at first without the type in the key.

    Args:
        key: the key that a record names.
        job_id: the job's id.
        job_type: its type; None if no record names one.
    """
    bare = f"{EARLIER_RESULTS}{job_id}"
    if job_type is None:
        return key == bare
    return key in (result_key(job_id, job_type), f"{bare}/{job_type}", bare)
