"""EventBridge Scheduler's requests and answers: pure functions, shared by both clients.

https://docs.aws.amazon.com/scheduler/latest/APIReference/API_Operations.html
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from botocore.exceptions import ClientError

from headgate.jobs.core.naming import role_in
from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.errors import MessageUnreadable
from headgate.jobs.values.light_dataclass import light_dataclass

Request = dict[str, Any]
Response = Mapping[str, Any]

NAME_TAKEN = "ConflictException"
NOT_THERE = "ResourceNotFoundException"

_MODELLED = frozenset(
    {
        "ActionAfterCompletion",
        "Description",
        "EndDate",
        "FlexibleTimeWindow",
        "GroupName",
        "Name",
        "ScheduleExpression",
        "ScheduleExpressionTimezone",
        "StartDate",
        "State",
    }
)
"""The fields of a schedule that `ScheduleSpec` has; it also has some of the target's."""

_PAGE = 100  # the most that ListSchedules returns at once
_RETRIES = {"MaximumRetryAttempts": 185, "MaximumEventAgeInSeconds": 86_400}  # the maximum of each


@light_dataclass(frozen=True, slots=True, kw_only=True)
class AwsPlace:
    """The partition, account and region that turn names into ARNs."""

    partition: str
    """``aws``, or another such as ``aws-cn``."""
    account: str
    region: str

    def arn(self, service: str, resource: str, *, region: str | None = None) -> str:
        """Return the ARN of a resource of this account; ``region`` is empty for a global one."""
        where = self.region if region is None else region
        return f"arn:{self.partition}:{service}:{where}:{self.account}:{resource}"


def place_of(identity: Response, region: str) -> AwsPlace:
    """Return the place by the answer of STS's GetCallerIdentity, which everybody may call."""
    _, partition, *_ = identity["Arn"].split(":")
    return AwsPlace(partition=partition, account=identity["Account"], region=region)


def create_request(schedule: ScheduleSpec, place: AwsPlace, token: str) -> Request:
    """Return CreateSchedule's arguments."""
    return {**_schedule(schedule, place), "ClientToken": token}


def update_request(schedule: ScheduleSpec, place: AwsPlace, takes: Collection[str]) -> Request:
    """Return UpdateSchedule's arguments: all fields, since it overwrites every one.

    Those that `ScheduleSpec` has no field for go back as they came: a key, and everything of the
    target except its input, such as a retry policy or a function's alias.

    Args:
        schedule: the schedule as it is to be.
        place: the place of its function, role and queues.
        takes: the names of UpdateSchedule's arguments.
    """
    request = _schedule(schedule, place)
    beyond = {name: schedule.beyond[name] for name in schedule.beyond if name in takes}
    if target := beyond.pop("Target", None):
        changed = schedule.input != target.get("Input", "")
        request["Target"] = target | ({"Input": schedule.input} if changed else {})
    return beyond | request


def arguments_of_update(client: Any) -> Collection[str]:
    """Return the names of UpdateSchedule's arguments, by the client's model of the service."""
    names: Collection[str] = client.meta.service_model.operation_model(
        "UpdateSchedule"
    ).input_shape.members
    return names


def address(group: str, name: str) -> Request:
    """Return the arguments that name one schedule."""
    return {"GroupName": group, "Name": name}


def names_request(group: str, prefix: str, page: str | None) -> Request:
    """Return ListSchedules' arguments for one page."""
    following = {"NextToken": page} if page else {}
    return {"GroupName": group, "NamePrefix": prefix, "MaxResults": _PAGE, **following}


def read_names(answer: Response) -> list[str]:
    """Return the names on a page."""
    return [each["Name"] for each in answer["Schedules"]]


def next_page(answer: Response) -> str | None:
    """Return the token for the next page; None after the last."""
    return answer.get("NextToken") or None


def read_schedule(answer: Response) -> ScheduleSpec:
    """Read GetSchedule's answer.

    Raises:
        MessageUnreadable: the schedule is not one that Headgate could have made.
        KeyError: the answer has no schedule in it, and so is not one of the service's.
    """
    arn, target = answer["Arn"], answer["Target"]
    try:
        return _spec_of(answer, arn, target)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise MessageUnreadable(
            f"the schedule {answer.get('Name')!r} can't be read: {type(error).__name__}: {error}"
        ) from error


def _spec_of(answer: Response, arn: str, target: Response) -> ScheduleSpec:
    region = arn.split(":")[3]
    if target["Arn"].split(":")[2] != "lambda":
        raise MessageUnreadable(
            f"the schedule {answer['Name']!r} invokes {target['Arn']}, not a Lambda function"
        )
    window = answer["FlexibleTimeWindow"]
    return ScheduleSpec(
        group=answer["GroupName"],
        name=answer["Name"],
        expression=answer["ScheduleExpression"],
        timezone=answer.get("ScheduleExpressionTimezone") or "UTC",
        function=target["Arn"].split(":")[6],
        role=target["RoleArn"].rpartition("/")[2].removesuffix(f"-{region}"),
        input=target.get("Input", ""),
        start=answer.get("StartDate"),
        end=answer.get("EndDate"),
        flexible_minutes=window.get("MaximumWindowInMinutes"),
        enabled=answer.get("State", "ENABLED") == "ENABLED",
        delete_when_done=answer.get("ActionAfterCompletion") == "DELETE",
        dead_letters=_queue_of(target.get("DeadLetterConfig") or {}),
        description=answer.get("Description") or "",
        arn=arn,
        created_at=answer.get("CreationDate"),
        modified_at=answer.get("LastModificationDate"),
        as_of=_answered_at(answer),
        beyond={name: answer[name] for name in answer if name not in _MODELLED},
    )


def refused_with(error: Exception, code: str) -> bool:
    """Return True if AWS refused the call with that code."""
    return isinstance(error, ClientError) and error.response.get("Error", {}).get("Code") == code


def _answered_at(answer: Response) -> datetime | None:
    """Return the service's time, from its answer's ``Date`` header; None without a valid one."""
    said = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", "")
    try:
        found = parsedate_to_datetime(said)
    except ValueError:
        return None
    return found if found.tzinfo else None


def _schedule(schedule: ScheduleSpec, place: AwsPlace) -> Request:
    role = role_in(schedule.role, place.region)
    target: Request = {
        "Arn": place.arn("lambda", f"function:{schedule.function}"),
        "RoleArn": place.arn("iam", f"role/{role}", region=""),
        "Input": schedule.input,
        "RetryPolicy": _RETRIES,
    }
    if schedule.dead_letters is not None:
        target["DeadLetterConfig"] = {"Arn": place.arn("sqs", schedule.dead_letters)}
    request: Request = {
        **address(schedule.group, schedule.name),
        "ScheduleExpression": schedule.expression,
        "ScheduleExpressionTimezone": schedule.timezone,
        "FlexibleTimeWindow": _window(schedule.flexible_minutes),
        "State": "ENABLED" if schedule.enabled else "DISABLED",
        "ActionAfterCompletion": "DELETE" if schedule.delete_when_done else "NONE",
        "Target": target,
    }
    for name, value in (
        ("Description", schedule.description),
        ("StartDate", schedule.start),
        ("EndDate", schedule.end),
    ):
        if value:
            request[name] = value
    return request


def _window(minutes: int | None) -> Request:
    if minutes is None:
        return {"Mode": "OFF"}
    return {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": minutes}


def _queue_of(config: Response) -> str | None:
    arn = config.get("Arn")
    return arn.rpartition(":")[2] if arn else None
