"""The objects that S3's notifications name, as payloads."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict


class S3Object(BaseModel):
    """One object of an S3 notification; a type with ``Accepts.s3()`` takes ``list[S3Object]``."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    event: str
    """The event's name, such as ``ObjectCreated:Put``."""
    at: datetime
    bucket: str
    key: str
    """The object's key, decoded; S3 sends it URL-encoded."""
    size: int | None = None
    """Size in bytes; None for a deleted object, and so are the other optional fields."""
    etag: str | None = None
    version_id: str | None = None
    sequencer: str | None = None
    """Position among the events of one key, compared as text."""
