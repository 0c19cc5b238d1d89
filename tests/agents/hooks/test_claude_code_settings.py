"""Claude Code's settings: installing and uninstalling Assent's hooks changes nothing else."""

import base64
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.agents.hooks.claude_settings import Gate, has_hooks, installed, pinned, read, uninstalled, write
from assent.core.claude_code import TTL_SECONDS
from assent.core.errors import InvalidRequest
from assent.sdk.connection import DEFAULT_URL
from tests.cli.commands import here, here_json

FOREIGN = {"type": "command", "command": "echo", "args": ["hook", "claude"], "timeout": 5}
OTHERS = {
    "model": "opus",
    "permissions": {"allow": ["Bash(ls:*)"], "deny": []},
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [FOREIGN, {"type": "http", "url": "https://example.test/hooks"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "say 'assent hook claude is done'"}]}],
    },
    "env": {"Ä": "\u2028", "n": 1.5},
}
GATES = [
    Gate(),
    Gate(defer=True, ttl=60, matcher="mcp__.*", options=[("editable", "version"), ("tag", "a b")]),
    Gate(url="https://assent.example/", options=[("agent-id", "claude"), ("editable", "command")]),
    Gate(program="/opt/assent/bin/assent"),
    Gate(program="/opt/python", before=["-I", "-m", "assent"], pins=[("url", "https://assent.example")]),
]
OWN = Gate(program=sys.executable, before=["-I", "-m", "assent"])
PINS = [("url", DEFAULT_URL), ("token-env", "ASSENT_TOKEN")]
WORDS = st.text(max_size=3)
any_json = st.recursive(
    st.none() | st.booleans() | st.text(max_size=3),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(WORDS, inner, min_size=1, max_size=3),
    max_leaves=4,
)
EVENTS = st.sampled_from(["PreToolUse", "PermissionRequest", "Stop"])
a_hook = st.just(FOREIGN) | st.fixed_dictionaries({"type": WORDS, "command": WORDS}) | any_json
a_group = st.fixed_dictionaries({"matcher": WORDS, "hooks": st.lists(a_hook, max_size=3)}) | any_json
some_settings = st.dictionaries(WORDS, any_json, max_size=3) | st.fixed_dictionaries(
    {
        "hooks": st.dictionaries(EVENTS, st.lists(a_group, min_size=1, max_size=3), min_size=1, max_size=3),
        "other": any_json,
    }
)


@pytest.mark.parametrize("gate", GATES)
def test_an_installed_hook_blocks_on_failure_and_outlasts_the_ttl(gate: Gate) -> None:
    for groups in installed({}, gate)["hooks"].values():
        (hook,) = groups[0]["hooks"]
        assert hook["onFailure"] == "block"
        assert hook["timeout"] > gate.ttl


@pytest.mark.parametrize("gate", GATES)
def test_installing_the_hook_is_idempotent(gate: Gate) -> None:
    once = installed(OTHERS, gate)
    assert installed(once, gate) == once
    assert installed(installed(OTHERS, GATES[0]), gate) == once


@given(gate=st.sampled_from(GATES), settings=some_settings)
def test_uninstalling_restores_the_previous_settings(gate: Gate, settings: dict[str, Any]) -> None:
    put_in = installed(settings, gate)
    assert has_hooks(put_in)
    assert json.dumps(uninstalled(put_in)) == json.dumps(settings)
    assert uninstalled(settings) == settings


def test_uninstalling_keeps_other_hooks_in_the_same_group() -> None:
    group = {"matcher": "*", "hooks": [FOREIGN, Gate().hook], "note": 1}
    left = uninstalled({"hooks": {"PreToolUse": [group, {"matcher": "x", "hooks": []}]}})
    assert left == {
        "hooks": {"PreToolUse": [{"matcher": "*", "hooks": [FOREIGN], "note": 1}, {"matcher": "x", "hooks": []}]}
    }


@pytest.mark.parametrize("hooks", [[], "no", {"PreToolUse": {}}, {"PreToolUse": None}])
def test_settings_with_malformed_hooks_are_rejected(hooks: Any) -> None:
    with pytest.raises(InvalidRequest):
        installed({"hooks": hooks}, Gate())


