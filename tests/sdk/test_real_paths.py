"""The hook reports resolved paths, so that a symbolic link cannot hide access to a file that configures gates."""

from pathlib import Path

from assent.sdk.real_paths import real_paths


def test_symlinks_are_resolved_in_paths_and_commands(tmp_path: Path) -> None:
    home = tmp_path.resolve()
    (home / ".claude").mkdir()
    (home / "notes").symlink_to(".claude")
    assert real_paths({"file_path": "notes/settings.json", "content": "x"}, str(home)) == {
        "file_path": str(home / ".claude" / "settings.json")
    }
    assert real_paths({"command": "echo x > notes/settings.json"}, str(home)) == {
        "command": [str(home / ".claude" / "settings.json")]
    }
    assert real_paths({"command": "git status"}, str(home)) == {}
    assert real_paths({"command": "ls"}, str(home / "notes")) == {
        "command": [str(home / ".claude" / "ls")],
        "directory": str(home / ".claude"),
    }


def test_values_that_are_not_paths_are_not_resolved(tmp_path: Path) -> None:
    assert real_paths({"path": "a\x00b"}, str(tmp_path)) == {"path": "a\x00b"}
    assert real_paths({"path": 5}, str(tmp_path)) == {}
