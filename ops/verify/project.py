"""The project that `headgate verify` deploys: written like a user's, and deployed by CDK."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headgate.jobs.deployment.cdk_context import parse_deployment
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.surroundings import Architecture
from headgate.jobs.errors import ConfigurationError, HeadgateError
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_version import own_version
from headgate.ops.scaffold import filled
from headgate.ops.verify.steps import verify_app

CDK = "aws-cdk@2.1148.1"
"""CDK's command line, as docs/deploy.md pins it."""

WORKERS = "workers"
"""The name of the group of workers."""

_PACKAGE = "verify_app"
_FUNCTION = """\
from headgate.lambdas.consume import consumer
from verify_app import app

handler = consumer(app)
"""
_LOG = "cdk.log"
_OUTPUTS = "outputs.json"
_TAIL = 1_500  # characters of CDK's output that an error quotes

_ROLE_TOO_NEW = "Unable to assume the service linked role"
"""Said by ECS in an account that had never used it: it has just created its role, and asks for it
before IAM knows it everywhere.
https://github.com/aws-cloudformation/cloudformation-coverage-roadmap/issues/818"""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class VerifyProject:
    """A folder with an app, a Dockerfile and a ``cdk.json``."""

    folder: Path
    stage: str
    architecture: Architecture = "arm64"
    requirements: Path | None = None
    """The requirements of the workers' image; None: this version of Headgate, as it is published.
    """

    @property
    def stack(self) -> str:
        """The name of its stack."""
        return f"{verify_app.NAME}-{self.stage}"

    @property
    def fields(self) -> Mapping[str, Any]:
        """The stage's deployment, as ``cdk.json`` has it: it throws its data away."""
        served = ["jobs", verify_app.ORDERED]
        worker = {"name": WORKERS, "min_tasks": 1, "max_tasks": 1, "queues": served}
        function = {
            "name": verify_app.FUNCTIONS,
            "handler": f"{_PACKAGE}.function.handler",
            "queues": [verify_app.FUNCTIONS],
            "architecture": self.architecture,
        }
        return {
            "workers": [worker],
            "consumers": [function],
            "architecture": self.architecture,
            "network": "public",
            "budget_usd": 0,
            "keep_data": False,
        }

    def deployment(self) -> Deployment:
        """Return the same as a value."""
        return parse_deployment(self.fields)

    def write(self) -> None:
        """Write the files; what an earlier call has written is replaced.

        Raises:
            ConfigurationError: the requirements can't be read.
            OSError: the folder can't be written.
        """
        package = self.folder / _PACKAGE
        package.mkdir(parents=True, exist_ok=True)
        source = Path(verify_app.__file__).read_text(encoding="utf-8")
        (package / "__init__.py").write_text(f"{source}\n\napp = make_app()\n")
        (package / "function.py").write_text(_FUNCTION)
        values = {"name": verify_app.NAME, "package": _PACKAGE}
        (self.folder / "Dockerfile").write_text(filled("Dockerfile.txt", values))
        (self.folder / "requirements.txt").write_text(self._requirements())
        context = {
            "headgate:app": f"{_PACKAGE}:app",
            "headgate:stages": {self.stage: self.fields},
        }
        cdk = {"app": f"{sys.executable} -m headgate.infra.app", "context": context}
        (self.folder / "cdk.json").write_text(json.dumps(cdk, indent=2))

    async def deploy(self) -> Mapping[str, str]:
        """Deploy the stack, or bring it up to date; returns its outputs.

        In an account that had never used ECS it may take a second try, as docs/deploy.md says.

        Raises:
            ConfigurationError: there is no ``npx``.
            HeadgateError: CDK failed; the end of its output is in the message.
        """
        words = ("deploy", "--require-approval", "never", "--outputs-file", _OUTPUTS)
        try:
            await self._cdk(*words)
        except HeadgateError as error:
            if _ROLE_TOO_NEW not in str(error):
                raise
            await self._cdk(*words)
        outputs: Mapping[str, str] = json.loads((self.folder / _OUTPUTS).read_text())[self.stack]
        return outputs

    async def destroy(self) -> None:
        """Delete the stack, if there is one; raises as `deploy`."""
        await self._cdk("destroy", "--force")

    def _requirements(self) -> str:
        if self.requirements is None:
            return filled("requirements.txt", {"version": own_version()})
        try:
            return self.requirements.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"--requirements: {error}") from error

    async def _cdk(self, *words: str) -> None:
        if (npx := shutil.which("npx")) is None:
            raise ConfigurationError("CDK needs Node: install it, so that `npx` is found")
        log = self.folder / _LOG
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *(npx, "--yes", CDK, *words, self.stack),
                cwd=self.folder,
                env=os.environ | {"HEADGATE_STAGE": self.stage},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is ours, and CDK is ended in order
            )
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                process.terminate()
                await process.wait()
                raise
        if code != 0:
            said = log.read_text(errors="replace")[-_TAIL:].strip()
            raise HeadgateError(f"cdk {words[0]} failed; the end of {log}: {said}")
