"""The receipt commands, with and without a server."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assent.core.receipts import Receipt, key_id, parse, public_key, sign, spelt
from assent.core.timestamps import SECOND
from assent.kernel.settings import Settings
from tests.cli.commands import Desk, here, here_json, run
from tests.core.test_receipts import APPROVAL, SEED
from tests.support.nodes import prepared, server

NOW = round(time.time()) * SECOND
KEY = spelt(public_key(SEED))


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A server whose reviewer is also an admin."""
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
    """A file with a new receipt."""
    target = tmp_path / "receipt.json"
    target.touch(mode=0o666)
    done = call(office, "get", approved(office, payload={"size": 3}), "-o", str(target))
    assert done.exit_code == 0, done.output
    return target


def made(tmp_path: Path, **changes: Any) -> Path:
    """Create a receipt that is signed with a key unknown to any server."""
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


def test_a_saved_receipt_is_valid_and_readable_only_by_its_owner(office: Desk, fetched: Path) -> None:
    done = call(office, "verify", str(fetched))

    assert fetched.stat().st_mode & 0o777 == 0o600
    assert done.exit_code == 0
    assert "The receipt is valid." in done.stdout
    assert "person:owner via api" in done.stdout


def test_a_receipt_can_be_verified_from_standard_input(office: Desk) -> None:
    printed = call(office, "get", approved(office)).stdout
    done = call(office, "verify", "-", "--json", stdin=printed)

    assert done.exit_code == 0
    assert json.loads(done.stdout)["receipt"] == json.loads(printed)


def test_a_receipt_cannot_be_consumed_twice(office: Desk, fetched: Path) -> None:
    first, second = call(office, "verify", str(fetched), "--consume"), call(office, "verify", str(fetched), "--consume")

    assert (first.exit_code, second.exit_code) == (0, 1)
    assert "has now been consumed" in first.stdout
    assert "was used at" in second.stderr
    assert "agent:" in second.stderr


def test_json_output_contains_the_error_code_of_a_used_receipt(office: Desk, fetched: Path) -> None:
    call(office, "verify", str(fetched), "--consume")
    done = call(office, "verify", str(fetched), "--consume", "--json")

    assert done.exit_code == 1
    assert {"valid": False, "code": "receipt_used"}.items() <= json.loads(done.stdout).items()


def test_verification_fails_if_the_content_does_not_match_the_receipt(
    office: Desk, fetched: Path, tmp_path: Path
) -> None:
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


def test_a_receipt_can_be_verified_offline_with_known_keys(office: Desk, fetched: Path, tmp_path: Path) -> None:
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


def test_each_verification_failure_has_a_specific_error_message(tmp_path: Path) -> None:
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


def test_a_receipt_cannot_be_verified_with_an_invalid_key(tmp_path: Path) -> None:
    empty = tmp_path / "keys"
    empty.write_text("")
    broken = tmp_path / "broken"
    broken.write_text('{"items": 1}')
    for option in (("--key", "x"), ("--keys", str(empty)), ("--keys", str(broken))):
        done = here("receipt", "verify", str(made(tmp_path)), *option)
        assert (done.exit_code, done.stdout) == (1, "")


def test_control_characters_in_receipts_are_escaped_in_the_terminal(tmp_path: Path) -> None:
    evil = {"gate": "\x1b[31mred", "agent_id": "a\u202eb", "edits": {"x\x07": "\u2066"}}
    done = here("receipt", "verify", str(made(tmp_path, approval=evil)), "--key", KEY)
    mismatch = here("receipt", "verify", str(made(tmp_path, approval=evil)), "--key", KEY, "--gate", "x")

    assert done.exit_code == 0
    assert "\\x1b[31mred" in done.output
    for text in (done.output, mismatch.output):
        assert not {"\x1b", "\u202e", "\x07", "\u2066"} & set(text)


def test_receipt_keys_can_be_listed_rotated_and_revoked(office: Desk, fetched: Path) -> None:
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


def test_an_unapproved_breakpoint_has_no_receipt(office: Desk, tmp_path: Path) -> None:
    target = tmp_path / "receipt.json"
    done = call(office, "get", office.asked().id, "-o", str(target))

    assert (done.exit_code, done.stdout) == (1, "")
    assert "Only approved breakpoints have a receipt" in done.stderr
    assert not target.exists()


def test_writing_a_receipt_to_a_missing_folder_prints_an_error(office: Desk, tmp_path: Path) -> None:
    done = call(office, "get", approved(office), "-o", str(tmp_path / "nowhere" / "receipt.json"))

    assert done.exit_code == 1
    assert "cannot be written" in done.stderr


def test_an_unreachable_server_results_in_exit_code_13(tmp_path: Path) -> None:
    path = made(tmp_path)
    for more in ((), ("--consume", "--key", KEY)):
        done = run("receipt", "verify", str(path), *more, env={"ASSENT_URL": "http://127.0.0.1:9", "ASSENT_TOKEN": "t"})
        assert done.returncode == 13, done.stderr
