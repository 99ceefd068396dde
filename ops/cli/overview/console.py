"""``headgate console``."""

from __future__ import annotations

import secrets
from enum import StrEnum
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.jobs.core.settings import Settings
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.actor import actor
from headgate.ops.cli.shared import app_of, examples
from headgate.ops.listening import CONSOLE_PORT, listen, url_of

if TYPE_CHECKING:
    from headgate.ops.console.access.rules import AccessRule

EXAMPLES = examples(
    "headgate -A shop.app:app console",
    "headgate -A shop.app:app console --read-only --port 9000",
    "headgate -A shop.app:app console --host 0.0.0.0 --auth token",
)


class Auth(StrEnum):
    """The ways of signing in to a console."""

    TOKEN = "token"  # noqa: S105 - a way, and no secret
    ALB = "alb"


@light_dataclass(frozen=True, slots=True)
class _Admission:
    """The rule of access, as the options of the command give it."""

    rule: AccessRule
    hosts: tuple[str, ...] | None
    note: str
    """A line for whoever started the command; empty if there is nothing to say."""


def console(
    context: typer.Context,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="The port; 0 takes a free one.")
    ] = CONSOLE_PORT,
    auth: Annotated[
        Auth | None,
        typer.Option(help="Have people sign in. Needed on any address but this machine's own."),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Let nobody change anything.")
    ] = False,
) -> None:
    """Serve the web console until Ctrl-C.

    It sees and does what the AWS credentials of this command allow. Without --auth only browsers on
    this machine reach it. --auth token asks for the token of HEADGATE_CONSOLE_TOKEN, or for one
    that is made and printed; put TLS in front of it. --auth alb lets in whoever the Application
    Load Balancer has signed in whose ARN is in HEADGATE_CONSOLE_LOAD_BALANCER.
    """
    from headgate.ops.cdk_context import deployment_to_watch
    from headgate.ops.console import console as pages
    from headgate.ops.console.serving import serve
    from headgate.ops.views.output import show, show_error
    from headgate.workers.logs import configure

    app = app_of(context)
    if auth is None and not _is_loopback(host):
        context.fail(f"--host {host} is reached from other machines: have them --auth token")
    admission = {None: _open, Auth.TOKEN: _by_token, Auth.ALB: _by_load_balancer}[auth]()
    deployment = deployment_to_watch(app.stage, show_error)
    served = pages(
        app,
        access=admission.rule,
        read_only=read_only,
        hosts=admission.hosts,
        deployment=deployment,
    )
    configure()  # what people do is logged
    with listen(host, port) as listener:
        show(f"The console of {app.name}: {url_of(listener)}  (Ctrl-C ends it)")
        if admission.note:
            show(admission.note, at_once=True)
        serve(served, listener)


def _open() -> _Admission:
    from headgate.ops.console.access.rules import LOOPBACK_HOSTS, everybody

    return _Admission(everybody(actor()), LOOPBACK_HOSTS, "")


def _by_token() -> _Admission:
    from headgate.jobs.core.clock import SystemClock
    from headgate.ops.console.access.rules import TokenAccess

    if given := Settings.from_env().console_token:
        return _Admission(TokenAccess(given, SystemClock()), None, "")
    made = secrets.token_hex(24)
    return _Admission(TokenAccess(made, SystemClock()), None, f"The token to sign in with: {made}")


def _by_load_balancer() -> _Admission:
    from headgate.jobs.core.clock import SystemClock
    from headgate.jobs.errors import ConfigurationError
    from headgate.ops.console.access.load_balancer import LoadBalancerAccess

    if not (load_balancer := Settings.from_env().console_load_balancer):
        raise ConfigurationError(
            "--auth alb needs the ARN of the load balancer in HEADGATE_CONSOLE_LOAD_BALANCER"
        )
    return _Admission(LoadBalancerAccess(load_balancer, SystemClock()), None, "")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
