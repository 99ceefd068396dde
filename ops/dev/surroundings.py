"""The variables by which programs find the local AWS, and nobody's account."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

from headgate.jobs.aws.connections.plain_http import is_loopback
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.light_dataclass import light_dataclass

REGION = "us-east-1"
_NOBODY = "headgate-dev"
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_HIDDEN = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_")
"""Beginnings of variables that would lead elsewhere."""

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
"""Variables that lead programs to a proxy, in capitals or not."""
_NO_PROXY = ("NO_PROXY", "no_proxy")

_LOCAL_HOSTS = "localhost,127.0.0.1,::1"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The local AWS of an app, as variables of the environment.

    Args:
        app: the app's path.
        endpoint_url: the local AWS's.
        environ: the user's own variables, of which region and stage are taken.

    Raises:
        ConfigurationError: the endpoint is AWS's own.
    """

    app: str
    endpoint_url: str
    environ: Mapping[str, str]

    def __post_init__(self) -> None:
        host = _host(self.endpoint_url)
        if not host:
            raise ConfigurationError(
                f"{self.endpoint_url!r} is no URL: write --endpoint http://localhost:4566"
            )
        if host.endswith((".amazonaws.com", ".amazonaws.com.cn", ".api.aws")):
            raise ConfigurationError(
                f"{self.endpoint_url} is AWS itself, where `cdk deploy` creates queues and "
                "schedules: deploy a stage of your own, and run headgate worker with its "
                "HEADGATE_STAGE"
            )

    @property
    def variables(self) -> dict[str, str]:
        """The variables to set, in the order to show them in."""
        found = {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            **dict.fromkeys(_CREDENTIALS, _NOBODY),
            "AWS_REGION": (region := self.environ.get("AWS_REGION") or REGION),
            "AWS_DEFAULT_REGION": region,  # for clients of boto3, which read no other
            "HEADGATE_APP": self.app,
        }
        if stage := self.environ.get("HEADGATE_STAGE"):
            found["HEADGATE_STAGE"] = stage
        parts = urlsplit(self.endpoint_url)
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            found["HEADGATE_ALLOW_HTTP"] = "1"
        if any(value and name.lower() in _PROXIES for name, value in self.environ.items()):
            found |= self._direct()
        return found

    @property
    def lines(self) -> list[str]:
        """Lines for the shell of another terminal."""
        hidden = sorted(name for name in self.environ if name.startswith(_HIDDEN))
        return [
            *([f"unset {' '.join(hidden)}"] if hidden else ()),
            *(f"export {name}={shlex.quote(value)}" for name, value in self.variables.items()),
        ]

    def environment(self) -> dict[str, str]:
        """Return a whole environment for a process, in which no account of the user's is left.

        botocore reads credentials from variables, files, profiles and the instance's metadata: all
        but the first are disabled.
        """
        kept = {name: v for name, v in self.environ.items() if not name.startswith("AWS_")}
        return kept | {
            **self.variables,
            **self._direct(),
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def _direct(self) -> dict[str, str]:
        """Return the variables by which no proxy is asked for this machine's own addresses.

        Both spellings, since programs differ in which they read; the user's own hosts stay.
        """
        own = (self.environ.get(name, "") for name in _NO_PROXY)
        hosts = (host.strip() for text in (*own, _LOCAL_HOSTS) for host in text.split(","))
        return dict.fromkeys(_NO_PROXY, ",".join(dict.fromkeys(filter(None, hosts))))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Have this process's own environment be this one within the block."""
        before = dict(os.environ)
        _replace(self.environment())
        try:
            yield
        finally:
            _replace(before)


def _host(url: str) -> str:
    """Return the host of a URL; an empty text if it is none that AWS could be at."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return ""
    return (parts.hostname or "") if parts.scheme in ("http", "https") else ""


def _replace(variables: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)
