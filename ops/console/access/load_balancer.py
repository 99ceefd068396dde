"""Access for whoever an Application Load Balancer has signed in by OpenID Connect.

With each request the load balancer sends ``x-amzn-oidc-data``: what the identity provider says of
somebody, signed with ES256. Its form is a JWT's, except that its parts are padded, and signed so,
which libraries for JWTs refuse. Whoever reaches the console past the load balancer can send such a
header too, even one that another load balancer has signed; so besides the signature the signer is
checked, which has to be ours.
https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-authenticate-users.html
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from headgate.jobs.core.clock import Clock
from headgate.jobs.errors import ConfigurationError, LibraryMissing
from headgate.jobs.records.cancellation import LONGEST_ACTOR
from headgate.jobs.values.own_log import OwnLog
from headgate.jobs.values.texts import legible
from headgate.ops.console.access.rules import SIGN_OUT, Viewer
from headgate.ops.console.rendering import base_of, path_of, render

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

HEADER = "x-amzn-oidc-data"

SESSION_COOKIES = tuple(f"AWSELBAuthSessionCookie-{part}" for part in range(4))
"""The load balancer's cookies: it cuts a session of more than 4 KB, of up to 16 KB, into parts."""

_ARN = re.compile(
    r"arn:(?P<partition>aws|aws-us-gov):elasticloadbalancing:(?P<region>[a-z0-9-]+):\d{12}"
    r":loadbalancer/app/[\w-]+/[0-9a-f]+"
)
_KEY_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KEYS = {
    "aws": "https://public-keys.auth.elb.{region}.amazonaws.com/{key_id}",
    "aws-us-gov": "https://s3-{region}.amazonaws.com/aws-elb-public-keys-prod-{region}/{key_id}",
}
"""Addresses of the public keys by partition. None is documented for China."""

_LONGEST_TOKEN = 16_384
"""Maximum characters of the header; claims and access token have at most 11 KB together."""

_LEEWAY_S = 10
"""Seconds by which the clocks may differ."""

_HALF = 32
"""Bytes of each of the two numbers that make a signature.
https://www.rfc-editor.org/rfc/rfc7518#section-3.4"""

_MOST_KEYS = 16
_MISSING_FOR_S = 60.0
"""Seconds for which a key that could not be read is not asked for again."""
_MOST_ASKED = 10
"""Maximum number of keys that are asked for in `_MISSING_FOR_S`: whoever reaches the console past
the load balancer can invent their ids."""

_PATIENCE_S = 5.0
_LARGEST_KEY = 4_096
_LONGEST_FAULT = 200

_log = OwnLog("headgate.console")


class LoadBalancerAccess:
    """The rule that lets in whoever one Application Load Balancer has signed in.

    They are named by their e-mail address, unless the identity provider says that it has not
    verified it, and otherwise by their ``sub``: what people may choose themselves would let one act
    under another's name.

    Args:
        load_balancer: its ARN, in one of AWS's commercial regions or in GovCloud.
        clock: tells when a token ends.
        fetch: returns the public key at an address, in PEM; raises OSError or HTTPException.

    Raises:
        ConfigurationError: that is not the ARN of an Application Load Balancer there, or the
            library cryptography is not installed.
    """

    def __init__(
        self, load_balancer: str, clock: Clock, fetch: Callable[[str], bytes] | None = None
    ) -> None:
        found = _ARN.fullmatch(load_balancer)
        if found is None:
            raise ConfigurationError(
                f"{load_balancer!r} is not the ARN of an Application Load Balancer outside China: "
                "it looks like arn:aws:elasticloadbalancing:REGION:ACCOUNT:loadbalancer/app/NAME/ID"
            )
        _require_cryptography()
        self._load_balancer = load_balancer
        self._clock = clock
        address = _KEYS[found["partition"]].replace("{region}", found["region"])
        self._keys = _PublicKeys(address, clock, fetch or _fetched)

    async def __call__(self, request: Request) -> Viewer | Response | None:
        """Return who sends a request; None without a header that the load balancer has signed."""
        tokens = request.headers.getlist(HEADER)
        if len(tokens) != 1 or len(tokens[0]) > _LONGEST_TOKEN:
            return None
        name = await run_in_threadpool(self._name, tokens[0])
        if name is None:
            return None
        if path_of(request) == SIGN_OUT and request.method == "POST":
            return _signed_out(request)
        return Viewer(name=name, sign_out=f"{base_of(request)}{SIGN_OUT}")

    def _name(self, token: str) -> str | None:
        signed, _, signature = token.rpartition(".")
        said, _, claimed = signed.partition(".")
        header, claims = _object(said), _object(claimed)
        if header is None or claims is None:
            return None
        if fault := self._fault(header):
            _log.warning("a request with %s was refused: %s", HEADER, fault)
            return None
        key = self._keys.get(header["kid"])
        if key is None or not _is_signed(key, signed.encode(), _decoded(signature)):
            return None
        return _name_in(claims)

    def _fault(self, header: Mapping[str, Any]) -> str:
        """Return what shows, before the signature proves anything, that a token is not for us."""
        ends_at, key_id, signer = (header.get(name) for name in ("exp", "kid", "signer"))
        if header.get("alg") != "ES256":
            return "its algorithm is not ES256"
        if signer != self._load_balancer:
            return f"its signer is {signer!r:.200}, and not {self._load_balancer}"
        if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
            return "it names no key"
        if isinstance(ends_at, bool) or not isinstance(ends_at, int | float):
            return "it has no end"
        if not self._clock.now().timestamp() - _LEEWAY_S < ends_at:  # so NaN is no end, either
            return "it has ended"
        return ""


