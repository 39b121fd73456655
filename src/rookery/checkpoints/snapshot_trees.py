"""Snapshots of folders as git trees.

Git stores no mode bits but "executable", so a snapshot is three trees of the same shape: `files`
has the contents as git would store them; `rights` has the modes of files other than 0644 and
0755, and of folders other than 0755; `uncovered` names what exists but is not stored. Ignored
files have only a name there: changes to them are unknown, and they are never restored or
removed. Files that are too large, and special files, have mode, size and time there, so that a
regular file that was replaced by one can be restored.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from rookery.checkpoints.object_store import ObjectStore
from rookery.core.facts import Effect, FileVersion
from rookery.core.undo_plan import EMPTY_TREE, folder_with, is_unknown
from rookery.errors import StorageError
from rookery.platform.git_objects import ObjectKind

NO_TREE = b""
UNCOVERED = bytes.fromhex("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")
"""The empty blob. In place of a tree, it means that nothing below is covered."""
_TREE_MODE = 0o040000
_LINK_MODE = 0o120000
_SECRET_MODE = 0o160000
"""Git's mode for submodules: here a secret file, whose content is not stored."""
_PLAIN = (0o644, 0o755)
_PLAIN_FOLDER = 0o755
OWN_RIGHTS = ".~rights of this folder"
"""The name of a folder's own mode among those of its files; real files may not have it."""

Listing = dict[str, tuple[int, bytes]]
"""Entries of a tree by name: git's mode and the object id."""


class Trees(NamedTuple):
    files: bytes
    rights: bytes = NO_TREE
    uncovered: bytes = NO_TREE


EMPTY = Trees(bytes.fromhex(EMPTY_TREE))
UNSEEN = Trees(EMPTY.files, NO_TREE, UNCOVERED)
"""A folder that has not been read."""


