"""Lambda's dedicated pollers of a queue (provisioned mode), as a value."""

from __future__ import annotations

from typing import ClassVar

from pydantic import ConfigDict

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.kinds import check_kinds
from headgate.jobs.values.light_dataclass import frozen_dataclass

INVOCATIONS_EACH = 10
"""Simultaneous invocations of one poller.
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html"""

_LEAST, _MOST_KEPT, _MOST = 2, 200, 2_000


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionedPollers:
    """Pollers that are there before a burst comes, for each queue; they are billed by the hour.

    Lambda scales between the two numbers three times as fast as its pollers scale otherwise.
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-lambda-eventsourcemapping-provisionedpollerconfig.html

    Raises:
        ConfigurationError: a number is out of CloudFormation's range.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    minimum: int = _LEAST
    """Pollers that are always there, 2 to 200."""
    maximum: int = 200
    """Maximum of pollers, up to 2,000; each invokes the function up to ten times at once."""

    def __post_init__(self) -> None:
        check_kinds("provisioned pollers", self)
        kept = _LEAST <= self.minimum <= _MOST_KEPT
        if not kept or not self.minimum <= self.maximum <= _MOST:
            raise ConfigurationError(
                f"provisioned pollers: the minimum is {_LEAST} to {_MOST_KEPT}, and the maximum at "
                f"least as many and up to {_MOST:,}, got {self.minimum} and {self.maximum}"
            )
