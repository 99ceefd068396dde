"""Payloads of a job type as JSON values: checked, written and read by pydantic."""

from __future__ import annotations

from functools import cache, cached_property, partial
from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    PydanticUndefinedAnnotation,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core import PydanticSerializationError, to_json

from headgate.jobs.errors import ConfigurationError, PayloadInvalid
from headgate.jobs.values.faults import place_of, told
from headgate.jobs.values.json_values import lost_number
from headgate.jobs.values.round_trips import MASK, Loss, changed, losses, masked, unread, unsure
from headgate.jobs.values.texts import kind_of
from headgate.jobs.values.yielding import LARGE, LONG, Yielding, read, writes_pieces, written

P = TypeVar("P")


_MASK = MASK.encode()

_DIVIDED: frozenset[type] = frozenset({dict, list})
"""Types whose values are written in pieces if they are long."""


class PayloadFormat(Generic[P]):
    """Writes and reads the payloads of one job type.

    Args:
        name: the job type's name, for errors.
        model: the payload's type; None if its jobs have no payload.
    """

    def __init__(self, name: str, model: type[P] | None) -> None:
        self._name = name
        self._model = model

    def require_readable(self) -> None:
        """Check that payloads can be read.

        Raises:
            ConfigurationError: pydantic can't read payloads of this type.
        """
        _ = self._adapter

    def dump(self, payload: P) -> Any:
        """Check the payload and return it as JSON values.

        Raises:
            PayloadInvalid: it doesn't fit the model, or the model's output can't be read back, or
                is read back as something else.
        """
        if self._model is None:
            return self._dump_nothing(payload)
        try:
            checked = self._adapter.validate_python(payload)
            if type(checked) in _DIVIDED:
                text = self._written(checked)
            else:
                text = self._adapter.dump_json(checked, by_alias=True, warnings=False)
            # pydantic accepts instances without validation, even if they were changed since.
            # Reading the text back proves that a worker can.
            back = self._read(text)
            # In brackets, since it is nested one level deeper in a message.
            [value] = read(b"[%b]" % text, allow_inf_nan=False)
            if b"null" in text:
                self._refuse_lost_numbers(checked, value)
            if _MASK in text:
                self._refuse_masked_secrets(checked, value)
            if self._unread:
                self._refuse_unread_fields(checked, back)
            if self._unsure:
                self._refuse_other_values(checked, back)
        except ValidationError as error:
            given = f" (given {kind_of(payload)})"
            raise PayloadInvalid(self._complaint(error) + given) from None  # it quotes the input
        except PydanticSerializationError as error:
            raise PayloadInvalid(f"the payload of {self._name!r} is not valid: {error}") from error
        except ValueError as error:
            raise PayloadInvalid(
                f"the payload of {self._name!r} is not valid: JSON can't hold it: it is nested "
                f"too deeply or has a NaN or an infinity in it: {error}"
            ) from error
        return value

    def dump_python(self, payload: P) -> Any:
        """Return a valid payload as Python values, in the places where `dump` has their JSON.

        Raises:
            PayloadInvalid: it doesn't fit the model.
        """
        if self._model is None:
            return {}
        try:
            checked = self._adapter.validate_python(payload)
        except ValidationError as error:
            raise PayloadInvalid(self._complaint(error)) from None  # it quotes the input
        return self._adapter.dump_python(checked, by_alias=True, warnings=False)

    def load(self, value: Any) -> P:
        """Read a payload from JSON values of the current schema.

        Raises:
            PayloadInvalid: it doesn't fit the model; names each field at fault, and quotes nothing.
        """
        try:
            # Through JSON text, since pydantic reads some types (dates, bytes, sets, strict
            # models) from JSON by other rules than from Python values.
            if type(value) in _DIVIDED and len(value) > LONG:
                return self._read(written(value))
            return self._read(to_json(value))
        except ValidationError as error:
            complaint = self._complaint(error, discreet=True)
        # Not from pydantic's error, which quotes the values: workers log this one.
        raise PayloadInvalid(complaint)

    @cached_property
    def _adapter(self) -> TypeAdapter[P]:
        # Built on first use, since building is slow and declarations run at import.
        try:
            model: Any = _no_payload() if self._model is None else self._model
            adapter: TypeAdapter[P] = TypeAdapter(model)
            adapter.get_default_value()  # a model with an unresolved annotation fails only in use
        except (PydanticUserError, PydanticUndefinedAnnotation) as error:
            raise ConfigurationError(
                f"the type {self._name!r}: pydantic can't read payloads of {self._model!r}, its "
                "handler's first parameter (without a payload that is JobContext, before any "
                f"resource): {error}"
            ) from error
        return adapter

    def _written(self, payload: P) -> bytes:
        write = partial(self._adapter.dump_json, by_alias=True, warnings=False)
        return written(payload, write) if self._is_divisible else write(payload)

    @cached_property
    def _is_divisible(self) -> bool:
        return writes_pieces(self._adapter)

    def _read(self, text: bytes) -> P:
        if len(text) < LARGE:
            # `TypeAdapter.validate_json` is the same, behind options that are none here.
            checked: P = self._adapter.validator.validate_json(text)
            return checked
        payload: P = self._yielding.validate_json(text)
        return payload

    @cached_property
    def _yielding(self) -> Yielding:
        return Yielding(self._adapter)

    def _dump_nothing(self, payload: object) -> Any:
        if payload is not None:
            raise PayloadInvalid(
                f"jobs of {self._name!r} have no payload, got {kind_of(payload)}: leave "
                "it out, or declare a type of payload"
            )
        return {}

    def _refuse_lost_numbers(self, payload: P, written: Any) -> None:
        """Check that no NaN or infinity was written as null, which a worker would read as None.

        Raises:
            PayloadInvalid: one was; names the first.
        """
        given = self._adapter.dump_python(payload, by_alias=True, warnings=False)
        if (path := lost_number(given, written)) is not None:
            raise PayloadInvalid(
                f"the payload of {self._name!r} is not valid: {path}: JSON has neither NaN nor "
                "infinities: leave the field out, or give it None or a string"
            )

    def _refuse_masked_secrets(self, payload: P, written: Any) -> None:
        """Check that no secret was written as asterisks, which its handler would get.

        Raises:
            PayloadInvalid: one was; names the first.
        """
        given = self._adapter.dump_python(payload, by_alias=True, warnings=False)
        if (path := masked(given, written)) is not None:
            raise PayloadInvalid(
                f"the payload of {self._name!r} is not valid: {path}: pydantic writes a secret as "
                f"asterisks, and the handler would get those: {Loss(place=path).instead}"
            )

    def _refuse_unread_fields(self, payload: P, back: P) -> None:
        """Check that no field came back as its default, for want of the name that it is read by.

        Raises:
            PayloadInvalid: one did; names the first.
        """
        by_name = partial(self._adapter.dump_python, mode="json", by_alias=False, warnings=False)
        if (found := unread(by_name(payload), by_name(back), self._unread)) is not None:
            path, name = found
            loss = self._unread[name]
            raise PayloadInvalid(
                f"the payload of {self._name!r} is not valid: {path}: pydantic writes {loss.place} "
                f"as {loss.written!r} and reads it as {loss.read!r}, and the handler would not get "
                f"its value: {loss.instead}"
            )

    def _refuse_other_values(self, payload: P, back: P) -> None:
        """Check that no value came back as one of another type, or as other bytes.

        Raises:
            PayloadInvalid: one did; names the first.
        """
        if (found := changed(payload, back, self._unsure)) is None:
            return
        path, given, got = found
        if type(given) is not type(got):
            how = (
                f"{kind_of(given)} would reach the handler as {kind_of(got)}, since JSON doesn't "
                "tell which it is: declare one type there, or a union with a discriminator"
            )
        elif isinstance(given, bytes) and (encoded := self._encoded):
            how = f"pydantic doesn't read bytes as it writes them: {encoded[0].instead}"
        else:
            how = "pydantic reads no field with init=False, so the handler would not get its value"
        raise PayloadInvalid(f"the payload of {self._name!r} is not valid: {path}: {how}")

    @property
    def losses(self) -> list[Loss]:
        """The fields that may reach the handler as something else; raises as `require_readable`."""
        return losses(self._adapter)

    @cached_property
    def _unread(self) -> dict[str, Loss]:
        """The fields that are written under a name that they aren't read by."""
        return {loss.name: loss for loss in self.losses if loss.written}

    @property
    def _encoded(self) -> list[Loss]:
        return [loss for loss in self.losses if loss.encoding]

    @cached_property
    def _unsure(self) -> frozenset[str]:
        """The fields whose values may come back as others."""
        return unsure(self._adapter)

    def _complaint(self, error: ValidationError, *, discreet: bool = False) -> str:
        """Return the faults of each field; if ``discreet``, without anything from the payload."""
        names = self._field_names() if discreet else None
        faults = "; ".join(
            f"{place_of(fault['loc'], names)}: {told(fault, discreet=discreet)}"
            for fault in error.errors(include_input=False, include_url=False)
        )
        return f"the payload of {self._name!r} is not valid: {faults}"

    def _field_names(self) -> set[str]:
        try:
            schema = self._adapter.json_schema()
        except PydanticInvalidForJsonSchema:
            return set()  # not describable by JSON Schema, so all names are masked
        models = [schema, *schema.get("$defs", {}).values()]
        return {name for model in models for name in model.get("properties", {})}


@cache
def _no_payload() -> Any:
    """Return the type of the payload of a job that has none: an object whose fields are ignored."""

    # Not at import: the first model of a process takes a sixth of the import of an app.
    class _Nothing(BaseModel):
        model_config = ConfigDict(defer_build=True)

    return Annotated[_Nothing, AfterValidator(lambda _: None)]
