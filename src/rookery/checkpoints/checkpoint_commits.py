"""A checkpoint as the commit it is stored as. What git has no place for stands in its message."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from rookery.checkpoints.noted_attributes import note_of_access_list
from rookery.checkpoints.snapshot_trees import Trees

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
