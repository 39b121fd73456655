"""The repository with the checkpoints of one workspace, stored outside of it.

Git can read it (`git --git-dir=… log -g checkpoints`), but no git is ever run. A checkpoint is a
commit without parents. The reflog of the only branch lists all of them: a checkpoint exists once
its line there is durable. Data that git has no place for is JSON in the commit message.
"""

import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rookery import faults
from rookery.checkpoints.file_versions import note_of_access_list
from rookery.checkpoints.object_store import ObjectStore
from rookery.checkpoints.snapshot_trees import (
    Trees,
    effects_between,
    reachable,
    store_root,
    trees_at,
)
from rookery.core.facts import Effect
from rookery.core.undo_plan import is_folder
from rookery.errors import StorageError
from rookery.platform.disk import UNFINISHED, put
from rookery.platform.git_objects import ObjectKind
from rookery.platform.locks import open_lock, try_lock
from rookery.platform.paths import visible

_NO_COMMIT = "0" * 40
_BRANCH = "refs/heads/checkpoints"
_CONFIGURATION = """\
[core]
\trepositoryformatversion = 0
\tbare = true
\tlogAllRefUpdates = always
\thooksPath = /dev/null
\tfsync = all
\tfsyncMethod = fsync
[gc]
\tauto = 0
\treflogExpire = never
\treflogExpireUnreachable = never
[pack]
\twindow = 0
"""
_ATTRIBUTES = "* -text !filter !ident !working-tree-encoding !diff !merge !eol\n"
_POLL_SECONDS = 0.01
_CACHES = ("stat_index", "git_folders", "protected_folders", "protected_new")

SIGNATURE = "Rookery <rookery@localhost>"


Steps = Sequence[tuple[str, str]]
"""Pairs of checkpoints, from before and after a step."""


class Metadata(Struct, frozen=True):
    """Data of a snapshot besides its files. `hidden` are the protected files in uncovered
    folders, `repositories` the paths of every `.git`; None if not all of them were searched.
    `attributes` are notes on owners and extended attributes, by path."""

    hidden: tuple[str, ...] | None = None
    repositories: tuple[str, ...] | None = None
    attributes: tuple[tuple[str, str], ...] = ()


class Snapshot(Struct, frozen=True):
    """A stored checkpoint. `named` are the files that were looked at, if not all were. `gone`
    are hidden files of the previous checkpoint that no longer exist."""

    id: str
    root: bytes
    trees: Trees
    named: tuple[str, ...] = ()
    metadata: Metadata = Metadata()
    gone: tuple[str, ...] = ()


