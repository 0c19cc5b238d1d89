"""Detection of read-only SQLite files, and of writes to a file that is being read."""

from pathlib import Path

import pytest

from assent.db.read_only import NotAtRest, at_rest, copied, is_read_only, logs


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "assent.db"
    path.parent.mkdir()
    path.write_bytes(b"rows")
    return path


@pytest.mark.parametrize(("folder", "mode"), [(0o555, 0o644), (0o755, 0o444), (0o555, 0o444)])
def test_a_file_or_folder_without_write_bits_is_read_only(file: Path, folder: int, mode: int) -> None:
    assert not is_read_only(file)
    file.chmod(mode)
    file.parent.chmod(folder)
    found = is_read_only(file)
    file.parent.chmod(0o755)
    assert found


def test_a_missing_file_is_not_read_only(tmp_path: Path) -> None:
    assert not is_read_only(tmp_path / "assent.db")


def test_an_empty_log_contains_no_changes(file: Path) -> None:
    log = file.with_name("assent.db-wal")
    log.touch()
    assert logs(file) == []
    log.write_bytes(b"changes")
    assert logs(file) == [log]


@pytest.mark.parametrize("name", ["assent.db", "assent.db-wal", "assent.db-journal"])
def test_a_write_during_a_read_is_detected(file: Path, name: str) -> None:
    with pytest.raises(NotAtRest, match=r"was modified while it was being read"), at_rest(file):
        file.with_name(name).write_bytes(b"something else")


def test_an_error_during_a_read_is_attributed_to_a_concurrent_write(file: Path) -> None:
    def read() -> None:
        with at_rest(file):
            file.write_bytes(b"something else")
            raise ValueError

    with pytest.raises(NotAtRest):
        read()


def test_an_unchanged_file_is_read_without_an_error(file: Path) -> None:
    with at_rest(file):
        assert file.read_bytes() == b"rows"


def test_a_copy_includes_the_log_has_the_requested_name_and_is_private(file: Path, tmp_path: Path) -> None:
    real = file.rename(file.with_name("of-monday.db"))
    real.with_name("of-monday.db-wal").write_bytes(b"changes")
    link = tmp_path / "assent.db"
    link.symlink_to(real)
    with copied(link) as folder:
        assert {each.name: each.read_bytes() for each in folder.iterdir()} == {
            "assent.db": b"rows",
            "assent.db-wal": b"changes",
        }
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()
