"""`jobs.client.spool.policy` and `jobs.client.spool.file`: storage, order, and the sender."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import stat
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from headgate import Priority, Spool
from headgate.jobs.client.spool.file import SpoolFile
from headgate.jobs.client.spool.policy import ELSEWHERE_S, IDLE_S, Answer, Rhythm, SpoolClaim
from headgate.jobs.core.batching import TRIES
from headgate.jobs.core.events import JobSpoolRefused, JobSubmitted, SpoolFailed
from headgate.jobs.errors import (
    QueueMissing,
    ServiceUnavailable,
    SettingsInvalid,
    SpoolCorrupt,
    SpoolError,
    SpoolFull,
    SpoolNewer,
)
from headgate.jobs.testing import VirtualClock
from tests.support.spool_bench import CRITICAL, FIFO, NORMAL, Bench, Email, ids


def claimed(claim: SpoolClaim | None) -> list[str]:
    return [job.id for job in claim.jobs] if claim else []


# --- the file ------------------------------------------------------------------------------------


def test_stored_jobs_survive_the_process_and_leave_once_sent(
    bench: Bench,
) -> None:
    first = bench.open()
    jobs = bench.submissions(23)
    first.put(jobs)
    first.close()
    second = bench.open()
    assert second.totals() == (23, sum(job.message.size for job in jobs))
    assert bench.drain(second)
    assert bench.sent() == ids(jobs)
    assert second.totals() == (0, 0)
    assert not second.waits(NORMAL)
    second.close()


def test_a_message_is_sent_as_it_would_have_been(bench: Bench, file: SpoolFile) -> None:
    order = bench.submission(bench.order, Email(body="\u00e9\ud7ff\x00"), group="org-1")
    email = bench.submission(tenant="org-2", max_attempts=7, priority=Priority.CRITICAL)
    file.put([order, email])
    bench.drain(file)
    [kept_order], [kept_email] = bench.sqs.messages(FIFO), bench.sqs.messages(CRITICAL)
    assert (kept_order.body, kept_order.group) == (order.message.body, "org-1")
    assert (kept_email.body, kept_email.group) == (email.message.body, "org-2")
    assert kept_email.attributes == email.message.attributes


def test_only_its_owner_can_read_the_file_and_its_log(bench: Bench, file: SpoolFile) -> None:
    file.put(bench.submissions(1))
    path = Path(bench.spool.path)
    found = sorted(path.parent.glob(path.name + "*"))
    assert [each.name.removeprefix(path.name) for each in found] == ["", "-locks", "-shm", "-wal"]
    assert {stat.S_IMODE(each.stat().st_mode) for each in found} == {0o600}


def test_a_commit_is_on_the_disk_before_it_returns(file: SpoolFile) -> None:
    # 2 is FULL: https://www.sqlite.org/pragma.html#pragma_synchronous
    assert file._writer.execute("PRAGMA synchronous").fetchall() == [(2,)]
    assert file._writer.execute("PRAGMA journal_mode").fetchall() == [("wal",)]


def test_nothing_of_a_payload_is_left_in_the_file_when_its_job_has_gone(bench: Bench) -> None:
    file = bench.open()
    file.put([bench.submission(payload=Email(body="of-no-concern" * 1000))])
    bench.drain(file)
    file.close()
    assert b"of-no-concern" not in Path(bench.spool.path).read_bytes()


def test_a_job_is_in_the_file_once_however_often_it_is_put(bench: Bench, file: SpoolFile) -> None:
    job = bench.submission()
    file.put([job])
    file.put([job, bench.submission()])
    assert file.totals()[0] == 2


def test_a_delay_counts_from_the_submission_and_not_from_the_sending(
    bench: Bench, file: SpoolFile
) -> None:
    file.put([bench.submission(delay=timedelta(minutes=minutes)) for minutes in (1, 10)])
    bench.clock.advance(timedelta(minutes=4))
    bench.drain(file)
    [call] = [call for call in bench.sqs.calls if call.action == "send"]
    assert call.delays_s == (0, 360)
    assert [event.delay_s for event in bench.told(JobSubmitted)] == [0, 360]


def test_threads_that_write_at_the_same_time_share_a_commit(bench: Bench, file: SpoolFile) -> None:
    statements: list[str] = []
    file._writer.set_trace_callback(statements.append)
    threads = [threading.Thread(target=file.put, args=[bench.submissions(1)]) for _ in range(8)]
    with file._commits.lock:
        for thread in threads:
            thread.start()
        while len(file._commits._pending) < 8:
            threading.Event().wait(0.001)
    for thread in threads:
        thread.join()
    assert file.totals()[0] == 8
    assert statements.count("COMMIT") == 1


def test_of_calls_that_share_a_commit_only_the_one_without_room_fails(bench: Bench) -> None:
    bench.spool = Spool(bench.spool.path, max_jobs=5)
    file = bench.open()
    outcomes = file.put_each([bench.submissions(count) for count in (3, 4, 2)])
    assert [outcome for outcome in outcomes if isinstance(outcome, int)] == [3, 5]
    assert isinstance(outcomes[1], SpoolFull)
    assert file.totals()[0] == 5
    file.close()


def test_a_commit_that_fails_is_made_anew_for_each_who_shared_it(
    bench: Bench, file: SpoolFile
) -> None:
    good, bad = bench.submission(), bench.submission()
    file._writer.execute(
        "CREATE TEMP TRIGGER full BEFORE INSERT ON job WHEN new.id = "
        f"'{bad.id}' BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
    )
    outcomes = file.put_each([[good], [bad]])
    assert outcomes[0] == 1
    assert isinstance(outcomes[1], SpoolError)
    assert file.totals()[0] == 1


# --- its bounds ----------------------------------------------------------------------------------


def test_a_file_without_room_keeps_none_of_a_call_and_says_how_much_there_is(
    bench: Bench,
) -> None:
    bench.spool = Spool(bench.spool.path, max_jobs=5)
    file = bench.open()
    file.put(bench.submissions(4))
    with pytest.raises(SpoolFull, match=r"would hold 6 jobs of .* may hold 5 of ") as raised:
        file.put(bench.submissions(2))
    assert raised.value.path == str(bench.spool.path)
    assert file.totals()[0] == 4
    bench.drain(file)
    file.put(bench.submissions(5))
    file.close()


def test_the_bytes_of_the_messages_are_bounded_too(bench: Bench) -> None:
    job = bench.submission(payload=Email(body="x" * 1000))
    bench.spool = Spool(bench.spool.path, max_bytes=2 * job.message.size)
    file = bench.open()
    file.put([job, bench.submission(payload=Email(body="x" * 1000))])
    with pytest.raises(SpoolFull):
        file.put([bench.submission()])
    file.close()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_jobs": 0}, "max_jobs"),
        ({"max_bytes": 1.5}, "max_bytes"),
        ({"lease": timedelta(0)}, "lease"),
        ({"lease": 0.5}, "lease"),
        ({"lease": "2m"}, "lease"),
    ],
)
def test_a_bound_out_of_range_is_refused_by_its_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsInvalid, match=named):
        Spool("any", **options)


# --- files that can't be used --------------------------------------------------------------------


def test_a_damaged_file_is_named_and_left_as_it_is(bench: Bench) -> None:
    path = Path(bench.spool.path)
    path.write_bytes(b"this is no database" * 1000)
    with pytest.raises(SpoolCorrupt, match="damaged") as raised:
        bench.open()
    assert raised.value.path == str(path)
    assert path.read_bytes() == b"this is no database" * 1000


def test_damage_that_shows_only_later_is_named_too(bench: Bench) -> None:
    file = bench.open()
    file.put(bench.submissions(200))
    file.close()
    path = Path(bench.spool.path)
    content = path.read_bytes()
    path.write_bytes(content[:8192] + b"\xff" * (len(content) - 8192))
    with pytest.raises(SpoolCorrupt, match=path.name):
        drain_anew(bench)


def drain_anew(bench: Bench) -> None:
    file = bench.open()
    try:
        bench.drain(file)
    finally:
        file.close()


def test_the_database_of_another_program_is_left_alone(bench: Bench) -> None:
    path = Path(bench.spool.path)
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(SpoolCorrupt, match="another program"):
        bench.open()
    assert path.read_bytes() == before


def test_a_file_of_a_newer_version_is_left_to_that_version(bench: Bench) -> None:
    bench.open().close()
    path = Path(bench.spool.path)
    with sqlite3.connect(path) as later:
        later.execute("PRAGMA user_version = 2")
    later.close()
    with pytest.raises(SpoolNewer, match=r"schema is 2, and this one reads up to 1") as raised:
        bench.open()
    assert raised.value.path == str(path)


def test_a_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    nowhere = tmp_path / "missing" / "jobs.spool"
    with pytest.raises(SpoolError, match=r"missing/jobs\.spool"):
        SpoolFile(Spool(nowhere), VirtualClock())


def test_a_file_that_was_opened_before_a_fork_is_refused_after_it(
    bench: Bench, file: SpoolFile
) -> None:
    with pytest.MonkeyPatch.context() as child:
        child.setattr("os.getpid", lambda: -1)
        with pytest.raises(SpoolError, match="before this process was forked"):
            file.put(bench.submissions(1))


def test_many_may_open_a_new_file_at_once(bench: Bench) -> None:
    failures: list[BaseException] = []

    def opening() -> None:
        try:
            file = bench.open()
            file.put([bench.submission()])
            file.close()
        except BaseException as error:  # noqa: BLE001 - of a thread; the test looks at it
            failures.append(error)

    threads = [threading.Thread(target=opening) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    file = bench.open()
    assert file.totals()[0] == 8
    file.close()


# --- the right to send ---------------------------------------------------------------------------


def test_a_queue_that_somebody_sends_from_is_left_to_it_and_others_are_not(
    bench: Bench, file: SpoolFile
) -> None:
    other = bench.open()
    emails, orders = bench.submissions(12), bench.submissions(1, job=bench.order, group="a")
    file.put([*emails, *orders])
    first = file.claim()
    assert claimed(first) == ids(emails[:10])
    assert claimed(other.claim()) == ids(orders)
    assert other.claim() is None
    assert first is not None
    file.settle(first, Answer(sent=first.jobs))
    assert claimed(other.claim()) == ids(emails[10:])
    other.close()


def test_the_jobs_of_a_sender_that_ended_are_anybodys_at_once(
    bench: Bench, file: SpoolFile
) -> None:
    jobs = bench.submissions(3)
    file.put(jobs)
    ended = bench.open()
    ended.claim()
    assert file.claim() is None
    ended.close()
    assert claimed(file.claim()) == ids(jobs)


def test_the_jobs_of_a_sender_that_hangs_are_sent_when_its_lease_has_run_out(
    bench: Bench, file: SpoolFile
) -> None:
    jobs = bench.submissions(3)
    file.put(jobs)
    hanging = bench.open()
    hanging.claim()
    bench.clock.advance(bench.spool.lease - timedelta(seconds=1))
    assert file.claim() is None
    bench.clock.advance(1)
    assert claimed(file.claim()) == ids(jobs)
    hanging.close()


def test_a_sender_whose_lease_expired_touches_no_other_senders_jobs(
    bench: Bench, file: SpoolFile
) -> None:
    file.put(bench.submissions(1))
    slow = file.claim()
    bench.clock.advance(bench.spool.lease)
    later = file.claim()
    assert slow is not None
    assert later is not None
    file.settle(slow, Answer(sent=slow.jobs))
    file.put(bench.submissions(1))
    assert file.claim() is None, "the later claim still holds"
    file.settle(later, Answer(sent=later.jobs))
    assert file.totals()[0] == 1


def test_a_lease_from_a_clock_that_was_a_year_ahead_ends_in_time(
    bench: Bench, file: SpoolFile
) -> None:
    jobs = bench.submissions(2)
    file.put(jobs)
    bench.clock.advance(timedelta(days=365))
    ahead = bench.open()
    assert ahead.claim() is not None
    with patch.object(bench.clock, "_start", bench.clock._start - timedelta(days=365)):
        assert file.claim() is None
        bench.clock.advance(bench.spool.lease)
        assert claimed(file.claim()) == ids(jobs)
    ahead.close()


@pytest.mark.parametrize("token", ["0123456789abcdef", json.dumps(["other", 7, 0.0, 120.0, "x"])])
@pytest.mark.parametrize("ahead", [timedelta(minutes=1), timedelta(days=365)])
def test_a_lease_of_another_machine_or_version_goes_by_its_age(
    bench: Bench, file: SpoolFile, token: str, ahead: timedelta
) -> None:
    jobs = bench.submissions(2)
    file.put(jobs)
    until = bench.clock.now() + ahead
    file._writer.execute("INSERT INTO lease VALUES (?, ?, ?)", [NORMAL, token, until.timestamp()])
    if ahead < bench.spool.lease:
        assert file.claim() is None
        bench.clock.advance(ahead)
    assert claimed(file.claim()) == ids(jobs)


def test_where_the_kernel_has_no_such_locks_leases_go_by_their_age(bench: Bench) -> None:
    with (
        patch("headgate.jobs.client.spool.locks.KERNEL", None),
        patch("headgate.jobs.client.spool.file.KERNEL", None),
    ):
        ended, file = bench.open(), bench.open()
        file.put(bench.submissions(1))
        assert ended.claim() is not None
        ended.close()
        assert file.claim() is None
        bench.clock.advance(bench.spool.lease)
        assert file.claim() is not None
        file.close()


def test_on_a_file_system_that_locks_nothing_leases_go_by_their_age(bench: Bench) -> None:
    with patch("headgate.jobs.client.spool.locks._is_locked", return_value=False):
        file, other = bench.open(), bench.open()
        file.put(bench.submissions(1))
        assert file.claim() is not None
        assert other.claim() is None, "its lock seems free, as every lock does here"
        bench.clock.advance(bench.spool.lease)
        assert other.claim() is not None
        file.close()
        other.close()


def test_a_forked_child_does_not_keep_the_lease_of_its_parent(bench: Bench) -> None:
    parent, other = bench.open(), bench.open()
    other.put(bench.submissions(1))
    assert parent.claim() is not None
    ready, go_on = os.pipe(), os.pipe()
    if not (child := os.fork()):  # the effect of a fork on this process's locks is tested
        os.write(ready[1], b"x")
        os.read(go_on[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    assert other.claim() is None
    parent.close()
    assert other.claim() is not None
    other.close()
    os.write(go_on[1], b"x")
    os.waitpid(child, 0)
    for end in (*ready, *go_on):
        os.close(end)


def test_claiming_past_a_failed_queue_costs_the_same_for_any_number_of_jobs(bench: Bench) -> None:
    def steps(backlog: int) -> int:
        bench.spool = Spool(Path(bench.spool.path).with_name(f"{backlog}.spool"))
        file, taken = bench.open(), []
        file.put(bench.submissions(backlog, priority=Priority.CRITICAL))
        file.put(bench.submissions(1))
        file._writer.set_progress_handler(lambda: taken.append(1), 1)
        claim = file.claim(skip=[CRITICAL])
        file._writer.set_progress_handler(None, 1)
        file.close()
        assert claim is not None
        assert claim.queue == NORMAL
        return len(taken)

    assert steps(1_000) == steps(10)


def test_urgent_queues_go_first_and_each_queue_in_its_own_order(
    bench: Bench, file: SpoolFile
) -> None:
    normal, critical = bench.submissions(3), bench.submissions(3, priority=Priority.CRITICAL)
    for pair in zip(normal, critical, strict=True):
        file.put(pair)
    bench.drain(file)
    assert [call.queue for call in bench.sqs.calls] == [CRITICAL, NORMAL]
    assert (bench.sent(CRITICAL), bench.sent()) == (ids(critical), ids(normal))


def test_a_fifo_batch_has_at_most_one_job_of_a_group(bench: Bench, file: SpoolFile) -> None:
    jobs = [bench.submission(bench.order, group=group) for group in ("a", "b", "a", "c")]
    file.put(jobs)
    bench.sqs.faults.fail_entries("send", indexes=[0])  # the first of group a
    assert bench.drain(file)
    groups = {job.id: job.message.group for job in jobs}
    of_a = [job_id for job_id in bench.sent(FIFO) if groups[job_id] == "a"]
    assert of_a == [jobs[0].id, jobs[2].id]


# --- SQS's answers -------------------------------------------------------------------------------


def test_a_queue_that_fails_is_left_alone_and_others_go_on(bench: Bench, file: SpoolFile) -> None:
    emails, urgent = bench.submissions(2), bench.submissions(2, priority=Priority.CRITICAL)
    file.put([*emails, *urgent])
    bench.sqs.faults.raise_on("send", QueueMissing(CRITICAL), queue=CRITICAL)
    assert not bench.drain(file)
    assert bench.sent() == ids(emails)
    [failed] = bench.told(SpoolFailed)
    assert (failed.queue, failed.waiting) == (CRITICAL, 4)
    assert "cdk deploy" in failed.error
    assert bench.drain(file)
    assert bench.sent(CRITICAL) == ids(urgent)


def test_a_failed_entry_stays_and_the_others_count_as_submitted(
    bench: Bench, file: SpoolFile
) -> None:
    jobs = bench.submissions(3)
    file.put(jobs)
    bench.sqs.faults.fail_entries("send", indexes=[1])
    bench.sqs.faults.fail_entries("send", indexes=[0], times=TRIES - 1)
    assert not bench.drain(file)
    assert [event.job_id for event in bench.told(JobSubmitted)] == [jobs[0].id, jobs[2].id]
    assert file.totals()[0] == 1
    assert bench.drain(file)
    assert sorted(bench.sent()) == sorted(ids(jobs))


def test_a_refused_message_is_set_aside_until_the_file_is_next_opened(
    bench: Bench, file: SpoolFile
) -> None:
    jobs = bench.submissions(3)
    file.put(jobs)
    bench.sqs.faults.fail_entries("send", indexes=[0], sender_fault=True, code="KmsDisabled")
    assert bench.drain(file)
    assert bench.sent() == ids(jobs[1:])
    [refused] = bench.told(JobSpoolRefused)
    assert (refused.job_id, refused.error.split(":")[0]) == (jobs[0].id, "KmsDisabled")
    assert not file.waits(NORMAL)
    assert file.totals()[0] == 1
    drain_anew(bench)
    assert bench.sent() == [*ids(jobs[1:]), jobs[0].id]


def test_a_refused_fifo_message_blocks_its_group_until_the_next_opening(
    bench: Bench, file: SpoolFile
) -> None:
    first, other, second = (bench.submission(bench.order, group=group) for group in ("a", "b", "a"))
    file.put([first, other, second])
    bench.sqs.faults.fail_entries("send", indexes=[0], sender_fault=True, code="KmsDisabled")
    assert bench.drain(file)
    third = bench.submission(bench.order, group="a")
    assert file.waits(FIFO), "or the next one would overtake it"
    file.put([third, bench.submission(bench.order, group="c")])
    assert bench.drain(file)
    assert [message.group for message in bench.sqs.messages(FIFO)] == ["b", "c"]
    assert [event.job_id for event in bench.told(JobSpoolRefused)] == [first.id]
    drain_anew(bench)
    assert bench.sent(FIFO)[2:] == ids([first, second, third])
    assert not file.waits(FIFO)


def test_an_answer_that_was_lost_has_the_jobs_sent_again_in_order(
    bench: Bench, file: SpoolFile
) -> None:
    jobs = bench.submissions(2)
    file.put(jobs)
    bench.sqs.faults.raise_on("send", ServiceUnavailable("reset"), applied=True)
    assert not bench.drain(file)
    assert bench.drain(file)
    assert bench.sent() == ids(jobs) * 2


def test_two_that_drain_one_file_at_once_send_each_job_once_and_in_order(bench: Bench) -> None:
    jobs = [job for _ in range(60) for job in bench.submissions(5)]
    file = bench.open()
    file.put(jobs)
    both = threading.Barrier(2)

    def draining() -> None:
        mine = bench.open()
        both.wait()
        while mine.waits(NORMAL):
            bench.drain(mine)
        mine.close()

    threads = [threading.Thread(target=draining) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bench.sent() == ids(jobs)
    assert file.totals() == (0, 0)
    file.close()


# --- draining ------------------------------------------------------------------------------------


def rhythm_from(seed: int) -> Rhythm:
    return Rhythm(random.Random(seed))  # noqa: S311 - spreads load, guards no secret


def test_after_failures_the_file_is_drained_less_and_less_often_with_jitter() -> None:
    rhythm = rhythm_from(1)
    waits = []
    for _ in range(10):
        rhythm.passed(0, clean=False)
        waits.append(rhythm.due_s)
    assert all(
        most / 2 <= wait <= most
        for wait, most in zip(waits, (1, 2, 4, 8, 16, 30, 30, 30, 30, 30), strict=True)
    )
    assert len(set(waits)) == 10


def test_while_another_sends_the_file_is_looked_at_every_second() -> None:
    rhythm = rhythm_from(1)
    rhythm.passed(0, clean=True, elsewhere=True)
    assert rhythm.due_s == ELSEWHERE_S
    rhythm.passed(0, clean=True)
    assert rhythm.due_s == IDLE_S


def test_the_file_says_whether_somebody_sends_from_it(bench: Bench, file: SpoolFile) -> None:
    assert not file.sent_by_others()
    file.put(bench.submissions(1))
    claim = file.claim()
    assert file.sent_by_others()
    assert claim is not None
    file.settle(claim, Answer())
    assert not file.sent_by_others()


def test_a_job_that_is_kept_while_the_file_is_drained_is_looked_for_at_once() -> None:
    rhythm = rhythm_from(1)
    rhythm.begins()
    rhythm.kept(1)
    rhythm.passed(2, clean=True)
    assert rhythm.due_s == 2


def test_spooling_many_jobs_does_not_hasten_the_next_try() -> None:
    rhythm = rhythm_from(1)
    for _ in range(5):
        rhythm.passed(0, clean=False)
    due_s = rhythm.due_s
    rhythm.kept(1)
    assert rhythm.due_s == due_s


def test_a_job_that_is_kept_is_tried_soon_and_at_once_when_sqs_took_another() -> None:
    rhythm = rhythm_from(1)
    rhythm.passed(0, clean=True)
    assert rhythm.due_s == IDLE_S
    rhythm.kept(5)
    assert 5.5 <= rhythm.due_s <= 6
    rhythm.answered(5.1)
    assert rhythm.due_s == 5.1