class ShadowRepository:
    """All methods but the constructor and `locked` require the lock."""

    def __init__(self, home: Path, root: Path) -> None:
        self._workspace = root
        self.folder = home / f"{sha256(os.fsencode(root)).hexdigest()[:16]}.git"
        self.store = ObjectStore(self.folder / "objects" / "pack")
        self._log = self.folder / "logs" / _BRANCH

    @classmethod
    def all_in(cls, home: Path) -> Iterator["ShadowRepository"]:
        """The repositories of all workspaces."""
        for named in sorted(home.glob("*.git/workspace")):
            found = cls(home, Path(os.fsdecode(named.read_bytes().removesuffix(b"\n"))))
            if found.folder == named.parent:
                yield found

    @contextmanager
    def locked(self, pause: Callable[[], None]) -> Iterator[bool]:
        """Hold the lock, and create the repository if needed. Yields True if the previous holder
        crashed. `pause` is called while waiting, and may raise."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = open_lock(self.folder / "lock")
        try:
            while not try_lock(descriptor):
                pause()
                time.sleep(_POLL_SECONDS)
            died = bool(os.pread(descriptor, 1, 0))
            os.pwrite(descriptor, b"busy", 0)
            self._make()
            if died:
                self._recover()
            self.store.refresh()
            yield died
            os.ftruncate(descriptor, 0)
        except Exception:
            self.store.discard()
            os.ftruncate(descriptor, 0)  # an error is not a crash
            raise
        finally:
            os.close(descriptor)

    def add(
        self,
        trees: Trees,
        title: str,
        *,
        named: Sequence[str],
        metadata: Metadata,
        gone: Sequence[str],
        skipped: Sequence[str],
    ) -> Snapshot:
        """Add a checkpoint, durably."""
        root, at = store_root(self.store, trees), time.time_ns()
        draft = Snapshot("", root, trees, tuple(named), metadata, tuple(gone))
        text = commit_text(draft, title, skipped, at)
        new = self.store.add(ObjectKind.COMMIT, text.encode()).hex()
        self.store.flush()
        faults.kp("checkpoint.stored")
        self._append_to_log(new, at // 1_000_000_000, title)
        faults.kp("checkpoint.entered")
        return replace(draft, id=new)

    def snapshot(self, known: str) -> Snapshot:
        """Raises `StorageError` if it does not exist or is damaged."""
        if len(known) != 40 or not set(known) <= set("0123456789abcdef"):
            raise StorageError(f"There is no checkpoint {known[:60]!r}")
        commit = bytes.fromhex(known)
        if commit not in self.store:
            raise StorageError(f"Checkpoint {known[:12]} was removed")
        text = self.store.read(commit, ObjectKind.COMMIT).decode()
        return snapshot_of(known, text, lambda root: trees_at(self.store, root))

    def newest(self) -> Snapshot | None:
        """The newest checkpoint that can be read; its files may still be damaged."""
        for known in reversed(self.checkpoints()):
            try:
                return self.snapshot(known)
            except StorageError:
                continue
        return None

    def checkpoints(self) -> list[str]:
        """Ids of all checkpoints, oldest first."""
        try:
            lines = self._log.read_text("utf-8", "replace").splitlines(keepends=True)
        except FileNotFoundError:
            return []
        return [line[41:81] for line in lines if _is_whole(line)]

    def made_since(self, moment: float) -> set[str]:
        """Ids of the checkpoints made since `moment`, in seconds since the epoch."""
        lines = self._log.read_text("utf-8", "replace").splitlines(keepends=True)
        heads = (line.partition("\t")[0].split() for line in lines if _is_whole(line))
        return {words[1] for words in heads if float(words[-2]) >= int(moment)}

    def damaged(self, snapshot: Snapshot) -> list[bytes]:
        """Ids of the snapshot's objects that are missing or damaged."""
        found: list[bytes] = []
        try:
            for known, kind in reachable(self.store, snapshot.root, set()):
                try:
                    self.store.read(known, kind)
                except (StorageError, OSError):
                    found.append(known)
        except (StorageError, OSError):
            pass  # the unreadable tree is already in the list
        return found

    def begin_restore(self, steps: Steps, before: str) -> None:
        """Record the snapshot from before a restore, in case the restore is killed."""
        unfinished = json.dumps({"steps": steps, "before": before})
        put(self.folder / "restoring", [unfinished.encode()], durable=False)

    def unfinished_restore(self, steps: Steps) -> Snapshot | None:
        """The snapshot from before an unfinished restore of exactly these steps, if any."""
        try:
            unfinished = json.loads((self.folder / "restoring").read_bytes())
            same = unfinished["steps"] == [list(step) for step in steps]
            return self.snapshot(unfinished["before"]) if same else None
        except (OSError, ValueError, LookupError, TypeError, StorageError):
            return None  # the restore starts from the current state

    def drop_all_but(self, kept: Collection[str]) -> None:
        """Delete all other checkpoints and free their space."""
        wanted: set[bytes] = set()
        for known in kept:
            wanted.add(bytes.fromhex(known))
            for _ in reachable(self.store, self.snapshot(known).root, wanted):
                pass
        lines = self._log.read_text("utf-8").splitlines(keepends=True)
        left = [line[41:] for line in lines if line[41:81] in kept]
        olds = [_NO_COMMIT, *(line[:40] for line in left)]
        entries = [f"{old} {line}" for old, line in zip(olds, left, strict=False)]
        put(self._log, ["".join(entries).encode()])
        faults.kp("checkpoint.dropped")
        if left:
            self._point_to(olds[-1])
        else:
            for name in (_BRANCH, *_CACHES, "restoring"):
                (self.folder / name).unlink(missing_ok=True)
        self.store.keep_only(wanted)

    def _append_to_log(self, new: str, now: int, title: str) -> None:
        old = self._last_logged()
        line = f"{old} {new} {SIGNATURE} {now} +0000\t{title}\n"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._log, flags, 0o600)
        try:
            end = os.fstat(descriptor).st_size
            try:
                if os.write(descriptor, line.encode()) != len(line):
                    raise OSError("the checkpoint log cannot be written")
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, end)
                raise
        finally:
            os.close(descriptor)
        self._point_to(new)

    def _last_logged(self) -> str:
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 400))
                last = log.read().decode("utf-8", "replace").splitlines(keepends=True)[-1:]
        except FileNotFoundError:
            return _NO_COMMIT
        return last[0][41:81] if last and _is_whole(last[0]) else _NO_COMMIT

    def _point_to(self, known: str) -> None:
        """Update the branch. Only git reads it, so it need not be durable. It is always as long,
        so it can be written in place."""
        branch = os.open(self.folder / _BRANCH, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(branch, f"{known}\n".encode(), 0)
        finally:
            os.close(branch)

    def _recover(self) -> None:
        """Remove temporary files of a killed process, and a torn last line of the log."""
        self.store.clear_unfinished()
        for pattern in ("tmp_*", f"*{UNFINISHED}"):
            for left in self.folder.rglob(pattern):
                left.unlink(missing_ok=True)
        known = self.checkpoints()
        if self._log.exists():
            data = self._log.read_bytes()
            whole = data[: data.rfind(b"\n") + 1]
            if whole != data:
                put(self._log, [whole])
        if known:
            self._point_to(known[-1])

    def _make(self) -> None:
        for name in ("objects/pack", "objects/info", "refs/heads", "logs/refs/heads", "info"):
            if not os.path.isdir(f"{self.folder}/{name}"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
        head = self.folder / "HEAD"
        if head.exists():
            return
        put(self.folder / "workspace", [os.fsencode(self._workspace) + b"\n"], durable=False)
        put(self.folder / "config", [_CONFIGURATION.encode()], durable=False)
        put(self.folder / "info" / "attributes", [_ATTRIBUTES.encode()], durable=False)
        put(head, [f"ref: {_BRANCH}\n".encode()])


def _is_whole(line: str) -> bool:
    return line.endswith("\n") and len(line) > 81 and line[40] == line[81] == " "


def commit_text(snapshot: Snapshot, title: str, skipped: Sequence[str], at: int) -> str:
    """Text of the commit; `at` is in nanoseconds since the epoch."""
    seconds = at // 1_000_000_000
    note = json.dumps(
        {
            "at": at,
            "named": snapshot.named,
            "skipped": skipped,
            "hidden": snapshot.metadata.hidden,
            "repositories": snapshot.metadata.repositories,
            "gone": snapshot.gone,
            "attributes": dict(snapshot.metadata.attributes),
        }
    )
    return (
        f"tree {snapshot.root.hex()}\nauthor {SIGNATURE} {seconds} +0000\n"
        f"committer {SIGNATURE} {seconds} +0000\n\n{title}\n\n{note}\n"
    )


def snapshot_of(id: str, text: str, trees: Callable[[bytes], Trees]) -> Snapshot:
    """Parse a commit; older ones have no data besides the files."""
    head, _, message = text.partition("\n\n")
    root = bytes.fromhex(head.split("\n")[0].removeprefix("tree "))
    note = json.loads(message.split("\n\n")[1])
    metadata = Metadata(
        _tuple(note.get("hidden")), _tuple(note.get("repositories")), _attributes(note)
    )
    named, gone = tuple(note["named"]), tuple(note.get("gone", ()))
    return Snapshot(id, root, trees(root), named, metadata, gone)


def _attributes(note: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Attribute notes by path; older checkpoints have access control lists only."""
    lists = note.get("access_lists", {}).items()
    before = {path: note_of_access_list(text) for path, text in lists}
    return tuple({**before, **note.get("attributes", {})}.items())


def _tuple(paths: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if paths is None else tuple(paths)


def differences(
    repository: ShadowRepository, before: str, after: str, only: Collection[str] | None = None
) -> list[Effect]:
    """Effects between two checkpoints, folders included; `only` limits them to displayed paths."""
    old, new = repository.snapshot(before), repository.snapshot(after)
    # what was looked at by name and is missing did not exist, even in an uncovered folder
    looked_at = _within({*old.named, *old.gone, *new.named})
    searched = frozenset(() if old.metadata.hidden is None else new.metadata.hidden or ())
    found = effects_between(
        repository.store,
        old.trees,
        new.trees,
        "",
        lambda path: path in searched or looked_at(path),
        _within({*new.named, *new.gone}),
    )
    return [effect for effect in found if only is None or _is_chosen(effect, only)]


def differ(repository: ShadowRepository, before: str, after: str) -> bool:
    """Whether the checkpoints differ in a way that undo can revert, or at least report."""
    made = made_repositories(repository, [(before, after)])
    return bool(differences(repository, before, after)) or any(made)


def made_repositories(repository: ShadowRepository, steps: Steps) -> Iterator[str]:
    """Paths of the repositories that the steps created, except the workspace's own."""
    for before, after in steps:
        was = repository.snapshot(before).metadata.repositories
        now = repository.snapshot(after).metadata.repositories
        if was is not None and now is not None:
            yield from (path for path in now if path not in was and path != ".git")


def displayable(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """The effects with unprintable characters in their paths escaped."""
    return tuple(Effect(visible(e.path), e.before, e.after) for e in effects)


def _is_chosen(effect: Effect, only: Collection[str]) -> bool:
    """Whether the effect is one of these, or restores a folder that one of these needs."""
    path = visible(effect.path)
    needed = is_folder(effect.before) and any(each.startswith(f"{path}/") for each in only)
    return path in only or needed


def _within(named: Collection[str]) -> Callable[[str], bool]:
    """Return a test for paths that were named, or are above or below a named one."""
    tops = set(named)
    above = {parent for path in tops for parent in _parents(path)}
    return lambda path: (
        path in tops or path in above or any(parent in tops for parent in _parents(path))
    )


def _parents(path: str) -> list[str]:
    return [path[:at] for at, character in enumerate(path) if character == "/"]
