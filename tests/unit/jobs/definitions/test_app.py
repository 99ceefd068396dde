from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, Backoff, Lane, Priority, Queue, Retry, load_app
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.definitions.policies import load_handlers
from headgate.jobs.errors import (
    AppImportError,
    ConfigurationError,
    DuplicateJobType,
    HandlerMissing,
    SettingsInvalid,
    UnknownJobType,
)


class Order(BaseModel):
    id: int = 0


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADGATE_STAGE", raising=False)
    monkeypatch.delenv("HEADGATE_APP", raising=False)


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", "Shop", "my_shop", "-shop", "shop-", "a--b", "1shop", "shop!", "läden", "a" * 129]
)
def test_a_name_that_aws_would_not_take_is_refused_with_the_rule(name: str) -> None:
    declarations: dict[str, Callable[[], object]] = {
        "the app": lambda: App(name),
        "the queue": lambda: App("shop").queue(name),
        "the job type": lambda: App("shop").define(name, Order),
    }
    for kind, declare in declarations.items():
        with pytest.raises(ConfigurationError, match=f"{kind} '.*' must be lower-case letters"):
            declare()


def test_a_stage_that_aws_would_not_take_is_refused_wherever_it_comes_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigurationError, match="the stage 'Prod' must be lower-case"):
        App("shop", stage="Prod")
    monkeypatch.setenv("HEADGATE_STAGE", "pre_prod")
    with pytest.raises(ConfigurationError, match="the stage 'pre_prod' must be lower-case"):
        App("shop")


def test_queue_names_beyond_sqs_80_characters_are_refused_with_the_name() -> None:
    app = App("s" * 40, stage="t" * 30)
    with pytest.raises(ConfigurationError, match=r"'s{40}-t{30}-.*' has \d+ characters; SQS allow"):
        _ = app.topology


def test_the_stage_is_the_argument_else_the_environment_s_else_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert App("shop").stage is None
    monkeypatch.setenv("HEADGATE_STAGE", "prod")
    assert App("shop").stage == "prod"
    assert App("shop", stage="dev").stage == "dev"
    assert App("shop", stage="").stage is None


def test_a_misspelt_variable_stops_the_app_and_names_the_right_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADGATE_STAGGE", "prod")
    with pytest.raises(SettingsInvalid, match="did you mean 'HEADGATE_STAGE'"):
        App("shop")


# --- types ---------------------------------------------------------------------------------------


def test_a_type_inherits_its_queues_policy_and_priority() -> None:
    patient = Retry(max_attempts=9, backoff=Backoff.fixed(60))
    hasty = Retry(max_attempts=1)
    payments = App("shop").queue("payments", retry=patient, priorities=[Priority.CRITICAL])
    taken = payments.define("capture", Order)
    own = payments.define("refund", Order, retry=hasty)
    assert (taken.retry, taken.priority, taken.queue) == (patient, Priority.CRITICAL, "payments")
    assert own.retry == hasty
    assert App("shop").define("send", Order).priority is Priority.NORMAL


def test_two_types_of_one_name_are_refused_with_both_their_queues() -> None:
    app = App("shop")
    app.define("send-email", Order)
    with pytest.raises(
        DuplicateJobType, match="called 'send-email': one is on the queue 'jobs', the other on 'ma"
    ):
        app.queue("mail").define("send-email", Order)


def test_two_types_of_one_name_are_refused_over_include_too_before_and_after() -> None:
    app = App("shop")
    app.define("send-email", Order)
    mail = Queue("mail")
    mail.define("send-email", Order)
    with pytest.raises(DuplicateJobType, match="send-email"):
        app.include(mail)

    late = Queue("late")
    app.include(late)
    with pytest.raises(DuplicateJobType, match="send-email"):
        late.define("send-email", Order)
    late.define("other", Order)  # the refused one has left nothing behind
    assert sorted(app.types) == ["other", "send-email"]


def test_an_included_queue_brings_the_types_it_has_and_those_it_gets() -> None:
    mail = Queue("mail")
    early = mail.define("early", Order)
    app = App("shop")
    app.include(mail)
    late = mail.define("late", Order)
    assert app.find_type("early") is early
    assert app.find_type("late") is late


