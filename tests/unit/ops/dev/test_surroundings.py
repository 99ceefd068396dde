"""The environment of an app under `headgate dev`: a local AWS, and nobody's account."""

from __future__ import annotations

import os

import pytest

from headgate.errors import ConfigurationError
from headgate.ops.dev.surroundings import Surroundings

URL = "http://127.0.0.1:4566"
OWN = {
    "AWS_ACCESS_KEY_ID": "AKIAREAL",
    "AWS_PROFILE": "work",
    "AWS_ENDPOINT_URL_SQS": "https://elsewhere.example",
    "AWS_SESSION_TOKEN": "real",
    "PATH": "/bin",
}


def made(url: str = URL, **environ: str) -> Surroundings:
    return Surroundings(app="shop.app:app", endpoint_url=url, environ=environ)


def test_the_printed_lines_lead_another_terminal_to_the_same_app() -> None:
    assert made().lines == [
        "export AWS_ENDPOINT_URL=http://127.0.0.1:4566",
        "export AWS_ACCESS_KEY_ID=headgate-dev",
        "export AWS_SECRET_ACCESS_KEY=headgate-dev",
        "export AWS_REGION=us-east-1",
        "export AWS_DEFAULT_REGION=us-east-1",
        "export HEADGATE_APP=shop.app:app",
    ]


def test_stage_and_region_are_the_user_s_own() -> None:
    variables = made(HEADGATE_STAGE="ada", AWS_REGION="eu-central-1").variables
    assert (variables["HEADGATE_STAGE"], variables["AWS_REGION"]) == ("ada", "eu-central-1")


def test_variables_that_would_lead_elsewhere_are_unset() -> None:
    assert made(**OWN).lines[0] == "unset AWS_ENDPOINT_URL_SQS AWS_PROFILE AWS_SESSION_TOKEN"


def test_the_app_s_process_sees_no_account_of_the_user_s() -> None:
    environment = made(**OWN).environment()
    assert not {"AWS_PROFILE", "AWS_ENDPOINT_URL_SQS", "AWS_SESSION_TOKEN"} & environment.keys()
    assert environment["AWS_ACCESS_KEY_ID"] == "headgate-dev"
    assert environment["AWS_SHARED_CREDENTIALS_FILE"] == os.devnull
    assert environment["PATH"] == "/bin"


LOCAL = "localhost,127.0.0.1,::1"


@pytest.mark.parametrize(
    ("own", "hosts"),
    [
        ({}, LOCAL),
        ({"NO_PROXY": "intranet"}, f"intranet,{LOCAL}"),
        ({"no_proxy": "intranet, 127.0.0.1"}, "intranet,127.0.0.1,localhost,::1"),
        ({"NO_PROXY": "one", "no_proxy": "two,one"}, f"one,two,{LOCAL}"),
    ],
)
@pytest.mark.parametrize("proxy", ["HTTP_PROXY", "https_proxy", "ALL_PROXY"])
def test_a_proxy_is_not_asked_for_the_local_aws_in_any_terminal(
    proxy: str, own: dict[str, str], hosts: str
) -> None:
    surroundings = made(**{proxy: "http://proxy:3128"}, **own)
    environment = surroundings.environment()
    assert environment["NO_PROXY"] == environment["no_proxy"] == hosts
    assert surroundings.lines[-2:] == [f"export NO_PROXY={hosts}", f"export no_proxy={hosts}"]


def test_without_a_proxy_no_line_is_about_one() -> None:
    assert not [line for line in made(HTTP_PROXY="").lines if "proxy" in line.lower()]


@pytest.mark.parametrize(
    ("url", "allowed"),
    [("http://localstack:4566", "1"), (URL, None), ("https://localstack:4566", None)],
)
def test_an_endpoint_without_tls_in_a_network_of_containers_is_allowed(
    url: str, allowed: str | None
) -> None:
    assert made(url).variables.get("HEADGATE_ALLOW_HTTP") == allowed


@pytest.mark.parametrize(
    "url", ["https://sqs.eu-central-1.amazonaws.com", "localhost:4566", "http://localhost:x", ""]
)
def test_aws_itself_and_what_is_no_url_are_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is AWS itself|is no URL"):
        made(url)


def test_an_applied_environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "work")
    before = dict(os.environ)
    surroundings = Surroundings(app="a:app", endpoint_url=URL, environ=before)
    with surroundings.applied():
        assert "AWS_PROFILE" not in os.environ
        assert os.environ["AWS_ENDPOINT_URL"] == URL
    assert dict(os.environ) == before