@pytest.mark.parametrize(
    "text", ["{", '{"a": 1, "a": 2}', "[]", "null", '{"a": NaN}', '{"a": 1e999}', "{} // mine", "\ufeff{}", "[" * 5000]
)
def test_settings_that_cannot_be_rewritten_faithfully_are_not_changed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    for command in ("install", "uninstall"):
        assert here("hook", "claude", command, "--settings", str(path)).exit_code != 0
    assert path.read_text() == text


def test_settings_behind_a_symlink_are_written_atomically(tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.json"
    kept.write_text(json.dumps(OTHERS))
    kept.chmod(0o600)
    link = tmp_path / "settings.json"
    link.symlink_to(kept)
    write(link, installed(read(link), Gate()))
    assert link.is_symlink()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert read(kept) == installed(OTHERS, Gate())
    assert set(tmp_path.iterdir()) == {kept, link}


def test_the_commands_write_to_the_selected_settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    places = {
        ("--user",): tmp_path / "home" / ".claude" / "settings.json",
        ("--local",): Path(".claude/settings.local.json"),
        (): Path(".claude/settings.json"),
        ("--settings", "mine.json"): Path("mine.json"),
    }
    for options, path in places.items():
        told = {"settings": str(path), "installed": True, "changed": True}
        assert here_json("hook", "claude", "install", *options) == told
        start = OWN if options else Gate()
        assert read(path) == installed({}, replace(start, pins=PINS, options=[("agent-id", "claude-code")]))
        written = path.read_bytes()
        assert here_json("hook", "claude", "install", *options) == told | {"changed": False}
        assert path.read_bytes() == written
        assert here_json("hook", "claude", "uninstall", *options) == told | {"installed": False}
        assert read(path) == {}


def test_selecting_two_settings_files_is_rejected(tmp_path: Path) -> None:
    done = here("hook", "claude", "install", "--local", "--settings", str(tmp_path / "x"))
    assert done.exit_code != 0
    assert not (tmp_path / "x").exists()


def test_an_http_hook_refers_to_the_token_by_variable_name() -> None:
    hook = Gate(url="https://assent.example/", ttl=TTL_SECONDS, options=[("agent-id", "me"), ("tag", "a b")]).hook
    assert hook["url"] == f"https://assent.example/api/hooks/claude?ttl={TTL_SECONDS}&agentId=me&tag=a+b"
    assert hook["headers"] == {"Authorization": "Bearer $ASSENT_TOKEN"}
    assert hook["allowedEnvVars"] == ["ASSENT_TOKEN"]


def test_reinstalling_pins_the_server_url_in_an_older_installation(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    write(path, installed(OTHERS, Gate()))
    address = "http://127.0.0.1:9"
    here_json("hook", "claude", "install", "--settings", str(path), "--program", "/opt/assent", ASSENT_URL=address)
    assert pinned(read(path), "url") == [address]
    assert uninstalled(read(path)) == OTHERS
    here_json("hook", "claude", "install", "--settings", str(path), "--program", "/opt/assent")
    assert pinned(read(path), "url") == [address], "what was pinned stays, unless another address is named"


def test_a_pinned_key_is_kept_while_the_server_is_unreachable(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    key = base64.b64encode(bytes(range(32))).decode()
    given = ["hook", "claude", "install", "--settings", str(path), "--url", "http://127.0.0.1:9"]
    here_json(*given, "--receipt-key", key)
    assert pinned(read(path), "receipt-key") == [key]
    here_json(*given)
    assert pinned(read(path), "receipt-key") == [key]
    here_json(*given, "--no-pin-key")
    assert pinned(read(path), "receipt-key") == []
    assert here(*given, "--receipt-key", "no key").exit_code != 0
    assert here(*given[:-1], "ftp://nowhere").exit_code != 0


def test_install_options_are_passed_on_to_the_hook(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    more = ["--token-file", str(tmp_path / "token"), "--ca-file", str(tmp_path / "ca.pem"), "--proxy", "http://p:3128"]
    here_json("hook", "claude", "install", "--settings", str(path), *more, "--patience", "2", "--remember", "0")
    (hook,) = read(path)["hooks"]["PreToolUse"][0]["hooks"]
    words = hook["args"]
    for name, value in zip(more[::2], more[1::2], strict=True):
        assert words[words.index(name) + 1] == value
    assert words[words.index("--patience") + 1] == "2"
    assert words[words.index("--remember") + 1] == "0"
    assert "--token-env" not in words
