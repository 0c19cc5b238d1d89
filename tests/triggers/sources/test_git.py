"""Events from a Git repository: merges, successful pushes and received refs, and nothing else."""

import asyncio
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from assent.core.errors import InvalidRequest
from assent.triggers.event import Trust
from assent.triggers.ports import Watcher
from assent.triggers.sources import git_hooks, git_spool
from assent.triggers.sources.registry import KINDS, Way
from tests.triggers.sources.desks import PlainDesk, tools, watched
from tests.triggers.sources.repositories import Repository, clone, repository

NAMES = pytest.mark.parametrize("folder", ["work", 'it\'s a "work" $HOME folder'])


def source(repo: Repository, **settings: Any) -> Watcher:
    made = KINDS["git"].make({"path": str(repo.folder)} | settings, tools())
    return cast("Watcher", made)


@dataclass
class Pair:
    """A working repository with hooks, its remote, and a colleague's clone."""

    work: Repository
    remote: Repository
    colleague: Repository
    desk: PlainDesk

    async def drained(self, repo: Repository | None = None) -> list[dict[str, Any]]:
        """Watch until the spool has been read once, and return the reported events."""
        async with watched(source(repo or self.work), self.desk):
            pass
        found: list[dict[str, Any]] = []
        while not self.desk.told.empty():
            arrived = self.desk.told.get_nowait()
            found.append({"type": arrived.type, "subject": arrived.subject, "mark": arrived.mark, **arrived.view})
        return found


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return _pair(tmp_path, "work")


def _pair(tmp_path: Path, name: str) -> Pair:
    remote = repository(tmp_path / "remote.git", bare=True)
    work = repository(tmp_path / name)
    work.commit("first", **{"a-txt": "a"})
    work.git("remote", "add", "origin", str(remote.folder))
    work.git("push", "-q", "origin", "main")
    colleague = clone(remote, tmp_path / "colleague")
    git_hooks.install(work.folder)
    return Pair(work, remote, colleague, PlainDesk())


async def test_a_merge_is_reported_with_its_changes(pair: Pair) -> None:
    before = pair.work.head()
    pair.work.git("checkout", "-q", "-b", "topic")
    pair.work.commit("A topic", **{"b-txt": "b", "dir/c-txt": "c"})
    pair.work.git("checkout", "-q", "main")
    pair.work.git("merge", "-q", "--no-ff", "-m", "Merge the topic", "topic")
    assert await pair.drained() == [
        {
            "type": "git.merged", "subject": "work@main", "mark": None, "repo": "work", "branch": "main",
            "ref": "refs/heads/main", "sha": pair.work.head(), "before": before, "actor": "Ann",
            "title": "Merge the topic", "paths": ["b.txt", "dir/c.txt"],
        }
    ]  # fmt: skip
    assert await pair.drained() == []
    assert git_spool.waiting(pair.work.spool) == []


async def test_a_fast_forward_is_reported_as_a_merge(pair: Pair) -> None:
    before = pair.work.head()
    pair.colleague.commit("Theirs")
    pair.colleague.git("push", "-q", "origin", "main")
    pair.work.git("pull", "-q", "--ff-only", "origin", "main")
    (told,) = await pair.drained()
    assert (told["type"], told["before"], told["sha"]) == ("git.merged", before, pair.work.head())
    assert told["title"] == "Theirs"


@pytest.mark.parametrize("how", [("rebase",), ("pull", "--rebase"), ("rebase", "--rebase-merges")])
async def test_a_rebase_is_not_reported_as_a_merge(pair: Pair, how: tuple[str, ...]) -> None:
    pair.colleague.commit("Theirs", **{"theirs-txt": "x"})
    pair.colleague.git("push", "-q", "origin", "main")
    pair.work.git("checkout", "-q", "-b", "side")
    pair.work.commit("Side", **{"side-txt": "x"})
    pair.work.git("checkout", "-q", "main")
    pair.work.commit("Mine", **{"mine-txt": "x"})
    pair.work.git("merge", "-q", "--no-ff", "-m", "With a side", "side")
    (told,) = await pair.drained()
    assert told["title"] == "With a side"
    pair.work.git("fetch", "-q", "origin")
    pair.work.git(*how, *(["origin", "main"] if how[0] == "pull" else ["origin/main"]))
    assert await pair.drained() == []


