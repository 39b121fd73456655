"""The files that the agent works on: resolved, read, and changed with a permit.

The newest texts that were read are cached by their hashes, to show what has changed in a file since
the model read it.

If an editor is connected, a file has the text that the editor shows. Unsaved text is saved before
it is changed, so that the disk, checkpoints and hashes agree; after a change the editor gets the
new text.
"""

import codecs
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

import anyio.to_thread
from msgspec.structs import replace

from rookery.core.facts import Change
from rookery.core.limits import MIB, Limits
from rookery.core.text.characters import caseless
from rookery.core.text.text_lines import with_ends_of
from rookery.engine.ports.actions import Permit
from rookery.engine.ports.workspace import Buffers, FileBytes, FileText, Place
from rookery.errors import Denied, ToolError
from rookery.platform.descriptors import content, hash_of, opened_folder, regular_file
from rookery.workspace.boundaries import Boundaries
from rookery.workspace.file_edits import FileEdit, explained, make, unfinished

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, as it starts with the same mark
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
UNSAVED = (
    "{path} has unsaved changes in the editor, which could not be saved; nothing was written. Ask "
    "the user to save it."
)
_INSPECTED = 8000
_DOCUMENTS = (b"%PDF-",)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def decoded(path: str, data: bytes, size: int) -> FileText | FileBytes:
    """Decode the data, if it is text. If there are less than `size` bytes, it is only the start
    of the file, and the hash is left empty."""
    name = sha(data) if len(data) == size else ""
    mark, encoding = next(
        ((mark, encoding) for mark, encoding in _BOMS if data.startswith(mark)),
        (b"", "utf-8"),
    )
    text = _text(data[len(mark) :], encoding)
    if text is None:
        return FileBytes(path=path, data=data, sha=name)
    return FileText(path=path, text=text, sha=name, encoding=encoding, bom=mark, size=size)


def _text(data: bytes, encoding: str) -> str | None:
    if encoding != "utf-8":
        return _decode_strictly(data, encoding)
    if b"\0" in data[:_INSPECTED] or data.startswith(_DOCUMENTS):
        return None
    text = _decode_strictly(data, encoding)
    if text is None and b"\0" not in data:
        return data.decode(encoding, "surrogateescape")
    return text


