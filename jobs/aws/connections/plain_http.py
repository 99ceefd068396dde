"""Consent to endpoints without TLS, over which anybody on the way reads and alters what is sent."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from headgate.jobs.core.settings import Settings
from headgate.jobs.errors import SettingsInvalid


def check_endpoint(client: Any) -> None:
    """Check that a client of botocore's or aiobotocore's has TLS, talks to this host, or may do
    without, by ``HEADGATE_ALLOW_HTTP``.

    Its endpoint may come from an argument, the environment, a profile or the user's own settings.

    Raises:
        SettingsInvalid: none of these.
    """
    url: str = client.meta.endpoint_url
    parts = urlsplit(url)
    if parts.scheme != "http" or is_loopback(parts.hostname or ""):
        return
    if Settings.from_env().allow_http:
        return
    raise SettingsInvalid(
        f"the endpoint {url} has no TLS: whoever is on the way there could read and change jobs. "
        "Write https://, or set HEADGATE_ALLOW_HTTP=1 if that network is all yours, as with an "
        "emulator of AWS among containers"
    )


def is_loopback(host: str) -> bool:
    """Return True if a host, by name or address, is this machine."""
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761, section 6.3
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
