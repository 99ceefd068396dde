"""The rows of the table that each role is granted, as patterns of partition keys.

    partition             holds                                              written by
    job#ID                a job's history, and its claim                     workers
    asked#ID              what clients say and ask of a job                  submitters, followers
    children#ID           the entries of a job's children                    workers, operators
    cancellations         requests to cancel jobs                            followers
    unique#KEY            claims of uniqueness keys                          submitters, workers
    limit#NAME            leases and counts of the fleet's limits            workers
    workers               the lives of workers                               workers
    worker-status         what workers show of themselves                    workers
    audit                 who did what                                       who does it
    replays, replay#ID    replays of dead letters, and their marks           operators
    sent#ID               marks of what the bridge has sent                  the bridge
    dead-letters#QUEUE    messages that the sweep knows                      the sweep
    sweep                 its lease, and its last summary                    the sweep

IAM can limit a role to partitions and to no part of one, so items of different writers never share
a partition. ``dynamodb:LeadingKeys`` has the partition keys of all items that a request names: one
for GetItem, PutItem and Query, up to 25 for BatchWriteItem, which is refused as a whole if any of
them matches no pattern. ForAllValues holds of a request without the key, too; so the key has to be
there.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html
https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazondynamodb.html
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-single-vs-multi-valued-context-keys.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.jobs.core.naming import ASKED, CHILDREN, JOB, LIMIT, SWEEP, SWEPT, UNIQUE
from headgate.jobs.dead_letters.replaying.marks import partition_of
from headgate.jobs.dead_letters.replaying.report import REPLAYS
from headgate.jobs.records.audit.entry import AUDIT
from headgate.jobs.records.cancellation import CANCELLATIONS
from headgate.jobs.records.fleet.worker_status import WORKER_STATUSES
from headgate.jobs.records.lives import LIVES
from headgate.jobs.schedules.bridging import SENT

HISTORY = (f"{JOB}*", f"{ASKED}*", f"{CHILDREN}*")
"""All that is known of jobs."""

ENTERED = (f"{ASKED}*",)
"""Records of submissions."""

REQUESTS = (f"{ASKED}*", CANCELLATIONS)
"""Requests of cancellations."""

CLAIMED_KEYS = (f"{UNIQUE}*",)
"""Claims of uniqueness keys, which submitters make, and workers end with a job that expires."""

WORKED = (*HISTORY, f"{LIMIT}*", LIVES, WORKER_STATUSES)
"""The rows that workers read and write: claims are among a job's own, and handlers submit
children."""

WATCHED = (CANCELLATIONS,)
"""The rows that workers only read."""

OPERATED = (*REQUESTS, f"{CHILDREN}*", REPLAYS, partition_of("*"))
"""The rows that operators write: requests, the jobs that they run again, and the replays of dead
letters with their marks."""

AUDITED = (AUDIT,)
"""The audit, which is written by whoever cancels, operates, or changes schedules."""

VIEWED = (*HISTORY, CANCELLATIONS, WORKER_STATUSES, REPLAYS, partition_of("*"), AUDIT)
"""The rows that viewers read: jobs, requests and pauses, workers, replays, the audit."""

BRIDGED = (f"{SENT}*",)
"""The bridge's marks of what it has sent."""

SWEEPING = (f"{SWEPT}*", SWEEP)
"""The sweep's notes."""

RESENDING = (REPLAYS, partition_of("*"), f"{ASKED}*")
"""The sweep's replays with their marks, and what they add to jobs' histories; only of an app with
policies."""


def condition(rows: Sequence[str]) -> dict[str, Any]:
    """Return the condition that a request names items of these partitions and no other."""
    return {
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": list(rows)},
        "Null": {"dynamodb:LeadingKeys": "false"},
    }
