"""Inputs that a deployment renders into the schedules of its own functions, read back by these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from headgate.jobs.errors import MessageUnreadable
from headgate.jobs.values.faults import faults_in

M = TypeVar("M", bound=BaseModel)


def read_scheduled_input(model: type[M], event: Mapping[str, Any], function: str) -> M:
    """Return the input of a function's schedule.

    Args:
        model: its form.
        event: the input, as the function got it.
        function: the function's name, for the error.

    Raises:
        MessageUnreadable: the input has another form; the message names the fields.
    """
    try:
        return model.model_validate(event)
    except ValidationError as error:
        faults = faults_in(error, "input")
        raise MessageUnreadable(
            f"the input is not that of the {function}'s schedule: {faults}. Both are deployed "
            f"together: run `cdk deploy`, or invoke the {function} with the input of its schedule"
        ) from error