def test_a_queue_included_in_two_apps_brings_only_its_own_types_to_each() -> None:
    mail = Queue("mail")
    mail.define("send-email", Order)
    first, second = App("first"), App("second")
    first.define("only-first", Order)
    first.include(mail)
    second.include(mail)
    mail.define("late", Order)
    assert sorted(first.types) == ["late", "only-first", "send-email"]
    assert sorted(second.types) == ["late", "send-email"]


@pytest.mark.parametrize("name", ["mail", "jobs"])
def test_two_queues_of_one_name_are_refused(name: str) -> None:
    app = App("shop")
    app.queue("mail")
    with pytest.raises(ConfigurationError, match=f"two queues '{name}'.*'jobs' from the start"):
        app.include(Queue(name))


def test_an_unknown_type_is_answered_with_the_nearest_name() -> None:
    app = App("shop")
    app.define("send-email", Order)
    with pytest.raises(UnknownJobType, match="no job type 'send-mail': did you mean 'send-email'"):
        app.find_type("send-mail")


def test_a_priority_that_the_queue_lacks_is_refused_with_those_it_has() -> None:
    payments = App("shop").queue("payments", priorities=[Priority.CRITICAL, Priority.HIGH])
    with pytest.raises(ConfigurationError, match=r"no priority 'low'.*with critical, high"):
        payments.define("refund", Order, priority=Priority.LOW)
    with pytest.raises(
        ConfigurationError, match=r"'refund' names no priority, .* 'payments' has no 'normal'"
    ):
        payments.define("refund", Order)
    with pytest.raises(ConfigurationError, match="'mail' needs at least one priority"):
        App("shop").queue("mail", priorities=[])
    lane = Lane(visibility=timedelta(minutes=1), start_within=timedelta(0), share=0)
    with pytest.raises(ConfigurationError, match="'mail' has no priority 'low'"):
        App("shop").queue("mail", priorities=[Priority.HIGH], lanes={Priority.LOW: lane})


# --- resources on AWS ----------------------------------------------------------------------------


def test_the_topology_follows_every_later_declaration() -> None:
    app = App("shop")
    assert not app.topology.groups
    app.define("send-email", Order)
    assert set(app.topology.groups) == {"jobs"}
    app.queue("payments").define("capture", Order)
    assert set(app.topology.groups) == {"jobs", "payments"}
    assert app.topology is app.topology


@pytest.mark.parametrize("attempts", [1, 40, 1000])
def test_every_queue_grants_as_many_receives_as_sqs_allows(attempts: int) -> None:
    app = App("shop")
    app.define("stubborn", Order, retry=Retry(max_attempts=attempts))
    assert {spec.max_receive_count for spec in app.topology.queues} == {1000}


# --- handlers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("modules", ["shop.handlers", None, 5])
def test_handlers_that_are_no_list_are_refused(modules: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"handlers=...\) takes a list of modules' names"):
        App("shop", handlers=modules)


def test_handler_modules_are_imported_by_a_worker_and_not_by_a_submitter(
    modules: Path,
) -> None:
    write(
        modules / "contracts_of_shop.py",
        """
        from headgate import App

        app = App("shop", handlers=["handlers_of_shop"])
        send_email = app.define("send-email", dict)
        """,
    )
    write(
        modules / "handlers_of_shop.py",
        """
        from contracts_of_shop import send_email

        @send_email.handler
        def _(payload: dict) -> None: ...
        """,
    )
    app = load_app("contracts_of_shop:app")
    assert "handlers_of_shop" not in sys.modules
    assert not app.find_type("send-email").has_handler
    load_handlers(app)
    assert app.find_type("send-email").has_handler


def test_a_type_that_a_handler_module_declared_is_missing_with_the_reason() -> None:
    app = App("shop", handlers=["shop.handlers"])
    app.define("send-email", Order)
    with pytest.raises(UnknownJobType, match="Only workers import the modules of handlers="):
        app.find_type("import-stock")
    with pytest.raises(UnknownJobType, match=r"did you mean 'send-email'\?$"):
        app.find_type("send-emails")


def test_a_worker_hears_of_the_type_that_no_module_handles() -> None:
    app = App("shop")
    app.define("send-email", Order)
    with pytest.raises(HandlerMissing, match="'send-email' has no handler in this process"):
        load_handlers(app)