class Folder:
    """The entries of one folder, editable by name."""

    def __init__(self, store: ObjectStore, trees: Trees | None = None) -> None:
        self._store = store
        self.files: Listing = {}
        self.rights: Listing = {}
        self.uncovered: Listing = {}
        self.blind = False
        if trees:
            self.files = listing(store, trees.files)
            self.rights = listing(store, trees.rights)
            unseen = trees.uncovered == UNCOVERED
            self.uncovered = {} if unseen else listing(store, trees.uncovered)
            self.blind = bool(self.uncovered.pop(OWN_RIGHTS, unseen))

    def put_folder(self, name: str, trees: Trees) -> None:
        self.drop(name)
        self.files[name] = _TREE_MODE, trees.files
        if trees.rights:
            self.rights[name] = _TREE_MODE, trees.rights
        if trees.uncovered:
            is_tree = trees.uncovered != UNCOVERED
            self.uncovered[name] = _TREE_MODE if is_tree else 0o100644, trees.uncovered

    def put_leaf(self, name: str, blob: bytes, mode: int, *, secret: bool = False) -> None:
        """Add a file or a link with its `st_mode`. The content of a `secret` file is not stored."""
        self.drop(name)
        if stat.S_ISLNK(mode):
            self.files[name] = _LINK_MODE, blob
            return
        rights = stat.S_IMODE(mode)
        self.files[name] = 0o100755 if rights & 0o100 else 0o100644, blob
        if secret:
            self.files[name] = _SECRET_MODE, blob
        if secret or rights not in _PLAIN:
            self.rights[name] = 0o100644, self._store.add(ObjectKind.BLOB, b"%04o\n" % rights)

    def put_own_rights(self, mode: int) -> None:
        rights = stat.S_IMODE(mode)
        self.rights.pop(OWN_RIGHTS, None)
        if rights != _PLAIN_FOLDER:
            self.rights[OWN_RIGHTS] = (
                0o100644,
                self._store.add(ObjectKind.BLOB, b"%04o\n" % rights),
            )

    def put_uncovered(self, name: str) -> None:
        self.drop(name)
        self.uncovered[name] = 0o100644, self._store.add(ObjectKind.BLOB, b"")

    def put_unsaved(self, name: str, status: os.stat_result) -> None:
        """Record mode, size and time of a file that cannot be stored, to detect changes."""
        self.drop(name)
        is_file = stat.S_ISREG(status.st_mode)
        signs = (status.st_size, status.st_mtime_ns) if is_file else (0, 0)
        mark = self._store.add(ObjectKind.BLOB, b"%o %d %d\n" % (status.st_mode, *signs))
        self.uncovered[name] = 0o100644, mark

    def drop(self, name: str) -> None:
        self.files.pop(name, None)
        self.rights.pop(name, None)
        self.uncovered.pop(name, None)

    def folder(self, name: str) -> Trees | None:
        mode, files = self.files.get(name, (0, NO_TREE))
        if mode != _TREE_MODE:
            return None
        return Trees(files, self.rights.get(name, (0, NO_TREE))[1], self._uncovered(name))

    def modes(self) -> tuple[bytes, ...]:
        """The ids of the stored modes of the folder and its files."""
        return tuple({known for mode, known in self.rights.values() if mode != _TREE_MODE})

    def version(self, name: str) -> FileVersion | None:
        if name not in self.files:
            return None
        mode, blob = self.files[name]
        _, rights = self.rights.get(name, (0, NO_TREE))
        if mode == _TREE_MODE:
            _, own = listing(self._store, rights).get(OWN_RIGHTS, (0, NO_TREE))
            return folder_with(self._rights(own) if own else _PLAIN_FOLDER)
        return FileVersion(blob.hex(), stat.S_IFREG | self._rights(rights) if rights else mode)

    def unsaved(self, name: str) -> FileVersion | None:
        """The recorded version of a file that is not stored; None if there is none."""
        if not self.is_unsaved(name):
            return None
        _, mark = self.uncovered[name]
        return FileVersion("", int(self._store.read(mark, ObjectKind.BLOB).split()[0], 8))

    def is_unsaved(self, name: str) -> bool:
        mode, mark = self.uncovered.get(name, (_TREE_MODE, NO_TREE))
        return mode != _TREE_MODE and mark != UNCOVERED

    def known(self) -> set[str]:
        """Names that are stored, or recorded as impossible to store."""
        return {*self.files, *filter(self.is_unsaved, self.uncovered)}

    def same(self, name: str, other: "Folder") -> bool:
        """Whether both folders have the same entry, as far as it is covered."""
        mine = (self.files.get(name), self.rights.get(name), self._uncovered(name))
        return mine == (other.files.get(name), other.rights.get(name), other._uncovered(name))

    def covers(self, name: str) -> bool:
        """Whether the snapshot knows the name's state: stored, or missing."""
        return not self.blind and self.uncovered.get(name, (_TREE_MODE,))[0] == _TREE_MODE

    def uncovered_below(self, name: str) -> Trees:
        """Trees for a folder of which the snapshot has no files."""
        if name in self.files or self.is_unsaved(name):
            return EMPTY  # it was not a folder
        return Trees(EMPTY.files, NO_TREE, self._uncovered(name))

    def store(self) -> Trees:
        return Trees(
            self._tree(self.files) or self._store.add(ObjectKind.TREE, b""),
            self._tree(self.rights),
            self._encode_partial() if self.blind else self._tree(self.uncovered),
        )

    def _encode_partial(self) -> bytes:
        """Encode a partly covered folder: an entry `OWN_RIGHTS` marks the rest as uncovered."""
        known = {name: entry for name, entry in self.uncovered.items() if entry[1] != UNCOVERED}
        nothing = self._store.add(ObjectKind.BLOB, b"")
        return self._tree({**known, OWN_RIGHTS: (0o100644, nothing)}) if known else nothing

    def _rights(self, blob: bytes) -> int:
        return int(self._store.read(blob, ObjectKind.BLOB), 8)

    def _uncovered(self, name: str) -> bytes:
        return self.uncovered.get(name, (0, UNCOVERED if self.blind else NO_TREE))[1]

    def _tree(self, entries: Listing) -> bytes:
        return self._store.add(ObjectKind.TREE, encode_tree(entries)) if entries else NO_TREE


def encode_tree(entries: Mapping[str, tuple[int, bytes]]) -> bytes:
    """Encode a tree, sorted like git: folder names compare as if they ended with a slash."""
    rows = [
        (name + b"/" if mode == _TREE_MODE else name, mode, name, known)
        for name, (mode, known) in [(os.fsencode(name), entry) for name, entry in entries.items()]
    ]
    rows.sort()
    return b"".join(b"%o %s\0%s" % (mode, name, known) for _, mode, name, known in rows)


def listing(store: ObjectStore, tree: bytes) -> Listing:
    if not tree or tree == EMPTY.files:
        return {}
    data, at, found = store.read(tree, ObjectKind.TREE), 0, Listing()
    while at < len(data):
        end = data.find(b"\0", at)
        mode, _, name = data[at:end].partition(b" ")
        found[os.fsdecode(name)] = int(mode, 8), data[end + 1 : end + 21]
        at = end + 21
    return found


