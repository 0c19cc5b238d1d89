"""The Containerfile and the compose file name what there is; no engine is needed to see that."""

import json
import re
import shlex
from typing import Any

import pytest

from assent.settings import Settings
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


def test_the_containerfile_says_only_what_every_engine_understands() -> None:
    assert {word for word, _ in instructions()} <= KNOWN


def test_everything_that_is_copied_exists() -> None:
    for rest in said("COPY"):
        *sources, _ = shlex.split(rest)
        if not sources[0].startswith("--from="):
            assert [each for each in sources if not (ROOT / each).exists()] == []


def test_nothing_runs_as_root() -> None:
    assert said("USER") == ["7373"]
    assert {word for word, _ in list(instructions())[-9:]} >= {"USER", "ENTRYPOINT"}, "and stays so"


def test_everything_is_installed_by_its_hash() -> None:
    installs = [rest for rest in said("RUN") if "pip install" in rest]
    assert installs
    assert [rest for rest in installs if "--require-hashes" not in rest and "--no-index --no-deps" not in rest] == []


def test_what_a_container_starts_is_a_command() -> None:
    assert [json.loads(each) for each in said("ENTRYPOINT")] == [["assent"]]
    (default,) = (json.loads(each) for each in said("CMD"))
    for command in (default, *(service["command"] for service in OURS.values() if "command" in service)):
        assert here(*command, "--help").exit_code == 0, command


def test_every_setting_that_is_given_exists() -> None:
    given = {name for service in OURS.values() for name in service["environment"]}
    given |= {word.partition("=")[0] for word in said("ENV")[0].split() if word.startswith("ASSENT_")}
    assert {name.removeprefix("ASSENT_").lower() for name in given} <= set(Settings.model_fields)


def test_there_are_two_nodes_a_worker_a_database_and_nginx() -> None:
    assert set(SERVICES) == {"database", "assent-1", "assent-2", "worker", "nginx"}
    assert {name for name, service in OURS.items() if "command" not in service} == {"assent-1", "assent-2"}


def test_nginx_asks_the_nodes_where_they_listen() -> None:
    upstream = re.findall(r"^\s+server ([\w-]+):(\d+)", (DEPLOY / "nginx.conf").read_text(), re.MULTILINE)
    assert upstream == [(name, str(Settings().port)) for name in ("assent-1", "assent-2")]


def test_the_nodes_believe_nginx_and_nobody_else() -> None:
    address = SERVICES["nginx"]["networks"]["assent"]["ipv4_address"]
    assert {service["environment"]["ASSENT_TRUSTED_PROXIES"] for service in OURS.values()} == {address}


def test_only_nginx_can_be_reached_from_outside() -> None:
    assert {name for name, service in SERVICES.items() if "ports" in service} == {"nginx"}


def test_what_is_mounted_is_there_or_the_page_tells_how_to_make_it() -> None:
    mounted = [volume.split(":")[0] for volume in SERVICES["nginx"]["volumes"]]
    mounted += [secret["file"] for secret in compose()["secrets"].values()]
    for path in mounted:
        name = path.removeprefix("./")
        assert (DEPLOY / name).exists() or name in PAGE, name


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_uses_secrets_that_are_declared(name: str) -> None:
    declared = set(compose()["secrets"])
    service = SERVICES[name]
    assert set(service.get("secrets", ())) <= declared
    used = set(re.findall(r"/run/secrets/([\w-]+)", json.dumps(service.get("environment", {}))))
    assert used == set(service.get("secrets", ()))


def test_a_container_is_given_longer_than_the_drain_to_stop() -> None:
    assert all(
        float(service["stop_grace_period"].rstrip("s")) > 2 * Settings().drain_seconds for service in OURS.values()
    )