class _PublicKeys:
    """The public keys of a region's load balancers, by their ids. Thread-safe.

    A known key never waits for one that is being asked for, and is never pushed out by ids that
    name no key.

    Args:
        address: the address of each, with ``{key_id}`` in it.
        clock: tells when to ask again for a key that could not be read.
        fetch: see `LoadBalancerAccess`.
    """

    def __init__(self, address: str, clock: Clock, fetch: Callable[[str], bytes]) -> None:
        self._address = address
        self._clock = clock
        self._fetch = fetch
        self._found: OrderedDict[str, EllipticCurvePublicKey] = OrderedDict()
        self._asked: OrderedDict[str, tuple[Future[EllipticCurvePublicKey | None], float]] = (
            OrderedDict()
        )
        """The latest answers, also those under way, and when they were asked for."""
        self._lock = threading.Lock()  # never held while one is asked for

    def get(self, key_id: str) -> EllipticCurvePublicKey | None:
        """Return a key; None if it can't be read, or too many others were asked for just now."""
        with self._lock:
            if (key := self._found.get(key_id)) is not None:
                return key
            answer, is_new = self._answer(key_id)
        if answer is None:
            return None
        if is_new:
            self._ask(key_id, answer)
        return answer.result()

    def _answer(self, key_id: str) -> tuple[Future[EllipticCurvePublicKey | None] | None, bool]:
        """Return the latest answer about a key, or a new one; None if none may be asked for."""
        now = self._clock.monotonic()
        while self._asked and now - next(iter(self._asked.values()))[1] >= _MISSING_FOR_S:
            self._asked.popitem(last=False)
        if (known := self._asked.get(key_id)) is not None:
            return known[0], False
        if len(self._asked) >= _MOST_ASKED:
            return None, False
        answer: Future[EllipticCurvePublicKey | None] = Future()
        self._asked[key_id] = answer, now
        return answer, True

    def _ask(self, key_id: str, answer: Future[EllipticCurvePublicKey | None]) -> None:
        key = None
        try:
            key = self._read(key_id)
        finally:
            with self._lock:
                if key is not None:
                    self._found[key_id] = key
                while len(self._found) > _MOST_KEYS:
                    self._found.popitem(last=False)
            answer.set_result(key)

    def _read(self, key_id: str) -> EllipticCurvePublicKey | None:
        try:
            text = self._fetch(self._address.format(key_id=key_id))
        except (OSError, HTTPException) as error:
            told = legible(str(error) or type(error).__name__, _LONGEST_FAULT)
            _log.warning("the load balancer's public key %s can't be read: %s", key_id, told)
            return None
        if (key := _key_of(text)) is None:
            _log.warning("the load balancer's public key %s is not one of P-256", key_id)
        return key


def _key_of(text: bytes) -> EllipticCurvePublicKey | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm):
        return None
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    return None


def _is_signed(key: EllipticCurvePublicKey, text: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256

    if len(signature) != 2 * _HALF:
        return False
    r, s = (int.from_bytes(part) for part in (signature[:_HALF], signature[_HALF:]))
    try:
        key.verify(encode_dss_signature(r, s), text, ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return True


def _name_in(claims: Mapping[str, Any]) -> str | None:
    """Return the name of the person that claims are about; None if they name nobody."""
    # Some providers, and Cognito, send booleans as texts.
    is_refuted = claims.get("email_verified") in (False, "false")
    names = (None if is_refuted else claims.get("email"), claims.get("sub"))
    found = next((each for each in names if isinstance(each, str) and each.strip()), None)
    return None if found is None else legible(found, LONGEST_ACTOR)


def _signed_out(request: Request) -> Response:
    response = render(request, "signed_out.html", title="Signed out")
    for name in SESSION_COOKIES:
        response.delete_cookie(name, secure=True, httponly=True)
    return response


def _object(part: str) -> dict[str, Any] | None:
    """Return the JSON object of a part of the token; None if it has none."""
    try:
        found = json.loads(_decoded(part))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _decoded(part: str) -> bytes:
    """Return the bytes of a part of the token, padded or not; empty if it is not base64."""
    try:
        bare = part.rstrip("=").encode("ascii")
        return base64.b64decode(bare + b"=" * (-len(bare) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return b""


def _fetched(url: str) -> bytes:
    with urlopen(url, timeout=_PATIENCE_S) as answer:  # noqa: S310 - an https address of AWS's
        content: bytes = answer.read(_LARGEST_KEY)
    return content


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401 - is it there?
    except ImportError as error:
        raise LibraryMissing(
            "checking signatures of load balancers", "cryptography", "headgate[console,encryption]"
        ) from error