def test_a_handler_module_that_does_not_import_is_named_with_who_wants_it() -> None:
    app = App("shop", handlers=["shop_has_no_such_module"])
    with pytest.raises(
        AppImportError, match=r"App\('shop', handlers=.*no module 'shop_has_no_such_module'"
    ):
        load_handlers(app)


def test_a_worker_refuses_an_unreadable_payload_type_at_its_start() -> None:
    class Opaque: ...

    app = App("shop")
    app.job("first", retry=Retry(max_attempts=1))(_takes_anything)
    load_handlers(app)
    opaque = app.define("opaque", Opaque)
    opaque.handler(_takes_anything)
    with pytest.raises(
        ConfigurationError,
        match=r"'opaque': pydantic can't read payloads of .*Opaque.*JobContext, before",
    ):
        load_handlers(app)


class Connection:
    """A thing that JSON can't hold."""


def _returns_a_connection() -> Connection:
    return Connection()


@pytest.mark.parametrize("records", ["full", "outcomes"])
def test_a_worker_refuses_results_that_can_not_be_kept_at_its_start(records: RecordsLevel) -> None:
    app = App("shop", records=records)
    app.job("connect")(_returns_a_connection)
    with pytest.raises(
        ConfigurationError, match=r"'connect': its handler returns .*Connection.* can't write"
    ):
        load_handlers(app)


def test_results_that_nobody_keeps_may_be_anything_unless_a_claim_holds_them() -> None:
    app = App("shop", records="failures")
    app.job("connect")(_returns_a_connection)
    load_handlers(app)
    app.job("connect-once", once=True)(_returns_a_connection)
    with pytest.raises(ConfigurationError, match="'connect-once': its handler returns"):
        load_handlers(app)


def _takes_anything(payload: Any) -> None: ...


# --- app paths -----------------------------------------------------------------------------------


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on the import path; modules imported from it are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in sys.modules.keys() - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def write(path: Path, source: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source))


def test_an_app_path_leads_to_its_app(modules: Path) -> None:
    write(modules / "shop_ok" / "__init__.py", "")
    write(modules / "shop_ok" / "app.py", "from headgate import App\napp = App('shop')\n")
    assert load_app("shop_ok.app:app").name == "shop"


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("web_shop/app.py", "web_shop.app:app"),
        ("./web_shop/app.py:jobs", "web_shop.app:jobs"),
        ("web_shop/", "web_shop:app"),
        ("web-shop/app.py", "shop.app:app"),
        (".app:app", "shop.app:app"),
        ("shop.app:app.jobs", "shop.app:app"),
    ],
)
def test_a_file_in_place_of_a_module_is_answered_with_the_module(path: str, written: str) -> None:
    with pytest.raises(AppImportError) as raised:
        load_app(path)
    assert str(raised.value).endswith(f"write module:attribute, as in {written}")


@pytest.mark.parametrize("path", ["shop.app", "shop.app:", ":app", "", ":"])
def test_a_malformed_app_path_is_answered_with_its_form(path: str) -> None:
    with pytest.raises(
        AppImportError, match=f"'{path}' is not an app path: write module:attribute"
    ):
        load_app(path)


@pytest.mark.parametrize(
    ("path", "missing"), [("shop_none:app", "shop_none"), ("shop_none.app:app", "shop_none")]
)
def test_an_app_path_without_its_module_names_the_missing_part(path: str, missing: str) -> None:
    with pytest.raises(AppImportError, match=f"path '{path}': there is no module '{missing}'"):
        load_app(path)


def test_an_app_path_whose_package_lacks_the_module_names_the_module(modules: Path) -> None:
    write(modules / "shop_half" / "__init__.py", "")
    with pytest.raises(AppImportError, match=r"there is no module 'shop_half\.app'"):
        load_app("shop_half.app:app")


def test_a_missing_import_within_the_module_is_told_from_a_missing_module(modules: Path) -> None:
    write(modules / "shop_needy.py", "import a_package_that_nobody_has\n")
    with pytest.raises(
        AppImportError,
        match="'shop_needy' was found, but it imports 'a_package_that_nobody_has', which is not in",
    ):
        load_app("shop_needy:app")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("1 / 0", "raised ZeroDivisionError: division by zero"),
        ("def", "raised SyntaxError: invalid syntax"),
        ("from headgate import Nope", "raised ImportError: cannot import name 'Nope'"),
        ("import sys\nsys.exit(3)", "raised SystemExit: 3"),
    ],
)
def test_a_module_that_raises_is_quoted(modules: Path, source: str, said: str) -> None:
    write(modules / "shop_broken.py", source)
    with pytest.raises(AppImportError, match=f"importing the module 'shop_broken' {said}"):
        load_app("shop_broken:app")


