"""What a rewind would undo, in the words of all clients that ask first."""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from rookery.core.commands import Command, RestoreFiles, Rewind
from rookery.core.queries import RestoreRehearsal
from rookery.core.text.terminal_text import counted, visible_line

FORGETS = "The model forgets this and everything after it."
FILES_STAY = "The files stay as they are."
NO_FILE_CHANGES = "No file changes."


class Extent(Enum):
    """What is rewound."""

    CONVERSATION = "the conversation"
    FILES = "the files"
    BOTH = "the conversation and the files"

    @property
    def question(self) -> str:
        return f"Rewind {self.value}?"


def extent_of(commands: Iterable[Command]) -> Extent | None:
    """What commands rewind; None if they rewind nothing."""
    kinds = {type(command) for command in commands}
    found = {RestoreFiles: Extent.FILES, Rewind: Extent.CONVERSATION}
    rewound = [extent for kind, extent in found.items() if kind in kinds]
    return Extent.BOTH if len(rewound) == 2 else next(iter(rewound), None)


def file_groups(rehearsal: RestoreRehearsal) -> Iterator[tuple[str, str, Sequence[str]]]:
    """The files by what would happen to them: a heading, the mark of the group, and the paths."""
    groups = (
        ("restored", "←", rehearsal.written),
        ("removed", "−", rehearsal.removed),
        ("kept with someone else's changes", "=", rehearsal.kept),
        ("not in any checkpoint", "?", rehearsal.unsaved),
    )
    for what, mark, paths in groups:
        if paths:
            yield f"{counted(len(paths), 'file')} {what}:", mark, paths


def rehearsal_lines(extent: Extent, rehearsal: RestoreRehearsal) -> Iterator[str]:
    """What would be undone, for a plain terminal."""
    if extent is not Extent.FILES:
        yield FORGETS
    if extent is Extent.CONVERSATION:
        yield FILES_STAY
        return
    if not (rehearsal.written or rehearsal.removed):
        yield NO_FILE_CHANGES
    for heading, mark, paths in file_groups(rehearsal):
        yield heading
        yield from (f"  {mark} {visible_line(path)}" for path in paths)
