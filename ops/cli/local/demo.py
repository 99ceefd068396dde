"""``headgate demo``."""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.ops.cli.shared import examples, require_posix

EXAMPLES = examples("headgate demo", "headgate demo --jobs 10000 --seed 7")


def demo(
    jobs: Annotated[
        int, typer.Option(min=100, metavar="N", help="About how many jobs to submit.")
    ] = 2000,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the planned faults.")] = 1,
) -> None:
    """Run a whole system on this machine, and check it.

    It runs in a checkout of Headgate's repository, whose example shop it needs (make demo installs
    the rest). It ends by itself and leaves nothing behind. Exits with 1 if a check failed.
    """
    require_posix("headgate demo")
    from headgate.ops.demo import DemoOptions, run_demo

    raise typer.Exit(run_demo(DemoOptions(jobs=jobs, seed=seed)))
