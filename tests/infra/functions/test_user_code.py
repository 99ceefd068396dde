"""The function carries the code of a user's directory, and nothing of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.infra.functions import bundling, pip_install
from headgate.infra.functions.pip_install import Platform
from headgate.infra.functions.user_code import UserCode
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.errors import ConfigurationError

HANDLER = "shop.function.handler"

NOTHING_INSTALLED = Platform(installer=lambda _target, _wanted: ["true"], compiler=None)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in (
        "shop/function.py",
        "shop/rates.csv",
        "tests/test_shop.py",
        ".env",
        ".git/config",
        ".venv/lib/site.py",
        "shop/__pycache__/function.cpython-313.pyc",
        "web/node_modules/left/index.js",
        "cdk.out/asset/big.bin",
        "cdk.json",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path


def names(project: Path) -> list[str]:
    code = UserCode(root=project, handler=HANDLER, owner="the consumer 'x'")
    return [name for name, _ in code.files()]


def group(project: Path) -> ConsumerGroup:
    return ConsumerGroup(name="x", handler=HANDLER, source=str(project))


def test_secrets_tests_caches_and_what_was_built_stay_here(project: Path) -> None:
    for name in ("prod.env", "shop/tests/test_rates.py", "tls/server.key", "store.p12"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("")
    assert names(project) == ["shop/function.py", "shop/rates.csv"]


def test_a_virtual_environment_stays_here_whatever_it_is_called(project: Path) -> None:
    (project / "my-python/lib").mkdir(parents=True)
    (project / "my-python/pyvenv.cfg").write_text("")
    (project / "my-python/lib/site.py").write_text("")
    assert names(project) == ["shop/function.py", "shop/rates.csv"]


def test_a_private_key_stays_here_and_certificates_are_carried(project: Path) -> None:
    (project / "shop/server.pem").write_text("-----BEGIN EC PRIVATE KEY-----\n")
    (project / "shop/authorities.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    assert "shop/authorities.pem" in names(project)
    assert "shop/server.pem" not in names(project)


def test_linked_packages_are_carried_like_any_other(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shared = tmp_path_factory.mktemp("elsewhere") / "shared"
    (shared / "deep").mkdir(parents=True)
    (shared / "deep/money.py").write_text("")
    (project / "shared").symlink_to(shared)
    assert "shared/deep/money.py" in names(project)


def test_a_link_to_nothing_is_refused_by_name(project: Path) -> None:
    (project / "shop/rates.py").symlink_to(project / "gone.py")
    with pytest.raises(ConfigurationError, match=r"shop/rates\.py.* link to nothing"):
        names(project)


def test_links_in_a_circle_are_refused_by_name(project: Path) -> None:
    (project / "shop/all").symlink_to(project)
    with pytest.raises(ConfigurationError, match=r"shop/all.* leads back"):
        names(project)


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_whoever_runs_the_function_can_read_it_and_programs_stay_programs(
    project: Path, tmp_path: Path, umask: int
) -> None:
    program = project / "bin/ffmpeg"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o700)
    (project / "shop/rates.csv").chmod(0o600)
    target = tmp_path / "cdk.out-asset"
    target.mkdir()
    before = os.umask(umask)
    try:
        bundling.consumer_bundle(group(project)).build(target, NOTHING_INSTALLED)
    finally:
        os.umask(before)
    assert _mode(target / "bin/ffmpeg") == 0o755
    assert (
        _mode(target / "shop/rates.csv")
        == _mode(target / "headgate/jobs/definitions/app.py")
        == 0o644
    )
    assert _mode(target / "shop") == _mode(target / "bin") == 0o755


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_making_a_file_executable_changes_the_hash(project: Path) -> None:
    platform = NOTHING_INSTALLED
    before = bundling.consumer_bundle(group(project)).fingerprint(platform)
    (project / "shop/rates.csv").chmod(0o755)
    assert bundling.consumer_bundle(group(project)).fingerprint(platform) != before


def test_what_cdk_writes_and_has_written_elsewhere_stays_here(project: Path) -> None:
    for name in ("now/asset.1/big.py", "before/cdk.out", "before/asset.2/big.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("")
    code = UserCode(root=project, handler=HANDLER, owner="the consumer 'x'", output=project / "now")
    assert not [name for name, _ in code.files() if name.endswith("big.py")]


def test_dockerignore_leaves_out_and_takes_back(project: Path) -> None:
    (project / "shop/tests.txt").write_text("")
    (project / ".dockerignore").write_text("# comment\n\n*.csv\n!cdk.json\n**/*.csv\n!tests\n")
    assert names(project) == [
        "cdk.json",
        "shop/function.py",
        "shop/tests.txt",
        "tests/test_shop.py",
    ]


def test_a_list_of_what_is_taken_works_as_docker_has_it(project: Path) -> None:
    (project / ".dockerignore").write_text("*\n!shop/*.py\n")
    assert names(project) == ["shop/function.py"]


def test_a_handler_that_is_left_out_is_refused(project: Path) -> None:
    (project / ".dockerignore").write_text("shop\n")
    with pytest.raises(ConfigurationError, match=r"dockerignore leaves out .* 'shop\.function\."):
        names(project)


# --- the bundle ----------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", ["shop/function.py", "shop/rates.csv", "requirements.txt"])
def test_a_change_of_anything_that_goes_in_changes_the_hash(project: Path, changed: str) -> None:
    (project / "requirements.txt").write_text("idna\n")
    own = ConsumerGroup(
        name="x",
        handler=HANDLER,
        source=str(project),
        requirements=str(project / "requirements.txt"),
    )
    here = pip_install.for_this_machine()
    before = bundling.consumer_bundle(own).fingerprint(here)
    assert bundling.consumer_bundle(own).fingerprint(here) == before

    (project / changed).write_text("tomli\n")

    assert bundling.consumer_bundle(own).fingerprint(here) != before


def test_what_is_left_out_does_not_count(project: Path) -> None:
    here = pip_install.for_this_machine()
    before = bundling.consumer_bundle(group(project)).fingerprint(here)
    (project / ".env").write_text("PASSWORD=secret\n")
    assert bundling.consumer_bundle(group(project)).fingerprint(here) == before


def test_where_the_project_lies_does_not_count(project: Path) -> None:
    here = pip_install.for_this_machine()
    before = bundling.consumer_bundle(group(project)).fingerprint(here)
    moved = project.rename(project.with_name("elsewhere"))
    assert bundling.consumer_bundle(group(moved)).fingerprint(here) == before


def test_a_package_of_the_users_that_has_our_name_is_refused(project: Path) -> None:
    (project / "headgate").mkdir()
    (project / "headgate" / "mine.py").write_text("")
    with pytest.raises(
        ConfigurationError, match=r"headgate/mine\.py, and 'headgate' is Headgate's"
    ):
        bundling.consumer_bundle(group(project))


def test_our_own_packages_beside_the_users_are_carried_once(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = project / "headgate"
    (ours / "lambdas").mkdir(parents=True)
    (ours / "lambdas" / "consume.py").write_text("")
    monkeypatch.setattr(bundling, "_OURS", ours)
    files = bundling.consumer_bundle(group(project)).files
    assert files["headgate/lambdas/consume.py"] == ours / "lambdas" / "consume.py"


def test_the_running_headgate_replaces_the_one_in_the_requirements(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = tmp_path_factory.mktemp("bundle")
    script = "import os, sys; os.mkdir(sys.argv[1]); open(sys.argv[1] + '/old.py', 'x')"

    def other_version(into: Path, _wanted: object) -> list[str]:
        return [sys.executable, "-c", script, str(into / "headgate")]

    bundling.consumer_bundle(group(project)).build(
        target, Platform(installer=other_version, compiler=None)
    )

    assert (target / "headgate" / "__init__.py").exists()
    assert not (target / "headgate" / "old.py").exists()


def test_bytecode_is_as_good_as_its_source_wherever_the_bundle_lies(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("def where(): raise ValueError\n")
    (tmp_path / "broken.py").write_text("def ")
    pip_install.add_bytecode(sys.executable, tmp_path)
    (tmp_path / "module.py").write_text("not read any more")

    script = f"import sys; sys.path.append({str(tmp_path)!r}); import module; module.where()"
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True)

    assert "ValueError" in done.stderr
    [compiled] = (tmp_path / "__pycache__").iterdir()
    assert b"/var/task/module.py" in compiled.read_bytes()
    assert str(tmp_path).encode() not in compiled.read_bytes()


def test_only_a_python_of_the_runtimes_version_compiles_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pip_install, "_PYTHON", "9.9")
    stand_in = tmp_path / "python9.9"
    stand_in.write_text("#!/bin/sh\nexit 127\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pip_install._python_of_runtime.__wrapped__() is None

    stand_in.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    assert pip_install._python_of_runtime.__wrapped__() == sys.executable
