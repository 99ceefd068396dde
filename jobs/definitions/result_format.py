"""Results of a job type's handler as JSON values, written and read by pydantic."""

from __future__ import annotations

from functools import cached_property
from types import NoneType
from typing import Any, Generic, Never, NoReturn, TypeVar

from pydantic import (
    PydanticUndefinedAnnotation,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.faults import told
from headgate.jobs.values.round_trips import Loss, losses
from headgate.jobs.values.yielding import LARGE, Yielding, written

R = TypeVar("R")

_WRITABLE = (Any, None, NoneType, NoReturn, Never)
"""Types of results that need no look: of the first, each result is looked at."""


class ResultFormat(Generic[R]):
    """Reads the results of one job type, and checks that they can be written.

    Args:
        name: the job type's name, for errors.
        type_: the type that its handler returns, as declared or annotated.
    """

    def __init__(self, name: str, type_: Any) -> None:
        self._name = name
        self.type = type_

    def require_writable(self) -> None:
        """Check that results can be kept.

        Raises:
            ConfigurationError: pydantic doesn't know the type that the handler returns.
        """
        if self.type in _WRITABLE:
            return
        try:
            _ = self._adapter
        except (PydanticUserError, PydanticUndefinedAnnotation) as error:
            raise ConfigurationError(
                f"the type {self._name!r}: its handler returns {self.type!r}, which pydantic "
                f"can't write as JSON, and its results are kept: return a model or JSON values, "
                f'or declare the type with records="failures": {error}'
            ) from error

    @property
    def losses(self) -> list[Loss]:
        """The fields that may be read as something else than was returned; raises as
        `require_writable`."""
        if self.type in _WRITABLE:
            return []
        self.require_writable()
        return losses(self._adapter)

    def load(self, value: Any) -> R:
        """Read a result from the JSON values in its job's record.

        Raises:
            ValueError: they don't fit the type; names each field at fault.
        """
        try:
            text, adapter = written(value), self._adapter
            result: R = (Yielding(adapter) if len(text) >= LARGE else adapter).validate_json(text)
        except PydanticUserError as error:
            raise ValueError(f"pydantic can't read results of {self.type!r}: {error}") from None
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(map(str, fault['loc'])) or 'result'}: {told(fault, discreet=True)}"
                for fault in error.errors(include_input=False, include_url=False)
            )
            raise ValueError(f"its result doesn't fit {self.type!r}: {faults}") from None
        return result

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.type)
