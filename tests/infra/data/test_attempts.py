"""Each grant and each role of a stack against a list of attempts: allowed are those named here."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headgate import App
from tests.support import attempts
from tests.support.attempts import GRANTS, ROLES
from tests.support.cloudformation import arn_of
from tests.support.iam import Policies

COUNTING = {"see how many jobs of mail wait", "see how many jobs of mail are dead"}
READ_DELAYED = "read the schedule of a delayed job"
VIEWING = {
    *COUNTING,
    READ_DELAYED,
    "read a job's history",
    "read which children a job has",
    "read the workers' statuses",
    "read the replays",
    "read the audit",
}
HAVING_CHILDREN = {
    "enter a job among another's children",
    "enter it in one batch with the record of its submission",
}
ENTERING = "enter something into the audit"
DELAYING = {
    READ_DELAYED,
    "create the schedule of a delayed job",
    "delete the schedule of a delayed job",
    "hand a schedule the app's role",
}
SENDING = {"send to the queue of mail", "send to the queue of money"}
SUBMITTING = {*SENDING, "store a payload", *DELAYING}
SUBMITTING_UNIQUE = {*SUBMITTING, "claim a unique key"}
ASKING = {"ask for a cancellation", "write what is shown of a request", ENTERING}
SCHEDULING = {
    ENTERING,
    "create a schedule at run time",
    "pause a declared schedule",
    "hand a schedule the app's role",
}

OPERATING = {
    *VIEWING,
    *SENDING,
    "look at a dead letter",
    "park a dead letter of mail",
    "park a dead letter of money",
    "delete a dead letter",
    *ASKING,
    *HAVING_CHILDREN,
    "take cancellations back",
    "write of a replay",
    "store a payload",
    "read a payload",
    "read a large result",
    "keep a copy of a dead letter",
    "read the copy of a dead letter",
    "delete the schedule of a delayed job",
    *SCHEDULING,
}

FOLLOWING = {
    "read a job's history",
    "read which children a job has",
    *ASKING,
    "read a large result",
    READ_DELAYED,
    "delete the schedule of a delayed job",
}
RUNNING = {
    "read a job's history",
    "read which children a job has",
    *HAVING_CHILDREN,
    "write a job's history, result or claim",
    "the same of many jobs, or delete them",
    "write what is shown of a request",
    "put a job's history beside a request in one batch",
    "claim a unique key",  # to end the claim of a job that expires
    "take a limit's leases",
    "write another worker's life",
    "read the workers' statuses",
    "write another worker's status",
    "store a payload",
    "replace a payload",
    "read a payload",
    "store a large result",
    *DELAYING,
}
"""Of whoever runs jobs, whichever queue they are from."""

WORKING_ON_MAIL = {
    *RUNNING,
    "send to the queue of mail",
    "receive from the queue of mail",
    *COUNTING,
    "park a dead letter of mail",
}

ALLOWED: Mapping[str, set[str]] = {
    "submit": SUBMITTING,
    "submit-unique": SUBMITTING_UNIQUE,
    "follow": FOLLOWING,
    "work-on-mail": WORKING_ON_MAIL,
    "manage-schedules": SCHEDULING,
    "view": VIEWING,
    "operate": OPERATING,
    "operate-erase": {
        *OPERATING,
        "write a job's history, result or claim",
        "the same of many jobs, or delete them",
        "put a job's history beside a request in one batch",
        "read everything: a scan",
        "delete a payload, a result or a copy",
    },
}

ALLOWED_IN_A_STACK: Mapping[str, set[str]] = {
    "worker": {*WORKING_ON_MAIL, *SUBMITTING_UNIQUE, *FOLLOWING},
    "worker-that-only-runs": WORKING_ON_MAIL,
    "consumer": {
        *RUNNING,
        "receive from the queue of money",
        "park a dead letter of money",
        *SUBMITTING_UNIQUE,
        *FOLLOWING,
    },
    "bridge": {*SENDING, "mark a firing as sent"},
    "sweep": {
        "see how many jobs of mail are dead",
        "look at a dead letter",
        "write the sweep's notes",
        "read a payload",
        "keep a copy of a dead letter",
    },
    "schedules": {"invoke the bridge"},
}


@pytest.fixture(scope="module")
def app() -> App:
    return attempts.declared()


@pytest.fixture(scope="module")
def policies(app: App) -> Policies:
    return attempts.policies(app)


@pytest.mark.parametrize("grant", GRANTS)
def test_a_grant_allows_these_attempts_and_no_other(
    grant: str, app: App, policies: Policies
) -> None:
    assert _allowed(policies, grant, app) == ALLOWED[grant]


@pytest.fixture(scope="module")
def of_stack(app: App) -> Policies:
    return attempts.stack_policies(app)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_of_the_stack_is_allowed_these_attempts_and_no_other(
    role: str, app: App, of_stack: Policies
) -> None:
    assert _allowed(of_stack, role, app) == ALLOWED_IN_A_STACK[role]


def test_no_further_role_of_the_stack_is_allowed_any_attempt(app: App, of_stack: Policies) -> None:
    others = of_stack.identity.keys() - {arn_of(attempts.ROLE, role) for role in ROLES}
    assert len(others) == 3, "two that start tasks, and the one that invokes the sweep"
    for role in others:
        assert _allowed(of_stack, role.rpartition("/")[2], app) == set()


def test_a_request_that_names_no_row_is_allowed_to_nobody_but_who_reads_all(
    app: App, policies: Policies
) -> None:
    table = arn_of(attempts.TABLE, app.topology.table_name)
    unnamed = {
        (grant, action)
        for grant in GRANTS
        for action in ("GetItem", "Query", "PutItem", "BatchWriteItem")
        if policies.allows(arn_of("AWS::IAM::Role", grant), f"dynamodb:{action}", table)
    }
    assert unnamed == {
        (grant, action) for grant in ("operate", "operate-erase") for action in ("GetItem", "Query")
    }


def _allowed(policies: Policies, name: str, app: App) -> set[str]:
    """Return the labels of the attempts that a grant or a role allows."""
    tried = attempts.attempts(app)
    return {each.label for each in tried if attempts.allowed(policies, name, each)}
