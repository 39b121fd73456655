"""A home and a workspace as one text file, and back.

Paths of the machine are replaced by names when an installation is frozen, and the other way
round when it is thawed. Lines of a journal that hold such a path get their checksum anew, all
others stay as they were written. The keys in these files sign nothing but these files.
"""

import base64
import json
import os
import re
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import crc32

from support.terminal_session import Installed

KEPT = ("home/data/tasks", "home/data/checkpoints", "home/config/governance", "work")
LEFT_OUT = re.compile(r"(^|/)(lock|\.git/.*|.*\.sqlite3?(-\w+)?|\.state/(?!workspace_id).*)$")
"""Files that are recreated when missing, or that describe processes of the machine."""
ROOT, WHERE = "<root>", "<where>"
JOURNAL = "journal.jsonl"
REPOSITORY = "repository"
ADA = {
    f"GIT_{who}_{what}": said
    for who in ("AUTHOR", "COMMITTER")
    for what, said in (
        ("NAME", "Ada"),
        ("EMAIL", "ada@example.org"),
        ("DATE", "2026-02-20T12:00:00Z"),
    )
}


def freeze(rookery: Installed, file: Path) -> None:
    root = rookery.workspace.resolve().parent
    files = {_renamed(path, root): _text(root, path) for path in sorted(_kept(root))}
    frozen: dict[str, Any] = {"files": files}
    if (rookery.workspace / ".git").exists():
        exported = git(rookery.workspace, "fast-export", "--all")
        frozen[REPOSITORY] = exported.splitlines(keepends=True)
    file.write_text(json.dumps(frozen, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def thaw(file: Path, folder: Path) -> Installed:
    rookery = quiet(Installed(folder))
    root = rookery.workspace.resolve().parent
    frozen = json.loads(file.read_text(encoding="utf-8"))
    for name, content in frozen["files"].items():
        path = root / name.replace(WHERE, _where(root))
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(_data(root, path, content))
        path.chmod(0o644 if name.startswith("work/") else 0o600)
    if REPOSITORY in frozen:
        _import(rookery.workspace, "".join(frozen[REPOSITORY]))
    return rookery


def quiet(rookery: Installed) -> Installed:
    """Says nothing about the network of its sandbox, which not every machine can take away."""
    rookery.environ["ROOKERY_SANDBOX_NETWORK"] = "on"
    return rookery


def sessions_of(rookery: Installed) -> list[str]:
    return sorted(path.name for path in (rookery.home / "data" / "tasks").iterdir())


def git(folder: Path, *words: str, given: str = "") -> str:
    environ = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, **ADA}
    done = subprocess.run(
        ["git", *words],
        cwd=folder,
        env=environ,
        input=given,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def _import(workspace: Path, stream: str) -> None:
    git(workspace, "init", "-q", "-b", "main")
    git(workspace, "fast-import", "--quiet", given=stream)
    git(workspace, "reset", "-q")


def _kept(root: Path) -> Iterator[Path]:
    for kept in KEPT:
        for path in (root / kept).rglob("*"):
            if path.is_file() and not LEFT_OUT.search(path.relative_to(root).as_posix()):
                yield path


def _renamed(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix().replace(_where(root), WHERE)


def _where(root: Path) -> str:
    """What a workspace is called among those that are kept in a home."""
    return sha256(os.fsencode(root / "work")).hexdigest()[:16]


def _text(root: Path, path: Path) -> list[str] | str:
    data = path.read_bytes()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()
    lines = text.splitlines(keepends=True) if "\r" not in text else [text]
    return [_replaced(line, str(root), ROOT, path) for line in lines]


def _data(root: Path, path: Path, content: list[str] | str) -> bytes:
    if isinstance(content, str):
        return base64.b64decode(content)
    return "".join(_replaced(line, ROOT, str(root), path) for line in content).encode()


def _replaced(line: str, old: str, new: str, path: Path) -> str:
    if old not in line:
        return line
    line = line.replace(old, new)
    if path.name != JOURNAL:
        return line
    fact = line.rpartition("\t")[0]
    return f"{fact}\t{crc32(fact.encode()):08x}\n"