def _decode_strictly(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


T = TypeVar("T")

MOST = 4 * MIB
"""Characters of all cached texts together."""

Noted = TypeVar("Noted", bound=FileText | FileBytes | None)


class WorkspaceFiles:
    """`own_folders` are the folders with rookery's own files, `home` is the user's home folder,
    `added` are further folders that the agent may work in, `buffers` are those of an editor."""

    def __init__(
        self,
        root: Path,
        limits: Limits,
        *,
        own_folders: Sequence[Path] = (),
        home: Path | None = None,
        added: Sequence[Path] = (),
        buffers: Buffers | None = None,
    ) -> None:
        self.boundaries = Boundaries(root, home=home or Path.home(), own=own_folders, added=added)
        self._limits = limits
        self._buffers = buffers
        self._known = KnownTexts()

    def known_text(self, sha: str) -> str | None:
        return self._known.get(sha)

    def locate(self, path: str) -> str:
        return self.boundaries.locate(path)

    def place(self, path: str) -> Place:
        return self.boundaries.place(path)

    async def examine(self, path: str) -> FileText | None:
        place = self.place(path)
        if place.ignored:
            raise self.boundaries.kept_back(place.path)
        if place.credential:
            raise Denied(f"{place.path} holds credentials, which no tool opens.")
        found = await _in_thread(self._examine, place.path)
        return self._known.remember(await self._as_shown(found))

    async def sha(self, path: str) -> str:
        located = self.locate(path)
        on_disk = await _in_thread(self._sha, located)
        if self._buffers is None or not on_disk:
            return on_disk
        shown = await self._as_shown(await _in_thread(self._whole_text, located))
        return shown.sha if shown else on_disk

    async def read(
        self, path: str, permit: Permit, most: int | None = None
    ) -> FileText | FileBytes:
        located = self.locate(path)
        if located not in permit.reads:
            raise Denied(f"Reading {located} was not permitted.")
        most = max(most or 0, self._limits.edit_bytes)
        found = await _in_thread(partial(self._read, most=most), located)
        return self._known.remember(await self._as_shown(found))

    async def write(self, change: Change, data: bytes, permit: Permit) -> None:
        await self.apply([(change, data)], permit)

    async def apply(
        self,
        edits: Sequence[tuple[Change, bytes | None]],
        permit: Permit,
        *,
        moved: Mapping[str, str] | None = None,
    ) -> None:
        paths = [change.path for change, _ in edits]
        if len({caseless(path) for path in paths}) < len(paths):
            raise ToolError(f"The same file is changed twice: {', '.join(paths)}.")
        for change, data in edits:
            self._check_permit(change, data, permit)
        steps = [FileEdit(change, data, *self._split_path(change.path)) for change, data in edits]
        by_path = {step.change.path: step for step in steps}
        origins = {new: by_path[old] for new, old in (moved or {}).items()}
        steps = [replace(step, origin=origins.get(step.change.path)) for step in steps]
        for written in await anyio.to_thread.run_sync(_made, steps):
            self._known.remember(written)  # to show what others change in it
        await self._show_changes(steps)

    async def save_buffers(self, changes: Sequence[Change], permit: Permit) -> None:
        if self._buffers is None:
            return
        for change in changes:
            if change not in permit.changes or not change.before:
                continue
            if await _in_thread(self._sha, change.path) == change.before:
                continue
            shown = await self._as_shown(await _in_thread(self._whole_text, change.path))
            if shown is None or shown.sha != change.before:
                continue  # `apply` reports that it changed
            if not await self._buffers.write(self._absolute(change.path), shown.text):
                raise ToolError(UNSAVED.format(path=change.path))

    async def remove_unfinished(self, change: Change) -> None:
        await anyio.to_thread.run_sync(self._remove_unfinished, change)

    def _check_permit(self, change: Change, data: bytes | None, permit: Permit) -> None:
        if change not in permit.changes or self.locate(change.path) != change.path:
            raise Denied(f"This change of {change.path} was not permitted.")
        if ("" if data is None else sha(data)) != change.after:
            raise Denied(f"The content for {change.path} is not what was permitted.")

    async def _as_shown(self, found: Noted) -> Noted:
        """The file with the text that the editor shows, if that differs from the disk."""
        if self._buffers is None or not isinstance(found, FileText) or not found.sha:
            return found
        text = await self._buffers.read(self._absolute(found.path))
        if text is None or (text := with_ends_of(found.text, text)) == found.text:
            return found
        try:
            data = found.encode(text)
        except UnicodeEncodeError:
            return found
        return replace(found, text=text, sha=sha(data), size=len(data))

    async def _show_changes(self, edits: Sequence[FileEdit]) -> None:
        """Give the editor the new texts. The disk has them already, so a failure loses nothing."""
        for edit in edits if self._buffers else ():
            new = None if edit.data is None else _decode_strictly(edit.data, "utf-8")
            # editors may change other line ends and byte-order marks; they reload such files
            if self._buffers and new is not None and not {"\r", "\0", "\ufeff"} & {*new}:
                await self._buffers.write(self._absolute(edit.change.path), new)

    def _absolute(self, path: str) -> str:
        return str(self.boundaries.root / path)

    def _whole_text(self, path: str) -> FileText | None:
        """The file on disk; None if it is not text or too large to edit."""
        try:
            return self._examine(path)
        except ToolError:
            return None

    def _split_path(self, path: str) -> tuple[Path, tuple[str, ...]]:
        """A folder to start from, and the names that lead from there to the file."""
        names = PurePosixPath(path).parts
        if not names or path == "/":
            raise ToolError("That is a folder, not a file. Use list_files to see its content.")
        return (Path("/"), names[1:]) if path.startswith("/") else (self.boundaries.root, names)

    def _examine(self, path: str) -> FileText | None:
        top, (*folders, name) = self._split_path(path)
        with explained(path, "opened"), opened_folder(top, folders) as folder:
            if folder is None or (there := regular_file(folder, name, path)) is None:
                _check_collision(top, (*folders, name), path)
                return None
            if there.st_size > self._limits.edit_bytes:
                most = self._limits.edit_bytes // MIB
                raise ToolError(f"{path} is larger than {most} MiB, too large to edit.")
            match decoded(path, *content(folder, name, path, there.st_size + 1)):
                case FileText() as text:
                    return text
                case FileBytes(data=data):
                    raise ToolError(
                        f"{path} is not a text file ({len(data)} bytes) and cannot be edited."
                    )

    def _sha(self, path: str) -> str:
        top, (*folders, name) = self._split_path(path)
        with explained(path, "read"), opened_folder(top, folders) as folder:
            if folder is None or regular_file(folder, name, path) is None:
                return ""
            return hash_of(folder, name, path)

    def _read(self, path: str, most: int) -> FileText | FileBytes:
        top, (*folders, name) = self._split_path(path)
        with explained(path, "read"), opened_folder(top, folders) as folder:
            if folder is None or regular_file(folder, name, path) is None:
                raise ToolError(f"No such file: {path}. Use list_files to see what exists.")
            data, size = content(folder, name, path, most)
            found = decoded(path, data, size)
            if isinstance(found, FileText) and len(data) < size:
                return decoded(path, data[: data.rfind(b"\n") + 1] or data, size)
            return found

    def _remove_unfinished(self, change: Change) -> None:
        top, (*folders, _) = self._split_path(change.path)
        with (
            explained(change.path, "cleaned up"),
            opened_folder(top, folders) as folder,
        ):
            for name in os.listdir(folder) if folder is not None else ():
                if name.startswith(unfinished(change)):
                    os.unlink(name, dir_fd=folder)


def _made(edits: Sequence[FileEdit]) -> list[FileText | FileBytes]:
    """The files that the edits wrote."""
    make(edits)
    written = ((edit.change.path, edit.data) for edit in edits if edit.data is not None)
    return [decoded(path, data, len(data)) for path, data in written]


async def _in_thread(look: Callable[[str], T], path: str) -> T:
    """Run in a thread, which is abandoned on cancellation because the disk may be slow."""
    return await anyio.to_thread.run_sync(look, path, abandon_on_cancel=True)


def _check_collision(top: Path, names: Sequence[str], path: str) -> None:
    """Refuse a new name that differs from an existing one only in case or Unicode composition."""
    at = top
    for part in names:
        if os.path.lexists(at / part):
            at = at / part
            continue
        with suppress(FileNotFoundError, NotADirectoryError):
            for twin in os.listdir(at):
                if twin != part and caseless(twin) == caseless(part):
                    there = (at / twin).relative_to("/" if path.startswith("/") else top)
                    raise ToolError(f"No such file: {path}. Did you mean {there}?")
        return


class KnownTexts:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._texts: dict[str, str] = {}
        self._size = 0

    def get(self, sha: str) -> str | None:
        return self._texts.get(sha)

    def remember(self, file: Noted) -> Noted:
        """Cache the text and return the file. Very long texts and those without a hash are not
        cached."""
        if isinstance(file, FileText) and file.sha and len(file.text) <= self._most:
            self._drop(file.sha)
            self._texts[file.sha] = file.text
            self._size += len(file.text)
            while self._size > self._most:
                self._drop(next(iter(self._texts)))
        return file

    def _drop(self, sha: str) -> None:
        self._size -= len(self._texts.pop(sha, ""))
