"""The files of the workspace: read, changed, listed and searched, each with a permit."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from rookery.core.facts import Change
from rookery.engine.ports.actions import Permit


class Place(Struct, frozen=True):
    """Where a path leads: `path` is relative to the workspace with `/`, or absolute outside it,
    with every link resolved. The other fields say why it is not a file like any other.
    """

    path: str
    said: str = ""
    outside: bool = False
    link: bool = False
    """A symbolic link was followed to get there."""
    ignored: bool = False
    """The user keeps it from the agent."""
    protected: str = ""
    """Why a change of it is always asked about."""
    credential: bool = False


class FileText(Struct, frozen=True, kw_only=True):
    """A text file as it is on disk.

    `text` is decoded without translating line ends. `encode` gives bytes back with the same
    encoding and byte-order mark, so that what an edit did not touch does not change.
    """

    path: str
    text: str
    sha: str
    encoding: str = "utf-8"
    bom: bytes = b""
    size: int = 0

    def encode(self, text: str) -> bytes:
        errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
        return self.bom + text.encode(self.encoding, errors)


class FileBytes(Struct, frozen=True, kw_only=True):
    """A file that is not text."""

    path: str
    data: bytes
    sha: str


class Files(Protocol):
    """The workspace. Every path is given as the model said it, and resolved here only.

    All of these raise `ToolError` with a sentence the model can act on.
    """

    def locate(self, path: str) -> str:
        """The path by which permits and hashes know the file: relative to the workspace with
        `/`, or absolute if it lies outside. Refuses what is no proper path."""
        ...

    def place(self, path: str) -> Place:
        """The same, with all that rules must know of it."""
        ...

    async def examine(self, path: str) -> FileText | None:
        """What is there now, to show the user what would change; None if nothing is there.
        Nothing of it may reach the model."""
        ...

    async def sha(self, path: str) -> str:
        """The hash of what is there now; empty if nothing is."""
        ...

    async def read(
        self, path: str, permit: Permit, most: int | None = None
    ) -> FileText | FileBytes:
        """What is in the file, up to `most` bytes if that is more than is usually read."""
        ...

    async def write(self, change: Change, data: bytes, permit: Permit) -> None:
        """Replace or create the file, whole and durably, if it still is as `change.before` says."""
        ...

    async def apply(
        self,
        edits: Sequence[tuple[Change, bytes | None]],
        permit: Permit,
        *,
        moved: Mapping[str, str] | None = None,
    ) -> None:
        """All of the changes or none; None removes the file. What fails is put back.

        `moved` says of new files which of the removed ones they were: they take over the mode.
        """
        ...

    async def remove_unfinished(self, change: Change) -> None:
        """Clear away what a killed process had written of this change, beside the file."""
        ...


class EntryFilter(Protocol):
    """What a walk through a folder must leave out."""

    def hides(self, path: str, *, is_folder: bool, target: str = "") -> bool:
        """Whether an entry, named by its path below the folder, is kept from the agent."""
        ...


class Finder(Protocol):
    """Listing and searching the workspace."""

    async def list(self, path: str, *, recursive: bool, permit: Permit) -> str: ...

    async def search(self, path: str, regex: str, glob: str | None, permit: Permit) -> str: ...
