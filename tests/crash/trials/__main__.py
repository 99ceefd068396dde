"""``python -m tests.crash.trials TRIAL``: run a trial by itself, and print its findings.

Its exit code is 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from headgate.ops.local.aws import LocalAws
from tests.crash.trials.answers import submitter_meets, worker_meets
from tests.crash.trials.app import FIXTURE
from tests.crash.trials.catalogue import ANSWERED, CATALOGUE, Weather
from tests.crash.trials.cuts import Cuts
from tests.crash.trials.findings import Findings
from tests.crash.trials.letters import KINDS, LetterCuts
from tests.crash.trials.messages import feed
from tests.crash.trials.mixed import Mixed
from tests.support.proxy import Proxy
from tests.support.stage import Stage, stage_on
from tests.support.workers import environment

Trial = Callable[[argparse.Namespace, Path], Coroutine[Any, Any, Findings]]


@asynccontextmanager
async def _stage(directory: Path) -> AsyncIterator[Stage]:
    """Yield a stage on a separate server."""
    with LocalAws() as aws:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        os.environ.update(environment(aws.endpoint_url, "trials", directory))
        async with stage_on(aws.endpoint_url, directory, FIXTURE) as stage:
            await stage.provision()
            yield stage


async def _answers(options: argparse.Namespace, directory: Path) -> Findings:
    rng = random.Random(options.seed)  # noqa: S311 - chooses faults
    async with _stage(directory) as stage:
        weather = Weather(rng)
        found = await worker_meets(
            stage, weather, groups=[[kind] for kind in options.kinds], jobs=options.jobs
        )
        found.figures["answered oddly"] = dict(weather.drawn)
        return found


async def _submissions(options: argparse.Namespace, directory: Path) -> Findings:
    rng = random.Random(options.seed)  # noqa: S311 - chooses faults
    groups = [[kind] for kind in options.kinds if kind not in ANSWERED]
    async with _stage(directory) as stage:
        weather = Weather(rng)
        found = await submitter_meets(stage, weather, directory, groups=groups, jobs=options.jobs)
        found.figures["answered oddly"] = dict(weather.drawn)
        return found


async def _cuts(options: argparse.Namespace, directory: Path) -> Findings:
    rng = random.Random(options.seed)  # noqa: S311 - chooses moments
    async with _stage(directory) as stage:
        cuts = Cuts(stage, rng)
        await cuts.stops(options.stops)
        await cuts.kills(options.kills, at_once=2)
        return await cuts.finish()


async def _mixed(options: argparse.Namespace, directory: Path) -> Findings:
    rng = random.Random(options.seed)  # noqa: S311 - chooses faults and moments
    async with _stage(directory) as stage, Proxy(stage.endpoint_url) as proxy:
        return await Mixed(stage, proxy, directory, rng).run(60 * options.minutes)


async def _letters(_options: argparse.Namespace, directory: Path) -> Findings:
    async with _stage(directory) as stage, Proxy(stage.endpoint_url) as proxy:
        cuts = LetterCuts(stage, proxy)
        for kind in KINDS:
            await cuts.everywhere(kind)
        return cuts.told()


async def _messages(options: argparse.Namespace, _directory: Path) -> Findings:
    return await asyncio.to_thread(feed, options.seed, options.bodies)


TRIALS: dict[str, Trial] = {
    "answers": _answers,
    "submissions": _submissions,
    "cuts": _cuts,
    "letters": _letters,
    "messages": _messages,
    "mixed": _mixed,
}


def main() -> None:
    """Run the trials that were named, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.trials", description=__doc__)
    parser.add_argument("trials", nargs="+", choices=[*TRIALS])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=200, help="for each kind of answer")
    parser.add_argument("--kinds", nargs="+", choices=[*CATALOGUE], default=[*CATALOGUE])
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--bodies", type=int, default=100_000)
    parser.add_argument("--minutes", type=float, default=3)
    options = parser.parse_args()
    broken = [name for name in options.trials if not _sound(name, options)]
    sys.exit(f"promises were broken in: {', '.join(broken)}" if broken else 0)


def _sound(name: str, options: argparse.Namespace) -> bool:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headgate-trial-") as directory:
        findings = asyncio.run(TRIALS[name](options, Path(directory)))
    print(f"{name}, seed {options.seed}, {time.monotonic() - began:.0f} s")
    for line in findings.lines():
        print(f"  {line}")
    return not findings.broken


if __name__ == "__main__":
    main()