def leaves(store: ObjectStore, trees: Trees, prefix: str = "") -> Iterator[tuple[str, FileVersion]]:
    """Every file and link, with its path."""
    folder = Folder(store, trees)
    for name in sorted(folder.files):
        inner, version = folder.folder(name), folder.version(name)
        if inner:
            yield from leaves(store, inner, f"{prefix}{name}/")
        elif version:
            yield f"{prefix}{name}", version


def holds_ignored(store: ObjectStore, trees: Trees) -> bool:
    """Whether the folder holds ignored files at any depth; folders not read do not count."""
    folder = Folder(store, trees)
    for name, (mode, known) in folder.uncovered.items():
        if mode != _TREE_MODE:
            if known == UNCOVERED and name not in folder.files:
                return True
        elif holds_ignored(store, folder.folder(name) or folder.uncovered_below(name)):
            return True
    return False


def uncovered_among(store: ObjectStore, trees: Trees, paths: Iterable[str]) -> Iterator[str]:
    """The paths whose state the snapshot does not know."""
    yield from _uncovered_among(store, trees, "", [path.split("/") for path in paths])


def _uncovered_among(
    store: ObjectStore, trees: Trees, prefix: str, ways: Iterable[list[str]]
) -> Iterator[str]:
    folder, below = Folder(store, trees), dict[str, list[list[str]]]()
    for name, *rest in ways:
        below.setdefault(name, []).append(rest)
    for name, rests in below.items():
        inner = folder.folder(name)
        if not folder.covers(name):
            yield from ("/".join([prefix + name, *rest]) for rest in rests)
        elif inner:
            yield from _uncovered_among(store, inner, f"{prefix}{name}/", filter(None, rests))


def reachable(
    store: ObjectStore, tree: bytes, seen: set[bytes]
) -> Iterator[tuple[bytes, ObjectKind]]:
    """Ids of the tree and everything below it that is not in `seen`; adds them to `seen`."""
    waiting = [(tree, ObjectKind.TREE)]
    while waiting:
        known, kind = waiting.pop()
        if known in seen:
            continue
        seen.add(known)
        yield known, kind
        if kind is ObjectKind.TREE:
            below = listing(store, known).values()
            waiting += [
                (i, ObjectKind.TREE if mode == _TREE_MODE else ObjectKind.BLOB)
                for mode, i in below
                if mode != _SECRET_MODE
            ]


def trees_at(store: ObjectStore, root: bytes) -> Trees:
    found = listing(store, root)
    if "files" not in found:
        raise StorageError("A checkpoint is empty")
    return Trees(*(found.get(name, (0, NO_TREE))[1] for name in Trees._fields))


def store_root(store: ObjectStore, trees: Trees) -> bytes:
    entries = {
        name: (_TREE_MODE if known != UNCOVERED else 0o100644, known)
        for name, known in trees._asdict().items()
        if known
    }
    return store.add(ObjectKind.TREE, encode_tree(entries))


def effects_between(
    store: ObjectStore,
    before: Trees,
    after: Trees,
    prefix: str,
    sure_before: Callable[[str], bool],
    sure_after: Callable[[str], bool],
) -> Iterator[Effect]:
    """Effects between two trees. The tests say of a missing path that it did not exist."""
    old, new = Folder(store, before), Folder(store, after)
    for name in sorted({*old.files, *new.files, *old.uncovered, *new.uncovered}):
        if old.same(name, new):
            continue
        path = f"{prefix}{name}"
        was = old.version(name) or old.unsaved(name)
        now = new.version(name) or new.unsaved(name)
        known = was or old.covers(name) or sure_before(path)
        changed = was != now or is_unknown(was)  # unsaved files differ in their marks only
        inner = old.folder(name), new.folder(name)
        if (
            changed
            and known
            and (now or new.covers(name) or sure_after(path))
            and not _is_only_about_ignored(store, *inner)
        ):
            yield Effect(path, was, now)
        if inner[0] or inner[1]:
            yield from effects_between(
                store,
                inner[0] or old.uncovered_below(name),
                inner[1] or new.uncovered_below(name),
                f"{path}/",
                sure_before,
                sure_after,
            )


def _is_only_about_ignored(store: ObjectStore, old: Trees | None, new: Trees | None) -> bool:
    """Whether a folder was created only for ignored files, or removed with nothing else in it.
    Ignored files are neither removed nor stored, so restoring such a folder would fail or leave
    it empty."""
    if new and not old:
        return holds_ignored(store, new)
    if old and not new:
        return holds_ignored(store, old) and next(leaves(store, old), None) is None
    return False
