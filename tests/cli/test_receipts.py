"""Receipts by command: with a server, and without one."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assent.domain.instants import SECOND
from assent.domain.receipts import Receipt, key_id, parse, public_key, sign, spelt
from assent.settings import Settings
from tests.cli.commands import Desk, here, here_json, run
from tests.domain.test_receipts import APPROVAL, SEED
from tests.support.nodes import prepared, server

NOW = round(time.time()) * SECOND
KEY = spelt(public_key(SEED))


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A server whose reviewer is an admin too."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("office") / "data")
    agent, admin = prepared(settings, "agent", "admin")
    with server(settings) as process:
        yield Desk(process.url, settings.data_dir, agent, admin)


def approved(office: Desk, **asking: Any) -> str:
    asked = office.asked(**asking)
    with office.reviewer() as admin:
        return admin.approve(asked.id).id


def call(office: Desk, *arguments: str, stdin: str | None = None, **env: str) -> Any:
    return here("receipt", *arguments, stdin=stdin, ASSENT_URL=office.url, ASSENT_TOKEN=office.agent_token, **env)


def call_json(office: Desk, *arguments: str) -> Any:
    return here_json("receipt", *arguments, ASSENT_URL=office.url, ASSENT_TOKEN=office.agent_token)


@pytest.fixture
def fetched(office: Desk, tmp_path: Path) -> Path:
    """The file of a fresh receipt."""
    target = tmp_path / "receipt.json"
    target.touch(mode=0o666)
    done = call(office, "get", approved(office, payload={"size": 3}), "-o", str(target))
    assert done.exit_code == 0, done.output
    return target


def made(tmp_path: Path, **changes: Any) -> Path:
    """A receipt by a key of our own, which no server knows."""
    fields: dict[str, Any] = {
        "issued_at": NOW - SECOND,
        "expires_at": NOW + 86_400 * SECOND,
        "key_id": key_id(public_key(SEED)),
    }
    approval = replace(APPROVAL, decided_at=NOW - 2 * SECOND, **changes.pop("approval", {}))
    receipt = sign(Receipt(approval=approval, **(fields | changes)), SEED)
    target = tmp_path / "made.json"
    target.write_text(receipt.text())
    return target


def test_a_receipt_is_for_its_owner_only_and_holds(office: Desk, fetched: Path) -> None:
    done = call(office, "verify", str(fetched))

    assert fetched.stat().st_mode & 0o777 == 0o600
    assert done.exit_code == 0
    assert "The receipt is valid." in done.stdout
    assert "person:owner via api" in done.stdout


def test_a_receipt_can_go_through_a_pipe(office: Desk) -> None:
    printed = call(office, "get", approved(office)).stdout
    done = call(office, "verify", "-", "--json", stdin=printed)

    assert done.exit_code == 0
    assert json.loads(done.stdout)["receipt"] == json.loads(printed)


def test_the_second_to_use_it_is_refused(office: Desk, fetched: Path) -> None:
    first, second = call(office, "verify", str(fetched), "--consume"), call(office, "verify", str(fetched), "--consume")

    assert (first.exit_code, second.exit_code) == (0, 1)
    assert "has now been consumed" in first.stdout
    assert "was used at" in second.stderr
    assert "agent:" in second.stderr


def test_a_program_is_told_why_it_does_not_hold(office: Desk, fetched: Path) -> None:
    call(office, "verify", str(fetched), "--consume")
    done = call(office, "verify", str(fetched), "--consume", "--json")

    assert done.exit_code == 1
    assert {"valid": False, "code": "receipt_used"}.items() <= json.loads(done.stdout).items()


def test_what_is_about_to_be_done_is_held_against_it(office: Desk, fetched: Path, tmp_path: Path) -> None:
    body = {"agentId": "tester", "payload": {"question": "Shall I?", "size": 3}}
    same, other = tmp_path / "same.json", tmp_path / "other.json"
    same.write_text(json.dumps(body))
    other.write_text(json.dumps(body | {"payload": {"question": "Shall I?", "size": 4}}))

    good = call(office, "verify", str(fetched), "--content", str(same), "--agent-id", "tester", "--gate", "shall-i")
    bad = call(office, "verify", str(fetched), "--content", str(other), "--consume")

    assert good.exit_code == 0, good.output
    assert bad.exit_code == 1
    assert "is for the digest" in bad.stderr
    assert call(office, "verify", str(fetched), "--consume").exit_code == 0, "the refused one used nothing"


def test_without_a_server_the_keys_are_enough(office: Desk, fetched: Path, tmp_path: Path) -> None:
    listed = call_json(office, "keys")
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(listed))
    public = listed["items"][0]["publicKey"]
    alone = {"ASSENT_URL": "http://127.0.0.1:9"}

    assert here("receipt", "verify", str(fetched), "--key", public, **alone).exit_code == 0
    assert here("receipt", "verify", str(fetched), "--keys", str(keys), **alone).exit_code == 0
    assert here("receipt", "verify", str(fetched), ASSENT_RECEIPT_KEY=public, **alone).exit_code == 0
    assert here("receipt", "verify", str(fetched), "--key", KEY, **alone).exit_code == 1
    keys.write_text(f"{KEY}\n{public}\n")
    assert here("receipt", "verify", str(fetched), "--keys", str(keys), **alone).exit_code == 0


def refusal(path: Path, *more: str) -> str:
    done = here("receipt", "verify", str(path), "--key", KEY, *more)
    assert (done.exit_code, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def test_each_way_not_to_hold_has_its_sentence(tmp_path: Path) -> None:
    good = made(tmp_path)
    assert here("receipt", "verify", str(good), "--key", KEY).exit_code == 0
    text = good.read_text()

    assert "is for the digest" in refusal(good, "--digest", "0" * 64)
    assert "is for the gate" in refusal(good, "--gate", "other")
    good.write_text(text.replace('"size":3', '"size":4'))
    assert "modified" in refusal(good)
    good.write_text(text.replace('"version":1', '"version":2'))
    assert "newer version of Assent" in refusal(good)
    good.write_text("{")
    assert "not a receipt" in refusal(good)
    assert "expired at" in refusal(made(tmp_path, expires_at=NOW - 1))
    other = public_key(b"\x09" * 32)
    assert "is not trusted" in refusal(made(tmp_path, key_id=key_id(other)))
    assert "cannot be read" in refusal(tmp_path / "nowhere.json")


def test_a_key_that_is_none_trusts_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "keys"
    empty.write_text("")
    broken = tmp_path / "broken"
    broken.write_text('{"items": 1}')
    for option in (("--key", "x"), ("--keys", str(empty)), ("--keys", str(broken))):
        done = here("receipt", "verify", str(made(tmp_path)), *option)
        assert (done.exit_code, done.stdout) == (1, "")


def test_untrusted_text_commands_no_terminal(tmp_path: Path) -> None:
    evil = {"gate": "\x1b[31mred", "agent_id": "a\u202eb", "edits": {"x\x07": "\u2066"}}
    done = here("receipt", "verify", str(made(tmp_path, approval=evil)), "--key", KEY)
    mismatch = here("receipt", "verify", str(made(tmp_path, approval=evil)), "--key", KEY, "--gate", "x")

    assert done.exit_code == 0
    assert "\\x1b[31mred" in done.output
    for text in (done.output, mismatch.output):
        assert not {"\x1b", "\u202e", "\x07", "\u2066"} & set(text)


def test_keys_are_listed_rotated_and_revoked(office: Desk, fetched: Path) -> None:
    admin = {"ASSENT_URL": office.url, "ASSENT_TOKEN": office.reviewer_token}
    before = call_json(office, "keys")["items"]
    assert call(office, "rotate-key").exit_code == 1, "an agent may not"
    rotated = here_json("receipt", "rotate-key", **admin)["items"]
    still = call(office, "verify", str(fetched))
    revoked = here_json("receipt", "rotate-key", "--revoke", **admin)["items"]
    gone = call(office, "verify", str(fetched))

    assert [each["state"] for each in rotated[:2]] == ["current", "retired"]
    assert rotated[1]["keyId"] == before[0]["keyId"] == parse(json.loads(fetched.read_text())).key_id
    assert {each["state"] for each in revoked[1:]} == {"revoked"}
    assert (still.exit_code, gone.exit_code) == (0, 1)
    assert "is not trusted" in gone.stderr
    assert call(office, "keys").stdout.splitlines()[1].split("\t")[0] == revoked[0]["publicKey"]
    assert call(office, "keys", "--current").stdout.split() == [revoked[0]["publicKey"]]


def test_what_is_not_approved_has_no_receipt(office: Desk, tmp_path: Path) -> None:
    target = tmp_path / "receipt.json"
    done = call(office, "get", office.asked().id, "-o", str(target))

    assert (done.exit_code, done.stdout) == (1, "")
    assert "Only approved breakpoints have a receipt" in done.stderr
    assert not target.exists()


def test_a_folder_that_is_not_there_is_a_sentence(office: Desk, tmp_path: Path) -> None:
    done = call(office, "get", approved(office), "-o", str(tmp_path / "nowhere" / "receipt.json"))

    assert done.exit_code == 1
    assert "cannot be written" in done.stderr


def test_a_server_that_is_not_there_is_exit_code_13(tmp_path: Path) -> None:
    path = made(tmp_path)
    for more in ((), ("--consume", "--key", KEY)):
        done = run("receipt", "verify", str(path), *more, env={"ASSENT_URL": "http://127.0.0.1:9", "ASSENT_TOKEN": "t"})
        assert done.returncode == 13, done.stderr
