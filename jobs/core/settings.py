"""Settings from environment variables, read once by the entry points and never at import."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field

from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.values.light_dataclass import light_dataclass

_PREFIX = "HEADGATE_"
_LONGEST_VERSION = 100
_ACCOUNT = r"\d{12}"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The ``HEADGATE_*`` variables. AWS's own are read by its SDK."""

    app: str | None = None
    """``HEADGATE_APP``: the default app of a command, as ``module:attribute``."""
    app_version: str = ""
    """``HEADGATE_APP_VERSION``: the version of the app's code, such as a commit, that ``headgate
    workers list`` shows; up to 100 characters."""
    stage: str | None = None
    """``HEADGATE_STAGE``: part of every physical name, so that stages can share an account."""
    bucket: str | None = None
    """``HEADGATE_BUCKET``: the full name of the S3 bucket for data too large for a message.
    None: ``{app}-{stage}-payloads-{account}-{region}``."""
    existing: str | None = None
    """``HEADGATE_EXISTING``: the app's resources that something else created, as JSON (see
    `jobs.core.existing`), for an app that names none. None: all are the app's own."""
    actor: str | None = None
    """``HEADGATE_ACTOR``: who acts through a client that names nobody, for the audit; up to 100
    characters. None: the process's user and host."""
    account: str | None = None
    """``HEADGATE_ACCOUNT``: the AWS account's twelve digits, for a worker in a network without
    access to STS, which is asked otherwise."""
    stop_timeout_s: float | None = None
    """``HEADGATE_STOP_TIMEOUT``: seconds from SIGTERM until a worker's container is killed, as set
    by ECS's ``stopTimeout``; above 0. None: it isn't killed, or not soon."""

    paused: bool = False
    """``HEADGATE_PAUSED``, 1 or 0: clients behave as if SQS could not be reached, without calling
    it: they spool jobs, run them in place, or refuse them."""

    allow_http: bool = False
    """``HEADGATE_ALLOW_HTTP``, 1 or 0: endpoints without TLS may be on other hosts than this one,
    as an emulator of AWS in a network of containers is."""

    sdk_calls: bool = False
    """``HEADGATE_SDK_CALLS``, 1 or 0: boto3 or aiobotocore makes every call to AWS, even those to
    SQS and the table, which Headgate otherwise makes itself for less CPU."""

    emf: bool = False
    """``HEADGATE_EMF``, 1 or 0: functions that run jobs write metrics for CloudWatch."""
    concurrency: int | None = None
    """``HEADGATE_CONCURRENCY``: the number of jobs of one invocation that a function runs at once,
    at least 1. Workers have an option for it."""
    console_token: str | None = field(default=None, repr=False)
    """``HEADGATE_CONSOLE_TOKEN``: the token that ``headgate console --auth token`` asks for, of at
    least 20 characters. None: it makes one."""
    console_load_balancer: str | None = None
    """``HEADGATE_CONSOLE_LOAD_BALANCER``: the ARN of the Application Load Balancer that signs in
    people for ``headgate console --auth alb``."""

    def __post_init__(self) -> None:
        if self.account is not None and not re.fullmatch(_ACCOUNT, self.account):
            raise SettingsInvalid(
                f"{_PREFIX}ACCOUNT must be an AWS account's twelve digits, got {self.account!r}"
            )
        if len(self.app_version) > _LONGEST_VERSION:
            raise SettingsInvalid(
                f"{_PREFIX}APP_VERSION has at most {_LONGEST_VERSION} characters, got "
                f"{len(self.app_version)}"
            )
        if self.stop_timeout_s is not None and not 0 < self.stop_timeout_s < float("inf"):
            raise SettingsInvalid(
                f"{_PREFIX}STOP_TIMEOUT must be a number of seconds above 0, such as 30, got "
                f"{self.stop_timeout_s:g}"
            )
        if self.concurrency is not None and self.concurrency < 1:
            raise SettingsInvalid(
                f"{_PREFIX}CONCURRENCY must be at least 1, got {self.concurrency}"
            )

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read ``environ``, or this process's own environment.

        Raises:
            SettingsInvalid: a value is out of range, or the name of a variable looks like a
                misspelling of one of these. Others are ignored: Kubernetes sets HEADGATE_PORT if a
                service is called headgate.
        """
        found = {
            name.removeprefix(_PREFIX).upper(): value
            for name, value in (os.environ if environ is None else environ).items()
            if name.startswith(_PREFIX)
        }
        _refuse_misspelt(found)
        return cls(
            app=found.get("APP") or None,
            app_version=found.get("APP_VERSION", ""),
            stage=found.get("STAGE") or None,
            bucket=found.get("BUCKET") or None,
            existing=found.get("EXISTING") or None,
            actor=found.get("ACTOR") or None,
            account=found.get("ACCOUNT") or None,
            stop_timeout_s=_number("STOP_TIMEOUT", found),
            paused=_switch("PAUSED", found),
            allow_http=_switch("ALLOW_HTTP", found),
            sdk_calls=_switch("SDK_CALLS", found),
            emf=_switch("EMF", found),
            concurrency=_whole("CONCURRENCY", found),
            console_token=found.get("CONSOLE_TOKEN") or None,
            console_load_balancer=found.get("CONSOLE_LOAD_BALANCER") or None,
        )


_KNOWN = (
    *("ACCOUNT", "ACTOR", "ALLOW_HTTP", "APP", "APP_VERSION", "BUCKET", "CONCURRENCY"),
    *("CONSOLE_LOAD_BALANCER", "CONSOLE_TOKEN", "EMF", "EXISTING", "PAUSED", "SDK_CALLS"),
    *("STAGE", "STOP_TIMEOUT"),
)


def _refuse_misspelt(found: Mapping[str, str]) -> None:
    for name in found.keys() - set(_KNOWN):
        import difflib  # only for errors

        if near := difflib.get_close_matches(name, _KNOWN, n=1, cutoff=0.75):
            raise SettingsInvalid(
                f"the variable {_PREFIX}{name} is unknown to Headgate: did you mean "
                f"{_PREFIX + near[0]!r}?"
            )


def _number(name: str, found: Mapping[str, str]) -> float | None:
    if not (text := found.get(name)):
        return None
    try:
        return float(text)
    except ValueError as error:
        raise SettingsInvalid(f"{_PREFIX}{name} must be a number, got {text!r}") from error


def _whole(name: str, found: Mapping[str, str]) -> int | None:
    if not (text := found.get(name)):
        return None
    try:
        return int(text)
    except ValueError as error:
        raise SettingsInvalid(f"{_PREFIX}{name} must be a whole number, got {text!r}") from error


def _switch(name: str, found: Mapping[str, str]) -> bool:
    if (text := found.get(name, "")) not in ("", "0", "1"):
        raise SettingsInvalid(f"{_PREFIX}{name} must be 1 or 0, got {text!r}")
    return text == "1"
