"""People whom an Application Load Balancer has signed in, and others who say so."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import BadStatusLine
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from headgate.errors import ConfigurationError
from headgate.ops.console.access.load_balancer import (
    HEADER,
    SESSION_COOKIES,
    LoadBalancerAccess,
)
from headgate.ops.console.app import console
from tests.support.console import MARKUP, Browser
from tests.support.journal import GENEROUS_S
from tests.unit.ops.console.conftest import Shop

BALANCERS = "arn:aws:elasticloadbalancing:eu-central-1:111122223333:loadbalancer/app"
OURS = f"{BALANCERS}/console/50dc6c495c0c9188"
KEY_ID = "c2f80c8b-c05c-4068-af14-17299f7896b1"
KEYS = "https://public-keys.auth.elb.eu-central-1.amazonaws.com/"
ADA = {"sub": "u-1", "email": "ada@shop.example", "name": "Ada"}


class Balancer:
    """A load balancer that signs, and the place that has its public keys."""

    def __init__(self, curve: ec.EllipticCurve | None = None) -> None:
        self.key = ec.generate_private_key(curve or ec.SECP256R1())
        self.asked: list[str] = []
        self.fault: Exception | None = None

    def public_key(self, url: str) -> bytes:
        """Return the key as its address answers."""
        self.asked.append(url)
        if self.fault is not None:
            raise self.fault
        return self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def token(self, claims: object, **header: Any) -> str:
        """Return a token as the load balancer sends it: with padding, and signed over it."""
        told = {"typ": "JWT", "alg": "ES256", "kid": KEY_ID, "signer": OURS, **header}
        text = f"{encoded(told)}.{encoded(claims)}"
        r, s = decode_dss_signature(self.key.sign(text.encode(), ec.ECDSA(SHA256())))
        size = (self.key.curve.key_size + 7) // 8
        return f"{text}.{base64.urlsafe_b64encode(r.to_bytes(size) + s.to_bytes(size)).decode()}"


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


@pytest.fixture
def balancer() -> Balancer:
    return Balancer()


@pytest.fixture
def browser(shop: Shop, balancer: Balancer) -> Browser:
    """A browser whose requests come with any header that a test gives them."""
    return behind(OURS, shop, balancer.public_key)


def behind(arn: str, shop: Shop, fetch: Callable[[str], bytes]) -> Browser:
    clock = shop.harness.clock
    access = LoadBalancerAccess(arn, clock, fetch)
    return Browser(console(shop.app, access=access, client=shop.client, clock=clock))


def status(browser: Browser, token: str) -> int:
    return browser.send("GET", "/plan", headers={HEADER: token}).status


def expiry(shop: Shop, seconds: float = 120) -> int:
    return int(shop.harness.clock.now().timestamp() + seconds)


def test_whom_the_load_balancer_has_signed_in_is_let_in_by_name(
    shop: Shop, browser: Browser, balancer: Balancer
) -> None:
    token = balancer.token(ADA, exp=expiry(shop))
    assert "=" in token
    answer = browser.send("GET", "/plan", headers={HEADER: token})
    assert answer.status == 200
    assert ">ada@shop.example<" in answer.text
    assert status(browser, token.replace("=", "")) == 403, "the padding is part of what is signed"


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({**ADA, "email_verified": True}, "ada@shop.example"),
        ({**ADA, "email_verified": "true"}, "ada@shop.example"),
        ({**ADA, "email_verified": False}, "u-1"),
        ({**ADA, "email_verified": "false"}, "u-1"),
        ({"sub": "u-1", "email": 7, "name": "Ada", "preferred_username": "ada"}, "u-1"),
        ({"sub": "u-1", "email": " "}, "u-1"),
        ({"sub": MARKUP}, "&lt;script&gt;"),
        ({"sub": "x" * 500}, "x" * 80),
    ],
)
def test_people_are_named_by_what_they_can_not_choose_themselves(
    shop: Shop, browser: Browser, balancer: Balancer, claims: dict[str, object], name: str
) -> None:
    token = balancer.token(claims, exp=expiry(shop))
    text = browser.send("GET", "/plan", headers={HEADER: token}).text
    assert f">{name}" in text
    assert "<script>alert" not in text
    assert "x" * 101 not in text


def test_the_audit_has_who_signed_in(shop: Shop, browser: Browser, balancer: Balancer) -> None:
    token = balancer.token(ADA, exp=expiry(shop))
    assert browser.post("/queues/payments/pause", {}, **{HEADER: token}).status == 303
    [entry] = shop.client.audit.list().entries
    [pause] = shop.client.pauses.list()
    assert entry.actor == pause.actor == "ada@shop.example"


def test_without_a_signature_nothing_is_done(
    shop: Shop, browser: Browser, balancer: Balancer
) -> None:
    forged = swapped(balancer, expiry(shop))
    assert browser.post("/queues/payments/pause", {}, **{HEADER: forged}).status == 403
    assert shop.client.pauses.list() == []
    assert list(shop.client.audit.list().entries) == []


def test_whoever_signs_out_loses_the_cookies_of_the_load_balancer(
    shop: Shop, browser: Browser, balancer: Balancer
) -> None:
    token = {HEADER: balancer.token(ADA, exp=expiry(shop))}
    assert 'action="/sign-out"' in browser.get("/plan", **token).text
    browser.cookies |= dict.fromkeys(SESSION_COOKIES, "a part")
    assert browser.post("/sign-out", {}).status == 403
    assert browser.get("/sign-out", **token).status == 404
    assert browser.cookies
    answer = browser.post("/sign-out", {}, **token)
    assert answer.status == 200
    assert "Signed out" in answer.text
    assert "ada@shop.example" not in answer.text
    assert browser.cookies == {}


def test_without_the_header_nobody_is_let_in(browser: Browser, balancer: Balancer) -> None:
    assert browser.get("/plan").status == 403
    assert browser.get("/plan", x_amzn_oidc_identity="ada@shop.example").status == 403
    assert browser.get("/static/console.css").status == 200
    assert not balancer.asked


def swapped(ours: Balancer, exp: int) -> str:
    header, _, signature = ours.token(ADA, exp=exp).split(".")
    return f"{header}.{encoded({'sub': 'eve'})}.{signature}"


FORGED: dict[str, Callable[[Balancer, int], str]] = {
    "nothing": lambda _ours, _exp: "",
    "no token": lambda _ours, _exp: "ada@shop.example",
    "too few parts": lambda ours, exp: ours.token(ADA, exp=exp).rpartition(".")[0],
    "unsigned": lambda ours, exp: ours.token(ADA, exp=exp).rpartition(".")[0] + ".",
    "another's key": lambda _ours, exp: Balancer().token(ADA, exp=exp),
    "other claims": lambda ours, exp: ".".join(
        (*ours.token(ADA, exp=exp).split(".")[:1], encoded({"sub": "eve"}), "AAAA")
    ),
    "claims of another token": swapped,
    "an expired one": lambda ours, exp: ours.token(ADA, exp=exp - 300),
    "one without an end": lambda ours, _exp: ours.token(ADA),
    "an end that is no number": lambda ours, exp: ours.token(ADA, exp=str(exp)),
    "an end that is true": lambda ours, _exp: ours.token(ADA, exp=True),
    "an end that is not a number": lambda ours, _exp: ours.token(ADA, exp=float("nan")),
    "another balancer": lambda ours, exp: ours.token(
        ADA, exp=exp, signer=f"{BALANCERS}/eve/50dc6c495c0c9188"
    ),
    "no algorithm": lambda ours, exp: ours.token(ADA, exp=exp, alg="none"),
    "a symmetric one": lambda ours, exp: ours.token(ADA, exp=exp, alg="HS256"),
    "a key elsewhere": lambda ours, exp: ours.token(ADA, exp=exp, kid="../../evil.example/key"),
    "a key that is no text": lambda ours, exp: ours.token(ADA, exp=exp, kid=[KEY_ID]),
    "claims that are a list": lambda ours, exp: ours.token([ADA], exp=exp),
    "nobody": lambda ours, exp: ours.token({"sub": ""}, exp=exp),
    "too long": lambda ours, exp: ours.token({**ADA, "more": "x" * 20_000}, exp=exp),
    "deep": lambda _ours, _exp: base64.urlsafe_b64encode(b"[" * 5_000).decode() + ".e30=.AAAA",
    "not base64": lambda ours, exp: "!" + ours.token(ADA, exp=exp),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_what_the_load_balancer_has_not_signed_lets_nobody_in(
    shop: Shop, browser: Browser, balancer: Balancer, forged: Callable[[Balancer, int], str]
) -> None:
    token = forged(balancer, expiry(shop))
    assert status(browser, token) == 403
    assert all(each == f"{KEYS}{KEY_ID}" for each in balancer.asked)


def test_a_token_ends_when_it_says(shop: Shop, browser: Browser, balancer: Balancer) -> None:
    token = balancer.token(ADA, exp=expiry(shop))
    assert status(browser, token) == 200
    shop.later(200)
    assert status(browser, token) == 403


@pytest.mark.parametrize("fault", [OSError("the network is down"), BadStatusLine("HTTP/0")])
def test_a_key_is_asked_for_once_and_again_a_minute_after_a_failure(
    shop: Shop, browser: Browser, balancer: Balancer, fault: Exception
) -> None:
    balancer.fault = fault
    token = balancer.token(ADA, exp=expiry(shop, 3_600))
    assert [status(browser, token) for _ in range(3)] == [403] * 3
    assert len(balancer.asked) == 1
    balancer.fault = None
    shop.later(60)
    assert [status(browser, token) for _ in range(3)] == [200] * 3
    assert balancer.asked == [f"{KEYS}{KEY_ID}"] * 2


def test_invented_keys_cost_neither_the_known_one_nor_more_than_a_few_requests(
    shop: Shop, browser: Browser, balancer: Balancer, caplog: pytest.LogCaptureFixture
) -> None:
    token = balancer.token(ADA, exp=expiry(shop, 3_600))
    assert status(browser, token) == 200
    balancer.fault = OSError("no such key")
    for number in range(100):
        invented = KEY_ID.replace("c2f80c8b", f"{number:08x}")
        assert status(browser, balancer.token(ADA, exp=expiry(shop), kid=invented)) == 403
    assert len(balancer.asked) == 10
    assert len(caplog.messages) == 9
    assert not any(record.exc_info for record in caplog.records)
    assert status(browser, token) == 200
    balancer.fault = None
    shop.later(60)
    rotated = KEY_ID.replace("c2f80c8b", "c2f80c8c")
    assert status(browser, balancer.token(ADA, exp=expiry(shop), kid=rotated)) == 200


def test_a_known_key_does_not_wait_for_one_that_is_being_read(
    shop: Shop, balancer: Balancer
) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def slow(url: str) -> bytes:
        if url.endswith(KEY_ID):
            return balancer.public_key(url)
        asked.set()
        assert go_on.wait(GENEROUS_S)
        raise OSError("no such key")

    browser, other = behind(OURS, shop, slow), KEY_ID.replace("c2f80c8b", "00000000")
    token = balancer.token(ADA, exp=expiry(shop))
    assert status(browser, token) == 200
    invented = balancer.token(ADA, exp=expiry(shop), kid=other)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(status, browser, invented)
        assert asked.wait(GENEROUS_S)
        assert status(browser, token) == 200
        assert not waiting.done()
        go_on.set()
        assert waiting.result() == 403


def test_a_key_of_another_curve_signs_nothing(shop: Shop) -> None:
    other = Balancer(ec.SECP384R1())
    browser = behind(OURS, shop, other.public_key)
    assert status(browser, other.token(ADA, exp=expiry(shop))) == 403


def test_what_is_not_a_key_signs_nothing(shop: Shop, balancer: Balancer) -> None:
    browser = behind(OURS, shop, lambda _url: b"<html>not found</html>")
    assert status(browser, balancer.token(ADA, exp=expiry(shop))) == 403


def test_the_keys_of_govcloud_are_asked_for_in_its_bucket(shop: Shop, balancer: Balancer) -> None:
    arn = OURS.replace("arn:aws:", "arn:aws-us-gov:").replace("eu-central-1", "us-gov-east-1")
    token = balancer.token(ADA, exp=expiry(shop), signer=arn)
    assert status(behind(arn, shop, balancer.public_key), token) == 200
    bucket = "https://s3-us-gov-east-1.amazonaws.com/aws-elb-public-keys-prod-us-gov-east-1"
    assert balancer.asked == [f"{bucket}/{KEY_ID}"]


def test_the_log_says_why_somebody_was_refused(
    shop: Shop, browser: Browser, balancer: Balancer, caplog: pytest.LogCaptureFixture
) -> None:
    status(browser, balancer.token(ADA, exp=expiry(shop), signer=f"{OURS}\nforged"))
    [line] = caplog.messages
    assert "its signer is" in line
    assert OURS in line
    assert "\n" not in line
    assert "ada" not in line


@pytest.mark.parametrize(
    "arn",
    [
        *("", "console", OURS.replace("/app/", "/net/"), f"{OURS}/listener"),
        OURS.replace("eu-central-1", "evil.example/"),
        OURS.replace("arn:aws:", "arn:aws-cn:"),
    ],
)
def test_the_load_balancer_is_named_by_its_arn(shop: Shop, arn: str) -> None:
    with pytest.raises(ConfigurationError, match="ARN of an Application Load Balancer"):
        LoadBalancerAccess(arn, shop.harness.clock)
