"""The Containerfile and the compose file refer only to existing files, settings and commands."""

import json
import re
import shlex
from typing import Any

import pytest

from assent.kernel.settings import Settings
from tests.cli.commands import here
from tests.deploy.files import DEPLOY, compose, instructions
from tests.docs.pages import DOCS, ROOT

KNOWN = {
    *("FROM", "RUN", "COPY", "ENV", "WORKDIR", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"),
    *("ENTRYPOINT", "CMD"),
}
SERVICES: dict[str, dict[str, Any]] = compose()["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "assent"}
PAGE = (DOCS / "how-to" / "deploy.md").read_text()


def said(word: str) -> list[str]:
    return [rest for instruction, rest in instructions() if instruction == word]


def test_the_containerfile_uses_only_instructions_that_every_engine_supports() -> None:
    assert {word for word, _ in instructions()} <= KNOWN


def test_every_file_copied_into_the_image_exists() -> None:
    for rest in said("COPY"):
        *sources, _ = shlex.split(rest)
        if not sources[0].startswith("--from="):
            assert [each for each in sources if not (ROOT / each).exists()] == []


def test_the_container_does_not_run_as_root() -> None:
    assert said("USER") == ["7373"]
    assert {word for word, _ in list(instructions())[-9:]} >= {"USER", "ENTRYPOINT"}, "and stays so"


def test_packages_are_installed_with_hash_checking() -> None:
    installs = [rest for rest in said("RUN") if "pip install" in rest]
    assert installs
    assert [rest for rest in installs if "--require-hashes" not in rest and "--no-index --no-deps" not in rest] == []


@pytest.mark.parametrize("name", ["Makefile", "deploy/Containerfile", "docs/how-to/deploy.md"])
def test_locked_packages_are_installed_without_dependency_resolution(name: str) -> None:
    """For a requirement with extras, some versions of pip choose a newer version than the locked one and then fail."""
    installs = [line for line in (ROOT / name).read_text("utf-8").splitlines() if "install" in line and "-r " in line]
    assert installs
    assert [line for line in installs if "--no-deps --require-hashes" not in line] == []


def test_every_container_starts_an_existing_command() -> None:
    assert [json.loads(each) for each in said("ENTRYPOINT")] == [["assent"]]
    (default,) = (json.loads(each) for each in said("CMD"))
    for command in (default, *(service["command"] for service in OURS.values() if "command" in service)):
        assert here(*command, "--help").exit_code == 0, command


def test_every_configured_setting_exists() -> None:
    given = {name for service in OURS.values() for name in service["environment"]}
    given |= {word.partition("=")[0] for word in said("ENV")[0].split() if word.startswith("ASSENT_")}
    assert {name.removeprefix("ASSENT_").lower() for name in given} <= set(Settings.model_fields)


def test_the_compose_file_defines_two_nodes_a_worker_a_database_and_nginx() -> None:
    assert set(SERVICES) == {"database", "assent-1", "assent-2", "worker", "nginx"}
    assert {name for name, service in OURS.items() if "command" not in service} == {"assent-1", "assent-2"}


def test_nginx_forwards_to_the_port_that_nodes_listen_on() -> None:
    upstream = re.findall(r"^\s+server ([\w-]+):(\d+)", (DEPLOY / "nginx.conf").read_text(), re.MULTILINE)
    assert upstream == [(name, str(Settings().port)) for name in ("assent-1", "assent-2")]


def test_the_nodes_trust_only_nginx_as_a_proxy() -> None:
    address = SERVICES["nginx"]["networks"]["assent"]["ipv4_address"]
    assert {service["environment"]["ASSENT_TRUSTED_PROXIES"] for service in OURS.values()} == {address}


def test_only_nginx_publishes_a_port() -> None:
    assert {name for name, service in SERVICES.items() if "ports" in service} == {"nginx"}


def test_every_mounted_file_exists_or_is_documented() -> None:
    mounted = [volume.split(":")[0] for volume in SERVICES["nginx"]["volumes"]]
    mounted += [secret["file"] for secret in compose()["secrets"].values()]
    for path in mounted:
        name = path.removeprefix("./")
        assert (DEPLOY / name).exists() or name in PAGE, name


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_uses_exactly_its_declared_secrets(name: str) -> None:
    declared = set(compose()["secrets"])
    service = SERVICES[name]
    assert set(service.get("secrets", ())) <= declared
    used = set(re.findall(r"/run/secrets/([\w-]+)", json.dumps(service.get("environment", {}))))
    assert used == set(service.get("secrets", ()))


def test_the_stop_grace_period_exceeds_the_drain_time() -> None:
    assert all(
        float(service["stop_grace_period"].rstrip("s")) > 2 * Settings().drain_seconds for service in OURS.values()
    )