def test_a_wrong_schedule_names_its_line_and_none_of_generated_code(modules: Path) -> None:
    write(modules / "shop_cron.py", "from headgate import cron\n\nnightly = cron('0 2 * * *')\n")
    with pytest.raises(ConfigurationError) as raised:
        load_app("shop_cron:app")
    [note] = raised.value.__notes__
    assert note.endswith("shop_cron.py, line 3: nightly = cron('0 2 * * *'))")


def test_an_unknown_option_of_an_app_is_answered_with_all_that_it_has() -> None:
    with pytest.raises(ConfigurationError) as raised:
        App("shop", retries=3)  # type: ignore[call-arg]
    said = str(raised.value)
    assert said.startswith("the app 'shop' has no option 'retries': ")
    for option in ("default_queue", "handlers", "rate_limit", "records", "stage", "timeout"):
        assert f" {option}" in said


def test_an_import_that_fails_names_the_last_line_of_the_user_s_own_code(modules: Path) -> None:
    write(modules / "shop_models.py", "import json\n\njson.loads('no')\n")
    write(modules / "shop_deep.py", "import shop_models\n")
    with pytest.raises(AppImportError) as raised:
        load_app("shop_deep:app")
    assert str(raised.value).endswith("shop_models.py, line 3: json.loads('no'))")


def test_a_fault_of_the_app_s_own_declaration_comes_through_as_itself(modules: Path) -> None:
    write(modules / "shop_faulty.py", "from headgate import App\napp = App('Shop')\n")
    with pytest.raises(ConfigurationError, match="the app 'Shop' must be lower-case") as raised:
        load_app("shop_faulty:app")
    assert not isinstance(raised.value, AppImportError)
    [place] = raised.value.__notes__
    assert place.endswith("shop_faulty.py, line 2: app = App('Shop'))")


def test_a_missing_attribute_is_answered_with_the_apps_that_are_there(modules: Path) -> None:
    write(modules / "shop_named.py", "from headgate import App\napplication = App('shop')\n")
    with pytest.raises(AppImportError, match="has no 'applicaton': did you mean 'application'"):
        load_app("shop_named:applicaton")


def test_an_attribute_that_is_no_app_is_named_by_its_type(modules: Path) -> None:
    write(modules / "shop_factory.py", "def app(): ...\n")
    with pytest.raises(AppImportError, match="'shop_factory:app' is a function, not a headgate"):
        load_app("shop_factory:app")


def test_an_attribute_that_is_no_app_is_answered_with_the_one_that_is(modules: Path) -> None:
    write(modules / "shop_web.py", "from headgate import App\napp = 1\njobs = App('shop')\n")
    with pytest.raises(AppImportError, match="is an int, not a headgate App: known are: jobs"):
        load_app("shop_web:app")


def test_a_module_without_an_app_is_told_how_to_have_one(modules: Path) -> None:
    write(modules / "shop_empty.py", "")
    with pytest.raises(AppImportError, match=r"no App by another name: write app = App\(\.\.\.\)"):
        load_app("shop_empty:app")


def test_a_queue_option_on_a_type_is_answered_with_the_right_spelling() -> None:
    options: dict[str, Any] = {"queue": "orders"}
    with pytest.raises(ConfigurationError, match=r'app\.queue\("orders"\).*@orders\.job'):
        App("shop").define("send", dict, **options)


def test_a_cost_that_is_given_to_an_app_or_queue_is_refused_with_its_place() -> None:
    misplaced: dict[str, Any] = {"cost": 3}
    with pytest.raises(ConfigurationError, match=r"write rate_limit=RateLimit\(\.\.\., cost="):
        App("shop", **misplaced)
    with pytest.raises(ConfigurationError, match=r"write rate_limit=RateLimit\(\.\.\., cost="):
        App("shop").queue("mail", **misplaced)
