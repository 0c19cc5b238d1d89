"""A server that was out of reach is remembered in a file of one user; whatever is wrong with the file, nothing is."""

import os
from pathlib import Path

import pytest

from assent.cli.hook_memory import Memory
from assent.sdk.errors import Unreachable

URL = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "assent"


def written(state: Path) -> Path:
    Memory(URL, 60).remember()
    (file,) = state.iterdir()
    return file


def test_it_is_remembered_for_its_time_and_for_this_server(state: Path) -> None:
    memory = Memory(URL, 60)
    memory.refuse_if_dead()
    file = written(state)
    assert (state.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    with pytest.raises(Unreachable, match="will not retry for another"):
        memory.refuse_if_dead()
    Memory("http://127.0.0.1:10", 60).refuse_if_dead()
    Memory(URL, 0).refuse_if_dead()
    memory.forget()
    memory.refuse_if_dead()


@pytest.mark.parametrize("text", ["", "no number", "nan", "99999999999", "0"])
def test_a_moment_that_cannot_be_or_is_long_ago_is_passed_over(state: Path, text: str) -> None:
    written(state).write_text(text)
    Memory(URL, 60).refuse_if_dead()


def test_a_file_that_others_may_have_written_is_passed_over(state: Path) -> None:
    file = written(state)
    file.chmod(0o666)
    Memory(URL, 60).refuse_if_dead()
    kept = file.rename(state / "kept")
    kept.chmod(0o600)
    file.symlink_to(kept)
    Memory(URL, 60).refuse_if_dead()
    file.unlink()
    os.mkfifo(file)
    Memory(URL, 60).refuse_if_dead()


def test_where_nothing_can_be_written_nothing_is_remembered(state: Path) -> None:
    state.write_text("in the way")
    memory = Memory(URL, 60)
    memory.remember()
    memory.refuse_if_dead()
    memory.forget()
