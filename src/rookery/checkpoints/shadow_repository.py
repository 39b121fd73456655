"""The repository that keeps the checkpoints of one workspace, beside the product's other state.

Git can read it (`git --git-dir=… log -g checkpoints`), but no git is ever run. A checkpoint is
a commit without parents; the log of the one branch lists them all and is the record of which
there are: a checkpoint is made once its line there is on the medium.
What git has no place for stands in the commit's message.
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
from rookery.checkpoints.snapshot_trees import Trees, of_root, reachable, root_of
from rookery.errors import StorageError
from rookery.platform.disk import UNFINISHED, put
from rookery.platform.git_objects import ObjectKind
from rookery.platform.locks import open_lock, try_lock

_NOBODY = "0" * 40
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
_PATIENCE = 0.01

SIGNATURE = "Rookery <rookery@localhost>"


Steps = Sequence[tuple[str, str]]
"""Each from one checkpoint to another."""


class Beside(Struct, frozen=True):
    """What is known beside the files. `hidden` are the protected ones in what is not covered,
    `repositories` every `.git`; None if nobody has looked for them all. `attributes` are notes
    about the owner and the extended attributes of files."""

    hidden: tuple[str, ...] | None = None
    repositories: tuple[str, ...] | None = None
    attributes: tuple[tuple[str, str], ...] = ()


class Snapshot(Struct, frozen=True):
    """A checkpoint as it was stored; `named` if only these files were looked at. `gone` are the
    hidden ones of the checkpoint before that were not found again."""

    id: str
    root: bytes
    trees: Trees
    named: tuple[str, ...] = ()
    beside: Beside = Beside()
    gone: tuple[str, ...] = ()


class ShadowRepository:
    """Everything but the constructor wants the lock to be held."""

    def __init__(self, home: Path, root: Path) -> None:
        self._workspace = root
        self.folder = home / f"{sha256(os.fsencode(root)).hexdigest()[:16]}.git"
        self.store = ObjectStore(self.folder / "objects" / "pack")
        self._log = self.folder / "logs" / _BRANCH

    @classmethod
    def all_in(cls, home: Path) -> Iterator["ShadowRepository"]:
        """Those of all workspaces that have one."""
        for named in sorted(home.glob("*.git/workspace")):
            found = cls(home, Path(os.fsdecode(named.read_bytes().removesuffix(b"\n"))))
            if found.folder == named.parent:
                yield found

    @contextmanager
    def locked(self, pause: Callable[[], None]) -> Iterator[bool]:
        """Alone with the repository, which is made if need be. True if whoever was there before
        did not get to its end. `pause` is called while waiting, and may raise.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = open_lock(self.folder / "lock")
        try:
            while not try_lock(descriptor):
                pause()
                time.sleep(_PATIENCE)
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
            os.ftruncate(descriptor, 0)  # it failed, but in order
            raise
        finally:
            os.close(descriptor)

    def add(
        self,
        trees: Trees,
        title: str,
        *,
        named: Sequence[str],
        beside: Beside,
        gone: Sequence[str],
        skipped: Sequence[str],
    ) -> Snapshot:
        """A new checkpoint, durable when this returns."""
        root, at = root_of(self.store, trees), time.time_ns()
        draft = Snapshot("", root, trees, tuple(named), beside, tuple(gone))
        text = commit_text(draft, title, skipped, at)
        new = self.store.add(ObjectKind.COMMIT, text.encode()).hex()
        self.store.flush()
        faults.kp("checkpoint.stored")
        self._enter(new, at // 1_000_000_000, title)
        faults.kp("checkpoint.entered")
        return replace(draft, id=new)

    def snapshot(self, known: str) -> Snapshot:
        """Raises `StorageError` if there is none, or it is damaged."""
        if len(known) != 40 or not set(known) <= set("0123456789abcdef"):
            raise StorageError(f"There is no checkpoint {known[:60]!r}")
        commit = bytes.fromhex(known)
        if commit not in self.store:
            raise StorageError(f"Checkpoint {known[:12]} was removed")
        text = self.store.read(commit, ObjectKind.COMMIT).decode()
        return snapshot_of(known, text, lambda root: of_root(self.store, root))

    def newest(self) -> Snapshot | None:
        """The newest that can be read; its files may still be damaged."""
        for known in reversed(self.checkpoints()):
            try:
                return self.snapshot(known)
            except StorageError:
                continue
        return None

    def checkpoints(self) -> list[str]:
        """All of them, the oldest first."""
        try:
            lines = self._log.read_text("utf-8", "replace").splitlines(keepends=True)
        except FileNotFoundError:
            return []
        return [line[41:81] for line in lines if _is_whole(line)]

    def made_since(self, moment: float) -> set[str]:
        """Those made at that time or later, in seconds since the epoch."""
        lines = self._log.read_text("utf-8", "replace").splitlines(keepends=True)
        heads = (line.partition("\t")[0].split() for line in lines if _is_whole(line))
        return {words[1] for words in heads if float(words[-2]) >= int(moment)}

    def damaged(self, snapshot: Snapshot) -> list[bytes]:
        """The objects of it that cannot be read as they were stored."""
        found: list[bytes] = []
        try:
            for known, kind in reachable(self.store, snapshot.root, set()):
                try:
                    self.store.read(known, kind)
                except (StorageError, OSError):
                    found.append(known)
        except (StorageError, OSError):
            pass  # the tree that could not be read was the last to be found
        return found

    def begin_restore(self, steps: Steps, before: str) -> None:
        """So that whoever finds these steps half taken back knows how it was before."""
        begun = json.dumps({"steps": steps, "before": before})
        put(self.folder / "restoring", [begun.encode()], durable=False)

    def begun_restore(self, steps: Steps) -> Snapshot | None:
        """How it was before exactly these steps were begun to be taken back, if they were."""
        try:
            begun = json.loads((self.folder / "restoring").read_bytes())
            same = begun["steps"] == [list(step) for step in steps]
            return self.snapshot(begun["before"]) if same else None
        except (OSError, ValueError, LookupError, TypeError, StorageError):
            return None  # then what is there now is where this restore begins

    def drop_all_but(self, kept: Collection[str]) -> None:
        """Forget the other checkpoints, and give their space back."""
        wanted: set[bytes] = set()
        for known in kept:
            wanted.add(bytes.fromhex(known))
            for _ in reachable(self.store, self.snapshot(known).root, wanted):
                pass
        lines = self._log.read_text("utf-8").splitlines(keepends=True)
        left = [line[41:] for line in lines if line[41:81] in kept]
        olds = [_NOBODY, *(line[:40] for line in left)]
        entries = [f"{old} {line}" for old, line in zip(olds, left, strict=False)]
        put(self._log, ["".join(entries).encode()])
        faults.kp("checkpoint.dropped")
        if left:
            self._point_to(olds[-1])
        else:
            for name in (_BRANCH, "stat_index", "restoring"):
                (self.folder / name).unlink(missing_ok=True)
        self.store.keep_only(wanted)

    def _enter(self, new: str, now: int, title: str) -> None:
        old = self._last_entered()
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

    def _last_entered(self) -> str:
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 400))
                last = log.read().decode("utf-8", "replace").splitlines(keepends=True)[-1:]
        except FileNotFoundError:
            return _NOBODY
        return last[0][41:81] if last and _is_whole(last[0]) else _NOBODY

    def _point_to(self, known: str) -> None:
        """For git only; the log is what counts, so this need not be durable."""
        put(self.folder / _BRANCH, [f"{known}\n".encode()], durable=False)

    def _recover(self) -> None:
        """Clear away what a killed process was writing, and cut a torn last line."""
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
    """`at` is in nanoseconds since the epoch."""
    seconds = at // 1_000_000_000
    note = json.dumps(
        {
            "at": at,
            "named": snapshot.named,
            "skipped": skipped,
            "hidden": snapshot.beside.hidden,
            "repositories": snapshot.beside.repositories,
            "gone": snapshot.gone,
            "attributes": dict(snapshot.beside.attributes),
        }
    )
    return (
        f"tree {snapshot.root.hex()}\nauthor {SIGNATURE} {seconds} +0000\n"
        f"committer {SIGNATURE} {seconds} +0000\n\n{title}\n\n{note}\n"
    )


def snapshot_of(id: str, text: str, trees: Callable[[bytes], Trees]) -> Snapshot:
    """What a commit says; older ones say nothing of what is beside the files."""
    head, _, message = text.partition("\n\n")
    root = bytes.fromhex(head.split("\n")[0].removeprefix("tree "))
    note = json.loads(message.split("\n\n")[1])
    beside = Beside(_all(note.get("hidden")), _all(note.get("repositories")), _attributes(note))
    named, gone = tuple(note["named"]), tuple(note.get("gone", ()))
    return Snapshot(id, root, trees(root), named, beside, gone)


def _attributes(note: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Older checkpoints have only access control lists."""
    lists = note.get("access_lists", {}).items()
    before = {path: note_of_access_list(text) for path, text in lists}
    return tuple({**before, **note.get("attributes", {})}.items())


def _all(paths: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if paths is None else tuple(paths)