async def test_an_uncommitted_squash_is_not_reported_as_a_merge(pair: Pair) -> None:
    pair.work.git("checkout", "-q", "-b", "topic")
    pair.work.commit("A topic")
    pair.work.git("checkout", "-q", "main")
    pair.work.git("merge", "-q", "--squash", "topic")
    assert await pair.drained() == []


async def test_a_successful_push_is_reported(pair: Pair) -> None:
    before = pair.work.head()
    sha = pair.work.commit("Ship it", **{"new-txt": "x"})
    pair.work.git("push", "-q", "origin", "main")
    assert await pair.drained() == [
        {
            "type": "git.pushed", "subject": "work@main", "mark": None, "repo": "work", "branch": "main",
            "ref": "refs/heads/main", "sha": sha, "before": before, "actor": "Ann", "title": "Ship it",
            "paths": ["new.txt"],
        }
    ]  # fmt: skip


async def test_every_branch_of_a_push_is_reported(pair: Pair) -> None:
    pair.work.git("branch", "one")
    pair.work.git("branch", "feature/two")
    pair.work.git("push", "-q", "origin", "one", "feature/two")
    told = await pair.drained()
    assert {each["branch"] for each in told} == {"one", "feature/two"}
    assert all("before" not in each for each in told)


async def test_a_rejected_push_is_not_reported(pair: Pair) -> None:
    pair.colleague.commit("Theirs")
    pair.colleague.git("push", "-q", "origin", "main")
    pair.work.commit("Mine")
    assert pair.work.git("push", "-q", "origin", "main", check=False).returncode != 0
    hook = pair.remote.hook("pre-receive")
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    assert pair.work.git("push", "-q", "--force", "origin", "main", check=False).returncode != 0
    assert await pair.drained() == []


async def test_a_fetch_is_not_reported(pair: Pair) -> None:
    pair.colleague.commit("Theirs")
    pair.colleague.git("push", "-q", "origin", "main", "main:other")
    pair.work.git("fetch", "-q", "origin")
    assert len(git_spool.waiting(pair.work.spool)) == 2
    assert await pair.drained() == []


async def test_a_push_and_a_fetch_of_the_same_commit_are_distinguished(pair: Pair) -> None:
    first = pair.work.head()
    pair.work.commit("Mine")
    pair.work.git("push", "-q", "origin", "main")
    assert len(await pair.drained()) == 1
    second = pair.work.head()
    # Move the remote branch back and forth, so that the commit is fetched this time.
    log = pair.work.folder / ".git" / "logs" / "refs" / "remotes" / "origin" / "main"
    _an_hour_ago(log)
    pair.remote.git("update-ref", "refs/heads/main", first)
    pair.work.git("fetch", "-q", "--force", "origin")
    pair.remote.git("update-ref", "refs/heads/main", second)
    pair.work.git("fetch", "-q", "origin")
    assert await pair.drained() == []


def _an_hour_ago(log: Path) -> None:
    """Set the time of every reflog entry back by one hour."""
    lines: list[str] = []
    for line in log.read_text().splitlines():
        head, _, why = line.partition("\t")
        words = head.split(" ")
        words[-2] = str(int(words[-2]) - 3600)
        lines.append(" ".join(words) + "\t" + why)
    log.write_text("\n".join(lines) + "\n")


async def test_local_commits_and_branches_write_no_records(pair: Pair) -> None:
    pair.work.commit("Mine")
    pair.work.git("branch", "new")
    pair.work.git("tag", "v1")
    pair.work.git("reset", "-q", "--hard", "HEAD~1")
    assert git_spool.waiting(pair.work.spool) == []


async def test_refs_received_by_a_bare_repository_are_reported(pair: Pair) -> None:
    git_hooks.install(pair.remote.folder)
    before = pair.work.head()
    sha = pair.work.commit("Ship it", **{"new-txt": "x"})
    pair.work.git("push", "-q", "origin", "main", "main:refs/heads/topic", "HEAD:refs/tags/v1")
    pair.work.git("push", "-q", "origin", ":topic")
    told = {(each["ref"], each["action"]): each for each in await pair.drained(pair.remote)}
    assert set(told) == {
        ("refs/heads/main", "updated"),
        ("refs/heads/topic", "created"),
        ("refs/tags/v1", "created"),
        ("refs/heads/topic", "deleted"),
    }
    main = told["refs/heads/main", "updated"]
    assert (main["type"], main["subject"], main["repo"]) == ("git.received", "remote@main", "remote")
    assert (main["before"], main["sha"], main["paths"], main["title"]) == (before, sha, ["new.txt"], "Ship it")
    assert "sha" not in told["refs/heads/topic", "deleted"]
    assert "branch" not in told["refs/tags/v1", "created"]


