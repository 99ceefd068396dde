"""Results of a job type's handler as JSON values, written and read by pydantic."""

from __future__ import annotations

from functools import cached_property, partial
from types import GeneratorType, NoneType
from typing import Any, Generic, Literal, Never, NoReturn, TypeVar

from pydantic import (
    ConfigDict,
    PydanticUndefinedAnnotation,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import PydanticSerializationError

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.faults import told
from headgate.jobs.values.json_values import has_generator
from headgate.jobs.values.kinds import bare
from headgate.jobs.values.round_trips import Loss, losses
from headgate.jobs.values.yielding import LARGE, Yielding, writes_pieces, written

R = TypeVar("R")

_WRITABLE = (Any, None, NoneType, NoReturn, Never)
"""Types of results that need no look: of the first, each result is looked at."""


class ResultFormat(Generic[R]):
    """Writes and reads the results of one job type.

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

    def write(self, value: Any) -> bytes:
        """Write a result as JSON, by the type.

        So it is what the type says that is kept, and read again: without the fields that only a
        subclass has, and as the serializers and aliases of the type's annotations write it. A value
        of another type is made one of this first, as pydantic reads it, so that a dict for a model
        is kept without further fields. What fits not even so, or can't be written so, is written as
        it is: its job has done its work, and would do the same again.

        Raises:
            PydanticSerializationError, ValueError: JSON can't hold it.
        """
        if isinstance(value, GeneratorType):
            value = list(value)
        if self.type in _WRITABLE:
            return written(value)
        try:
            return self._written(value)
        except Exception as error:  # the validators and serializers are anybody's
            if has_generator(value):
                raise ValueError(f"it has a generator where {self.type!r} has none") from error
            return written(value)

    def _written(self, value: Any) -> bytes:
        try:
            return self._dumped(value, "error")
        except PydanticSerializationError:
            if has_generator(value):
                raise  # its items have been written, and would be missing
            return self._dumped(self._adapter.validate_python(value), "none")

    def _dumped(self, value: Any, warnings: Literal["none", "error"]) -> bytes:
        write = partial(self._adapter.dump_json, by_alias=True, warnings=warnings)
        return written(value, write) if self._is_divisible else write(value)

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
            raise ValueError(f"its result doesn't fit {bare(self.type)!r}: {faults}") from None
        return result

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        try:
            # A NaN that was written as null would be read as None without a word; as NaN it is
            # refused by its record, which says so. Models say themselves how they write it.
            return TypeAdapter(self.type, config=ConfigDict(ser_json_inf_nan="constants"))
        except PydanticUserError as error:
            if error.code != "type-adapter-config-unused":
                raise
        return TypeAdapter(self.type)

    @cached_property
    def _is_divisible(self) -> bool:
        return writes_pieces(self._adapter)
