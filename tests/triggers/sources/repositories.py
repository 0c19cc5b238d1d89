"""Real repositories, and a Git that ignores the machine's configuration."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Repository:
    folder: Path

    def git(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        home = self.folder.parent
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _ANN.items()}
        return subprocess.run(
            ["git", "-c", "init.defaultBranch=main", *arguments],
            cwd=self.folder,
            env=kept | who | {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=check,
        )

    def commit(self, message: str, **files: str) -> str:
        """Commit a file for each keyword argument, replacing hyphens in its name with dots; return the hash."""
        for name, content in (files or {"file-txt": message}).items():
            path = self.folder / name.replace("-", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.head()

    def head(self, ref: str = "HEAD") -> str:
        return self.git("rev-parse", ref).stdout.strip()

    @property
    def spool(self) -> Path:
        common = self.git("rev-parse", "--git-common-dir").stdout.strip()
        return self.folder / common / "assent-spool"

    def hook(self, name: str) -> Path:
        return self.folder / self.git("rev-parse", "--git-path", f"hooks/{name}").stdout.strip()


_ANN = {"NAME": "Ann", "EMAIL": "ann@example.com"}


def repository(folder: Path, *, bare: bool = False) -> Repository:
    folder.mkdir(parents=True)
    made = Repository(folder)
    made.git("init", "-q", *(["--bare"] if bare else []))
    return made


def clone(of: Repository, folder: Path) -> Repository:
    of.git("clone", "-q", str(of.folder), str(folder))
    return Repository(folder)
