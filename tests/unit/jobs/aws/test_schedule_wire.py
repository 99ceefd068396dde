"""EventBridge Scheduler's requests, and the meaning of its refusals."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headgate.jobs.aws.connections.faults import fault
from headgate.jobs.aws.schedule_wire import (
    AwsPlace,
    create_request,
    place_of,
    read_schedule,
    update_request,
)
from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.errors import (
    AccessDenied,
    MessageUnreadable,
    ScheduleGroupMissing,
    Throttled,
    TransportError,
)

CHINA = AwsPlace(partition="aws-cn", account="123456789012", region="cn-north-1")
SPEC = ScheduleSpec(
    group="shop",
    name="dynamic.nightly",
    expression="cron(0 8 * * ? *)",
    timezone="Asia/Shanghai",
    function="shop-bridge",
    role="shop-scheduler",
    input="{}",
    start=datetime(2030, 1, 1, tzinfo=UTC),
    flexible_minutes=10,
    dead_letters="shop-schedules-dlq",
    description="every day",
)
TAKES = ("GroupName", "KmsKeyArn", "Name", "Target")
"""Some of UpdateSchedule's arguments."""


def test_names_become_arns_of_the_callers_partition_account_and_region() -> None:
    target = create_request(SPEC, CHINA, "token")["Target"]
    assert target["Arn"] == "arn:aws-cn:lambda:cn-north-1:123456789012:function:shop-bridge"
    assert target["RoleArn"] == "arn:aws-cn:iam::123456789012:role/shop-scheduler-cn-north-1"
    assert target["DeadLetterConfig"] == {
        "Arn": "arn:aws-cn:sqs:cn-north-1:123456789012:shop-schedules-dlq"
    }


def test_the_place_is_what_sts_and_the_client_say() -> None:
    identity = {
        "Account": "123456789012",
        "Arn": "arn:aws-cn:sts::123456789012:assumed-role/web/session",
    }
    assert place_of(identity, "cn-north-1") == CHINA


def test_a_firing_that_fails_is_tried_as_often_as_the_service_can() -> None:
    policy = create_request(SPEC, CHINA, "token")["Target"]["RetryPolicy"]
    assert policy == {"MaximumRetryAttempts": 185, "MaximumEventAgeInSeconds": 86_400}


def test_an_update_carries_every_field_since_it_overwrites_all() -> None:
    created, updated = create_request(SPEC, CHINA, "token"), update_request(SPEC, CHINA, TAKES)
    assert created == updated | {"ClientToken": "token"}


def test_an_answer_is_read_back_into_what_was_asked_for() -> None:
    answer = update_request(SPEC, CHINA, TAKES) | {
        "Arn": "arn:aws-cn:scheduler:cn-north-1:123456789012:schedule/shop/dynamic.nightly"
    }
    assert read_schedule(answer) == SPEC


def test_an_update_gives_back_what_the_service_takes_and_no_more() -> None:
    held = update_request(SPEC, CHINA, TAKES) | {
        "Arn": "arn:aws-cn:scheduler:cn-north-1:123456789012:schedule/shop/dynamic.nightly",
        "KmsKeyArn": "arn:aws-cn:kms:cn-north-1:123456789012:key/k",
        "CreationDate": datetime(2026, 1, 1, tzinfo=UTC),
        "ResponseMetadata": {"HTTPHeaders": {}},
    }
    held["Target"] |= {"Arn": held["Target"]["Arn"] + ":live", "RetryPolicy": {}}

    later = replace(read_schedule(held), enabled=False, start=None, input='{"a": 1}')
    request = update_request(later, CHINA, TAKES)

    assert request["State"] == "DISABLED"
    assert "StartDate" not in request
    assert request["Target"] == held["Target"] | {"Input": '{"a": 1}'}
    assert request["KmsKeyArn"] == held["KmsKeyArn"]
    assert request.keys() & {"Arn", "CreationDate", "ResponseMetadata"} == set()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"Target": {"Arn": "arn:aws:sqs:eu-central-1:1:orders", "RoleArn": "role/x"}},
            "invokes arn:aws:sqs:eu-central-1:1:orders, not a Lambda function",
        ),
        ({"Target": {}}, "KeyError"),
        ({"FlexibleTimeWindow": None}, "AttributeError"),
        ({"Arn": "nonsense"}, "IndexError"),
    ],
)
def test_a_schedule_of_somebody_else_s_is_unreadable_by_its_name(
    changes: dict[str, Any], reason: str
) -> None:
    answer = update_request(SPEC, CHINA, TAKES) | {
        "Arn": "arn:aws-cn:scheduler:cn-north-1:123456789012:schedule/shop/dynamic.nightly"
    }
    with pytest.raises(MessageUnreadable, match=rf"'dynamic\.nightly'.*{reason}"):
        read_schedule(answer | changes)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("Sun, 22 Nov 2026 10:50:30 GMT", datetime(2026, 11, 22, 10, 50, 30, tzinfo=UTC)),
        ("today", None),
        ("", None),
    ],
)
def test_an_answer_tells_the_time_by_the_service_s_own_clock(
    said: str, meant: datetime | None
) -> None:
    answer = update_request(SPEC, CHINA, TAKES) | {
        "Arn": "arn:aws-cn:scheduler:cn-north-1:123456789012:schedule/shop/dynamic.nightly",
        "ResponseMetadata": {"HTTPHeaders": {"date": said}},
    }
    assert read_schedule(answer).as_of == meant


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("ResourceNotFoundException", 404, ScheduleGroupMissing),
        ("AccessDeniedException", 403, AccessDenied),
        ("ThrottlingException", 429, Throttled),
        ("ServiceQuotaExceededException", 402, TransportError),
        ("ValidationException", 400, TransportError),
    ],
)
def test_a_refusal_becomes_an_error_that_names_the_group(
    code: str, status: int, kind: type[TransportError]
) -> None:
    refusal = ClientError(
        {
            "Error": {"Code": code, "Message": "said AWS"},
            "ResponseMetadata": {"HTTPStatusCode": status},  # type: ignore[typeddict-item]  # the rest plays no part
        },
        "CreateSchedule",
    )
    error = fault(refusal, action="scheduler:CreateSchedule", target="shop")
    assert type(error) is kind
    assert "'shop'" in str(error)
