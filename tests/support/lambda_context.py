"""Lambda's context, for functions that read no more of it than the request's id."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def lambda_context(request_id: str = "request-1") -> LambdaContext:
    """Return as much of a context as these functions read."""
    return cast("LambdaContext", SimpleNamespace(aws_request_id=request_id))