async def test_worktrees_share_the_hooks_and_the_spool(pair: Pair, tmp_path: Path) -> None:
    pair.work.git("worktree", "add", "-q", str(tmp_path / "tree"), "-b", "tree")
    tree = Repository(tmp_path / "tree")
    pair.work.commit("On main")
    tree.git("merge", "-q", "main")
    tree.git("push", "-q", "origin", "tree")
    told = await pair.drained(tree)
    assert [(each["type"], each["branch"], each["subject"]) for each in told] == [
        ("git.merged", "tree", "work@tree"),
        ("git.pushed", "tree", "work@tree"),
    ]


async def test_hooks_can_be_installed_from_a_worktree(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    work.commit("first")
    work.git("worktree", "add", "-q", str(tmp_path / "tree"), "-b", "tree")
    git_hooks.install(tmp_path / "tree")
    assert git_hooks.status(work.folder).complete


@NAMES
async def test_unusual_branch_folder_and_file_names_are_reported_unchanged(tmp_path: Path, folder: str) -> None:
    pair = _pair(tmp_path, folder)
    branch = """it's;"a"$(touch${IFS}pwned)`branch`"""
    pair.work.git("checkout", "-q", "-b", branch)
    pair.work.commit("Odd", **{"with space-txt": "x", 'quo"te-txt': "x", "ünï-txt": "x"})
    pair.work.git("push", "-q", "origin", f"HEAD:refs/heads/{branch}")
    pair.work.git("checkout", "-q", "main")
    pair.work.git("merge", "-q", "--no-ff", "-m", "Merge", branch)
    told = await pair.drained()
    assert [(each["type"], each["branch"], each["repo"]) for each in told] == [
        ("git.pushed", branch, folder),
        ("git.merged", "main", folder),
    ]
    assert told[1]["paths"] == ['quo"te.txt', "with space.txt", "ünï.txt"]
    assert not (pair.work.folder / "pwned").exists()


async def test_events_are_reported_while_the_repository_is_watched(pair: Pair) -> None:
    async with watched(source(pair.work), pair.desk):
        for n in range(3):
            pair.work.commit(f"Number {n}")
            pair.work.git("push", "-q", "origin", "main")
            assert (await pair.desk.next()).view["title"] == f"Number {n}"


async def test_a_spool_record_is_kept_until_its_event_is_stored(pair: Pair) -> None:
    pair.work.commit("Ship it")
    pair.work.git("push", "-q", "origin", "main")
    pair.desk.failing = RuntimeError("the store is down")
    async with watched(source(pair.work), pair.desk) as task:
        with pytest.raises(RuntimeError):
            await task
    assert len(git_spool.waiting(pair.work.spool)) == 1
    assert len(await pair.drained()) == 1


async def test_a_commit_with_a_run_mark_is_attributed_to_that_run(pair: Pair) -> None:
    pair.work.commit("By a run\n\nassent-run:run_0123456789abcdefghijklmnop")
    pair.work.commit("By a person")
    pair.work.git("push", "-q", "origin", "main")
    (told,) = await pair.drained()
    assert told["mark"] == "run_0123456789abcdefghijklmnop"
    pair.work.commit("By a person again")
    pair.work.git("push", "-q", "origin", "main")
    assert [each["mark"] for each in await pair.drained()] == [None]


async def test_only_selected_events_are_reported(pair: Pair) -> None:
    pair.work.git("checkout", "-q", "-b", "topic")
    pair.work.commit("A topic")
    pair.work.git("push", "-q", "origin", "topic")
    pair.work.git("checkout", "-q", "main")
    pair.work.git("merge", "-q", "topic")
    async with watched(source(pair.work, events=["merged"]), pair.desk):
        assert (await pair.desk.next()).type == "git.merged"
    assert pair.desk.told.empty()
    assert git_spool.waiting(pair.work.spool) == []


async def test_events_are_untrusted_unless_configured_as_trusted(pair: Pair) -> None:
    for trust in (Trust.UNTRUSTED, Trust.TRUSTED):
        pair.work.commit(f"{trust}")
        pair.work.git("push", "-q", "origin", "main")
        given = {"trust": "trusted"} if trust is Trust.TRUSTED else {}
        async with watched(source(pair.work, **given), pair.desk):
            arrived = await pair.desk.next()
        assert (arrived.trust, arrived.verified) == (trust, "local")


async def test_a_second_source_for_the_same_repository_is_an_error(pair: Pair) -> None:
    async with watched(source(pair.work), pair.desk):
        with pytest.raises(OSError, match=r"Another source \(src_1\)"):
            await source(pair.work).watch(PlainDesk(source_id="src_2"))


async def test_a_second_node_on_the_machine_waits_until_the_first_stops(pair: Pair) -> None:
    standby = PlainDesk()
    async with watched(source(pair.work), pair.desk):
        waits = asyncio.create_task(source(pair.work).watch(standby))
        pair.work.commit("Ship it")
        pair.work.git("push", "-q", "origin", "main")
        assert (await pair.desk.next()).view["title"] == "Ship it"
        assert not standby.begun.is_set()
    await standby.begun.wait()
    assert standby.told.empty()
    pair.work.commit("Ship more")
    pair.work.git("push", "-q", "origin", "main")
    assert (await standby.next()).view["title"] == "Ship more"
    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)


