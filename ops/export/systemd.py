"""An app's workers as services of systemd, for a machine with Headgate in a virtual environment."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from headgate.infra.fargate.worker_command import HEALTH_PORT, command
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.errors import ConfigurationError
from headgate.ops.export.artifacts import Artifact, ExportOrigin
from headgate.ops.export.target import Target

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FOLDER = re.compile(r"/[\w./+@:-]*")

_UNIT = """
[Unit]
Description=Workers of {app} ({group})
Wants=network-online.target
After=network-online.target

[Service]
WorkingDirectory={code}
ExecStart={venv}/bin/headgate {arguments}
{environment}
# Secrets, one NAME=value a line; readable by root alone.
EnvironmentFile=-/etc/headgate/{service}.env
DynamicUser=yes
Restart=always
RestartSec=5
# SIGTERM goes to the worker alone, which stops its own processes; after the time, SIGKILL to all.
KillMode=mixed
KillSignal=SIGTERM
TimeoutStopSec={stop_s}
PrivateTmp=yes
ProtectSystem=strict
ProtectHome=yes
NoNewPrivileges=yes
CapabilityBoundingSet=

[Install]
WantedBy=multi-user.target
""".lstrip()


def units(target: Target, origin: ExportOrigin, *, code: str, venv: str) -> Iterator[Artifact]:
    """Yield a unit for each worker group; they serve their health on successive ports.

    https://www.freedesktop.org/software/systemd/man/latest/systemd.service.html

    Args:
        target: the app and its place.
        origin: what the files say about themselves.
        code: the folder of the app's code on that machine.
        venv: its virtual environment there.

    Raises:
        ConfigurationError: a name is too long, or a folder not one that a unit can name.
    """
    code, venv = _checked("--code", code), _checked("--venv", venv)
    port = HEALTH_PORT
    for group in target.groups:
        text = origin.comment + _unit(target, group, port=port, code=code, venv=venv)
        yield Artifact.of_text(f"{target.service(group)}.service", text)
        port += group.processes


def _unit(target: Target, group: WorkerGroup, *, port: int, code: str, venv: str) -> str:
    variables = target.variables(group).items()
    return _UNIT.format(
        app=target.name,
        group=group.name,
        service=target.service(group),
        code=code,
        venv=venv,
        arguments=" ".join(command(group, emf=False, port=port)),
        environment="\n".join(
            f'Environment="{name}={_quoted(value)}"' for name, value in variables
        ),
        stop_s=math.ceil(group.stop_timeout.total_seconds()),
    )


def _quoted(value: str) -> str:
    """Return a value inside quotation marks, with nothing that systemd would replace.

    To systemd a carriage return ends a line as a line feed does.
    https://www.freedesktop.org/software/systemd/man/latest/systemd.syntax.html#Quoting
    """
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", escaped)


def _checked(option: str, folder: str) -> str:
    """Return a folder as it may stand in a unit.

    Raises:
        ConfigurationError: it is not absolute, or has characters that mean something to systemd.
    """
    if not _FOLDER.fullmatch(folder):
        raise ConfigurationError(
            f"{option} names a folder by its absolute path, of letters, digits and any of "
            f"._+@:-, got {folder!r:.200}"
        )
    return folder
