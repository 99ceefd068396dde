from __future__ import annotations

import pytest

from headgate.jobs.core.settings import Settings
from headgate.jobs.errors import SettingsInvalid


def test_the_variables_are_read_when_asked_and_empty_ones_count_as_absent() -> None:
    assert Settings.from_env({}) == Settings(app=None, stage=None)
    found = Settings.from_env({"HEADGATE_APP": "shop.app:app", "HEADGATE_STAGE": "", "PATH": "/"})
    assert found == Settings(app="shop.app:app", stage=None)


def test_this_process_s_own_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_STAGE", "prod")
    assert Settings.from_env().stage == "prod"


@pytest.mark.parametrize(
    ("variable", "answer"),
    [
        ("HEADGATE_STAGES", "did you mean 'HEADGATE_STAGE'"),
        ("HEADGATE_APPS", "did you mean 'HEADGATE_APP'"),
        ("HEADGATE_STOP_TIMEOUT_S", "did you mean 'HEADGATE_STOP_TIMEOUT'"),
    ],
)
def test_a_variable_that_is_misspelt_is_refused(variable: str, answer: str) -> None:
    with pytest.raises(SettingsInvalid, match=answer):
        Settings.from_env({variable: "x"})


@pytest.mark.parametrize(
    "variable", ["HEADGATE_PORT", "HEADGATE_SERVICE_HOST", "HEADGATE_", "HEADGATE_SUPERVISOR"]
)
def test_a_variable_of_somebody_elses_is_left_alone(variable: str) -> None:
    assert Settings.from_env({variable: "x", "HEADGATE_APP": "shop:app"}).app == "shop:app"


def test_endpoints_without_tls_are_allowed_by_one_word() -> None:
    assert not Settings.from_env({}).allow_http
    assert Settings.from_env({"HEADGATE_ALLOW_HTTP": "1"}).allow_http


def test_the_sdk_makes_every_call_by_one_word() -> None:
    assert not Settings.from_env({}).sdk_calls
    assert Settings.from_env({"HEADGATE_SDK_CALLS": "1"}).sdk_calls


def test_the_account_is_read_as_its_digits_and_nothing_else() -> None:
    assert Settings.from_env({"HEADGATE_ACCOUNT": "012345678901"}).account == "012345678901"
    with pytest.raises(SettingsInvalid, match="twelve digits, got 'shop'"):
        Settings.from_env({"HEADGATE_ACCOUNT": "shop"})


def test_a_function_s_concurrency_is_a_whole_number_of_at_least_one() -> None:
    assert Settings.from_env({}).concurrency is None
    assert Settings.from_env({"HEADGATE_CONCURRENCY": "25"}).concurrency == 25
    for value, answer in (("0", "at least 1, got 0"), ("many", "a whole number, got 'many'")):
        with pytest.raises(SettingsInvalid, match=f"HEADGATE_CONCURRENCY must be {answer}"):
            Settings.from_env({"HEADGATE_CONCURRENCY": value})


def test_the_stop_timeout_is_read_in_seconds_and_absent_unless_it_is_set() -> None:
    assert Settings.from_env({"HEADGATE_STOP_TIMEOUT": "120"}).stop_timeout_s == 120
    assert Settings.from_env({"HEADGATE_STOP_TIMEOUT": "0.5"}).stop_timeout_s == 0.5
    assert Settings.from_env({"HEADGATE_STOP_TIMEOUT": ""}).stop_timeout_s is None
    assert Settings.from_env({}).stop_timeout_s is None


@pytest.mark.parametrize("value", ["30s", "soon", "0", "-1", "nan", "inf"])
def test_a_stop_timeout_that_is_no_time_is_refused_by_its_name(value: str) -> None:
    with pytest.raises(SettingsInvalid, match="HEADGATE_STOP_TIMEOUT must be a number"):
        Settings.from_env({"HEADGATE_STOP_TIMEOUT": value})
