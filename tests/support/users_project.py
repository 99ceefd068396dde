"""A project whose packages have the names of Headgate's folders, and an environment for it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import textwrap
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

APP_PATH = "jobs.app:app"
OWN_PACKAGES = ("infra", "jobs", "lambdas", "ops", "workers")

_FILES = {
    "jobs/app.py": """
        from pydantic import BaseModel

        from headgate import App, Priority, RateLimit

        app = App("letters", handlers=["workers.handlers"])
        mail = app.queue("mail", priorities=[Priority.NORMAL], rate_limit=RateLimit(20, per=1))
        post = app.queue("post", priorities=[Priority.NORMAL])


        class Letter(BaseModel):
            to: str


        write = mail.define("write", Letter, returns=int, timeout=60)
        bind = mail.define("bind", Letter, returns=int, isolation="process")
        stamp = post.define("stamp", Letter)
        """,
    "workers/handlers.py": """
        import os

        from headgate import JobContext

        from jobs.app import Letter, bind, stamp, write


        @write.handler
        async def written(letter: Letter, ctx: JobContext) -> int:
            ctx.log.info("to %s", letter.to)
            return os.getpid()


        @bind.handler
        def bound(letter: Letter) -> int:
            return os.getpid()


        @stamp.handler
        async def stamped(letter: Letter) -> None: ...
        """,
    "lambdas/stamping.py": """
        from headgate.lambdas.consume import consumer

        from jobs.app import app

        handler = consumer(app)
        """,
    "infra/app.py": """
        import aws_cdk as cdk

        from headgate.infra import ConsumerGroup, Deployment, JobSystem, WorkerGroup

        from jobs.app import app

        STAMPING = ConsumerGroup(
            name="stamping", handler="lambdas.stamping.handler", queues=("post",), timeout=20
        )
        DEPLOYMENT = Deployment(
            workers=(WorkerGroup(queues=("mail",)),), consumers=(STAMPING,), network="public"
        )

        if __name__ == "__main__":
            assembly = cdk.App()
            JobSystem(cdk.Stack(assembly, "Letters"), "Jobs", app=app, deployment=DEPLOYMENT)
            assembly.synth()
        """,
    "ops/write.py": """
        from datetime import timedelta

        from headgate import Client

        from jobs.app import Letter, app, bind, write

        if __name__ == "__main__":
            with Client(app) as client:
                submitted = [client.submit(job, Letter(to="Ada"), delay=1) for job in (write, bind)]
                print(*[job.result(timeout=timedelta(minutes=1)) for job in submitted])
        """,
    "tests/test_letters.py": """
        from headgate.testing import Harness

        from jobs.app import Letter, app, write


        def test_a_letter_is_written() -> None:
            harness = Harness(app)
            job = harness.client.submit(write, Letter(to="Ada"))
            harness.drain()
            assert job.result() > 0
        """,
    "cdk.json": """
        {
          "app": "python -m headgate.infra.app",
          "context": {
            "aws:cdk:bundling-stacks": [],
            "headgate:app": "jobs.app:app",
            "headgate:deployment": {
              "workers": [{"queues": ["mail"]}],
              "consumers": [
                {
                  "name": "stamping",
                  "handler": "lambdas.stamping.handler",
                  "source": ".",
                  "queues": ["post"],
                  "timeout": 20
                }
              ],
              "network": "public"
            }
          }
        }
        """,
    "Dockerfile": """
        FROM scratch
        """,
    "pyproject.toml": """
        [tool.mypy]
        strict = true
        plugins = ["pydantic.mypy"]

        # CDK's own types are as large as the rest together.
        [[tool.mypy.overrides]]
        module = "aws_cdk.*"
        follow_imports = "skip"
        """,
    "pyrightconfig.json": """
        {"typeCheckingMode": "standard", "reportUnnecessaryTypeIgnoreComment": true}
        """,
}


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with the project, and the Python that runs it."""

    root: Path
    python: Path

    def run(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> str:
        """Run Python in the project's folder; return its output.

        Raises:
            AssertionError: it failed; with its output.
        """
        done = subprocess.run(
            [self.python, *arguments],
            cwd=self.root,
            env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **(env or {})},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def make_project(root: Path, wheel: Path) -> Project:
    """Write the project into ``root``, with an environment that has only the wheel's Headgate.

    Third-party packages are those of the environment that runs the tests: a line in a ``.pth`` adds
    their folder, but not the entries of that folder's own ``.pth`` files, such as the checkout's
    path.
    """
    for name in OWN_PACKAGES:
        (root / name).mkdir(parents=True)
        (root / name / "__init__.py").touch()
    (root / "tests").mkdir()
    for path, text in _FILES.items():
        (root / path).write_text(textwrap.dedent(text).lstrip())
    return Project(root, _environment_with(wheel, root.with_name(f"{root.name}-venv")))


def _environment_with(wheel: Path, folder: Path) -> Path:
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    subprocess.run(
        [*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)],
        check=True,
        capture_output=True,
    )
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    (packages / "third_party.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python
