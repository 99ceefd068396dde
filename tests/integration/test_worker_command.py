"""``headgate worker`` and ``headgate submit`` as a user runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.workers.process.exit_codes import EXIT_CONFIGURATION, EXIT_FAULT, EXIT_NO_QUEUES
from tests.support.fixture_app import APP_PATH
from tests.support.stage import Stage
from tests.support.workers import WorkerProcess, command

CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


async def test_a_job_submitted_by_the_command_is_run_by_a_worker(stage: Stage) -> None:
    submitted = await command(
        "-A", APP_PATH, "submit", "steady-quick", "{}", env=stage.environment()
    )
    assert (submitted.code, submitted.err) == (0, "")
    worker = await stage.worker("steady")
    job = submitted.out.strip()
    await stage.journal.until(lambda: stage.journal.count("done")[job] == 1)
    await worker.logged("job.completed")
    await stage.empties("steady")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.app:app"], "there is no module 'nowhere'"),
        (["tests.support.fixture_app:ap"], "did you mean 'app'?"),
        (["tests.support.fixture_app"], "write module:attribute"),
        ([APP_PATH, "--queues", "stedy"], "did you mean 'steady'?"),
        ([APP_PATH, "--concurrency", "0"], "concurrency must lie between 1 and 1000"),
    ],
    ids=["no module", "no attribute", "no path", "no queue", "no concurrency"],
)
async def test_a_wrong_command_line_is_answered_with_one_line_and_exit_code_2(
    bare_stage: Stage, arguments: list[str], says: str
) -> None:
    ended = await command("worker", *arguments, env=bare_stage.environment())
    assert ended.code == EXIT_CONFIGURATION
    [line] = ended.err.splitlines()
    assert line.startswith("headgate: ")
    assert says in line


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        (["AWS_REGION"], "no AWS region is configured: set AWS_REGION"),
        (CREDENTIALS, "no usable AWS credentials"),
    ],
    ids=["region", "credentials"],
)
async def test_a_worker_without_region_or_credentials_says_so_and_ends(
    stage: Stage, missing: list[str], says: str
) -> None:
    env = {name: value for name, value in stage.environment().items() if name not in missing}
    ended = await command("worker", APP_PATH, env=env)
    assert ended.code == EXIT_FAULT
    assert "Traceback" not in ended.err
    last = ended.err.splitlines()[-1]
    assert last.startswith("headgate: ")
    assert says in last


async def test_a_worker_waits_for_credentials_that_cannot_be_had_as_it_starts(
    stage: Stage, tmp_path: Path
) -> None:
    answer, config = tmp_path / "answer.json", tmp_path / "aws-config"
    config.write_text(f"[default]\ncredential_process = cat {answer}\n")
    env = {name: value for name, value in stage.environment().items() if name not in CREDENTIALS}
    env["AWS_CONFIG_FILE"] = str(config)
    [job] = await stage.submit("steady-quick")
    async with WorkerProcess("--queues", "steady", env=env) as worker:
        await worker.logged("poll.failed")
        assert "no usable AWS credentials" in worker.log
        answer.write_text('{"Version": 1, "AccessKeyId": "AKID", "SecretAccessKey": "secret"}')
        await stage.journal.until(lambda: stage.journal.count("done")[job] == 1)


async def test_a_worker_says_what_it_waits_for_while_its_credentials_take_long(
    stage: Stage, tmp_path: Path
) -> None:
    answer, config = tmp_path / "answer.json", tmp_path / "aws-config"
    slow = tmp_path / "slow.sh"
    slow.write_text(f"for i in $(seq 600); do cat {answer} 2>&- && exit; sleep 0.1; done\n")
    config.write_text(f"[default]\ncredential_process = sh {slow}\n")
    env = {name: value for name, value in stage.environment().items() if name not in CREDENTIALS}
    env["AWS_CONFIG_FILE"] = str(config)
    [job] = await stage.submit("steady-quick")
    says = "credential_process has not answered for 3 s"
    async with WorkerProcess("--queues", "steady", env=env, ready=says):
        unfinished = tmp_path / "unfinished"
        unfinished.write_text('{"Version": 1, "AccessKeyId": "AKID", "SecretAccessKey": "secret"}')
        unfinished.rename(answer)
        await stage.journal.until(lambda: stage.journal.count("done")[job] == 1)


async def test_a_worker_names_a_queue_that_is_missing_and_works_once_it_exists(
    bare_stage: Stage,
) -> None:
    stage = bare_stage
    worker = await stage.worker("steady")
    await worker.logged("poll.failed", times=2)
    assert stage.queue("steady").name in worker.log
    assert "cdk deploy" in worker.log
    await stage.provision()
    [job] = await stage.submit("steady-quick")
    await stage.journal.until(lambda: stage.journal.count("done")[job] == 1)
    await stage.empties("steady")


@pytest.mark.parametrize("processes", ["1", "2"])
async def test_a_worker_none_of_whose_queues_exist_ends_with_exit_code_4(
    bare_stage: Stage, processes: str
) -> None:
    ended = await command(
        *("worker", APP_PATH, "--queues", "steady", "--queue-grace", "100ms"),
        *("--processes", processes),
        env=bare_stage.environment(),
    )
    assert ended.code == EXIT_NO_QUEUES
    assert "Traceback" not in ended.err
    assert bare_stage.queue("steady").name in ended.err
    assert "cdk deploy" in ended.err


async def test_no_payload_is_logged_even_at_the_level_debug(stage: Stage) -> None:
    await stage.submit("steady-quick", note="what-only-the-user-may-see")
    await stage.submit("steady-failing", note="what-only-the-user-may-see")
    worker = await stage.worker("steady", "--log-level", "debug")
    await worker.logged("job.completed")
    await worker.logged("job.dead_lettered")
    assert "what-only-the-user-may-see" not in worker.log
