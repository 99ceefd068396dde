"""A user's project with a function that runs its jobs, and that function's bundle."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

from headgate.infra.functions.bundling import consumer_bundle
from headgate.infra.functions.pip_install import for_this_machine
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup

OWN_PIN = "3.10"
"""The version of ``idna`` that the project asks for; Headgate's own dependencies bring another."""

_DECLARATIONS = """
    import os
    from pathlib import Path

    from pydantic import BaseModel

    from headgate import App, Backoff, JobContext, Priority, Retry

    app = App("letters")
    mail = app.queue(
        "mail", priorities=[Priority.NORMAL], retry=Retry(max_attempts=3, backoff=Backoff.fixed(1))
    )


    class Letter(BaseModel):
        text: str


    @mail.job("send")
    async def send(letter: Letter, ctx: JobContext) -> None:
        with Path(os.environ["JOURNAL"]).open("a") as journal:
            print(letter.text, ctx.attempt, file=journal)
        if letter.text == "hopeless" or (letter.text == "flaky" and ctx.attempt == 1):
            raise ConnectionError("try again")
"""

_FUNCTION = """
    from headgate.lambdas.consume import consumer

    from letters.declared import app

    handler = consumer(app)
"""


def write_project(root: Path) -> ConsumerGroup:
    """Write the project below ``root``; returns the consumer that runs its jobs."""
    package = root / "letters"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "declared.py").write_text(textwrap.dedent(_DECLARATIONS))
    (package / "function.py").write_text(textwrap.dedent(_FUNCTION))
    (root / "requirements.txt").write_text(f"idna=={OWN_PIN}\n")
    return ConsumerGroup(
        name="postman",
        handler="letters.function.handler",
        source=str(root),
        requirements=str(root / "requirements.txt"),
        max_concurrency=2,  # each starts cold
    )


def build(group: ConsumerGroup, target: Path) -> None:
    """Bundle the consumer into ``target``, for this machine and without bytecode.

    Compiling bytecode would take as long again.
    """
    consumer_bundle(group).build(target, replace(for_this_machine(), compiler=None))