async def test_spool_files_not_written_by_a_hook_are_quarantined(pair: Pair) -> None:
    zeros = "0" * 40
    bad = {
        "1-1": "",
        "1-2": "rm -rf\n",
        "1-3": "post-merge\n0\n--output=/tmp/x\nrefs/heads/main\n",
        "1-4": f"post-merge\n0\n{'a' * 40}\n--all\n{zeros}\n",
        "1-5": f"post-receive\n{zeros} {'a' * 40} refs/heads/a b\n",
        "1-6": f"post-receive\nHEAD {'a' * 40} refs/heads/a\n",
    }
    for name, content in bad.items():
        (pair.work.spool / name).write_text(content)
    (pair.work.spool / "link").symlink_to("/etc/passwd")
    pair.work.commit("Ship it")
    pair.work.git("push", "-q", "origin", "main")
    assert len(await pair.drained()) == 1
    assert {each.name for each in pair.work.spool.iterdir()} == {".lock", "link", *(f".bad-{name}" for name in bad)}


async def test_a_repository_without_hooks_is_an_error_with_instructions(tmp_path: Path) -> None:
    plain = repository(tmp_path / "plain")
    with pytest.raises(OSError, match="assent hooks install --repo"):
        await source(plain).watch(PlainDesk())
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="Cannot read a Git repository"):
        await source(Repository(tmp_path / "folder")).watch(PlainDesk())
    with pytest.raises(FileNotFoundError, match="Folder not found"):
        await source(Repository(tmp_path / "nowhere")).watch(PlainDesk())


async def test_removing_the_hooks_stops_the_watcher(pair: Pair) -> None:
    async with watched(source(pair.work), pair.desk) as task:
        git_hooks.uninstall(pair.work.folder)
        await task
    with pytest.raises(OSError, match="assent hooks install"):
        await source(pair.work).watch(pair.desk)


def test_the_spool_is_readable_only_by_its_owner(pair: Pair) -> None:
    pair.work.commit("Ship it")
    pair.work.git("push", "-q", "origin", "main")
    assert stat.S_IMODE(pair.work.spool.stat().st_mode) == 0o700
    (record,) = git_spool.waiting(pair.work.spool)
    assert stat.S_IMODE(record.stat().st_mode) == 0o600


@pytest.mark.parametrize("missing", ["assent-spool", "assent-hook"])
def test_missing_hook_files_do_not_disrupt_git(pair: Pair, missing: str) -> None:
    pair.work.git("push", "-q", "origin", "main:other")
    path = pair.work.folder / ".git" / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    pair.work.commit("Ship it")
    assert pair.work.git("push", "-q", "origin", "main").stderr == ""
    pair.work.git("checkout", "-q", "-b", "topic", "HEAD~1")
    assert pair.work.git("merge", "-q", "main").stderr == ""


def test_hooks_can_be_installed_in_reftable_repositories(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    made = subprocess.run(
        ["git", "init", "-q", "--ref-format=reftable", str(folder)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip("this git has no reftable")
    work = Repository(folder)
    work.commit("first")
    assert git_hooks.install(folder).complete


@pytest.mark.parametrize(
    ("settings", "said"),
    [({}, "/settings/path"), ({"path": ".", "events": ["rebased"]}, "merged, pushed, received")],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        KINDS["git"].make(settings, tools())
    assert KINDS["git"].way is Way.WATCH
