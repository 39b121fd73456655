"""The attachments for what a message mentions with `@`.

Each mention that reads the workspace or a web page becomes an action, which goes through the gate
like any other.
All attachments of one message share one size limit.
"""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.blocks import TOGETHER, Image, Sight, picture
from rookery.core.facts import Ending, Noted, Seen
from rookery.core.instructions import Mention, quoted, revealed
from rookery.core.limits import KIB
from rookery.core.replies import sentence_in
from rookery.core.text.characters import as_utf8
from rookery.core.text.output_preview import Cleaner, Preview
from rookery.core.text.text_lines import Span, passage, rows_of
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.engine.ports.workspace import FileBytes, FileText
from rookery.errors import Denied, ToolError

ROOM = 64 * KIB
PER_FILE = 16 * KIB
HEAD = 4 * KIB
"""Bytes kept from the start of a text that is too long; the rest is kept from its end."""
MOST_FILES = 20
"""Files of a mentioned folder whose contents are attached."""
MOST_IMAGES = 20
GIT_SECONDS = 30.0
LONGEST_NAME = 300
LONGEST_NOTE = 500
"""Characters of a path, and of the reason why a file is not attached."""

_COMMANDS = {
    "git_changes": "git status --short --branch && git diff --no-ext-diff --no-textconv HEAD",
    "commit": "git show --stat --patch --no-ext-diff --no-textconv {}",
}
_CHANGED = "What {} would do has changed since it was checked, so it was not run. Mention it again."
_ENOUGH = "Not attached: the message already has enough attachments."
FetchPage: TypeAlias = Callable[[str, int, ToolContext], Action]
"""Makes the action that reads up to this many characters of a web page."""

_TAGS = {"git_changes": "git_working_state", "commit": "git_commit"}


class MentionAttachments(Struct):
    """The attachments of one message."""

    root: Path
    ctx: ToolContext
    fetch: FetchPage | None = None
    """Without it, web pages are not attached."""
    _room: int = ROOM
    _image_room: int = TOGETHER
    _images: int = 0

    def action_for(self, mention: Mention) -> Action | None:
        """Return the action that reads what is mentioned; None if there is nothing to read.

        Raises `ToolError` if the mention is not valid; `note` puts that into the message.
        """
        match mention.kind:
            case "file" | "image":
                return self._file(mention.target)
            case "folder":
                return self._folder(mention.target)
            case "git_changes" | "commit":
                return self._git(mention)
            case "url" if self.fetch:
                return self._page(mention.target, self.fetch)
            case _:
                return None

    def _file(self, target: str) -> Action:
        path = self.ctx.files.place(target).path
        if os.path.isdir(self.root / path):
            return self._folder(target)

        async def perform(permit: Permit) -> Outcome:
            part = await self._attach(path, permit)
            return Outcome(text=part.text, images=part.images, seen=part.seen)

        payload = {"tool": "readFile", "path": path, "content": path}
        return Action(title=f"Attach {path}", perform=perform, reads=[path], payload=payload)

    def _folder(self, target: str) -> Action:
        path = self.ctx.files.place(target.rstrip("/") or ".").path
        files = self._files_in(path)

        async def perform(permit: Permit) -> Outcome:
            listing = await self.ctx.finder.list(path, recursive=False, permit=permit)
            text = quoted("folder_content", self._shorten(listing), path=path)
            parts = [part async for part in self._parts(files, permit)]
            return Outcome(
                text="\n".join([text, *(part.text for part in parts if part.text)]),
                seen=tuple(seen for part in parts for seen in part.seen),
            )

        payload = {"tool": "listFilesTopLevel", "path": path}
        return Action(
            title=f"Attach {path}/ and the files in it",
            perform=perform,
            reads=[path, *files],
            payload=payload,
        )

    def _page(self, url: str, fetch: FetchPage) -> Action:
        if self._room <= 0:
            raise ToolError(_ENOUGH)
        action = fetch(url, min(PER_FILE, self._room), self.ctx)

        async def perform(permit: Permit) -> Outcome:
            outcome = await action.perform(permit)
            if outcome.ending is Ending.FAILED:
                reason = sentence_in(outcome.text)[:LONGEST_NOTE]
                self.ctx.append(Noted(text=f"{url[:LONGEST_NAME]}: {reason}"))
                return replace(outcome, text=_page_note(url, reason))
            size = len(outcome.text.encode())
            self._room -= size
            self.ctx.append(Noted(text=f"Attached {url[:LONGEST_NAME]} ({-(-size // KIB)} KB)."))
            return outcome

        return replace(action, perform=perform)

    def _git(self, mention: Mention) -> Action:
        command = _COMMANDS[mention.kind].format(mention.target)
        judged = self.ctx.judge(command, "")

        async def perform(permit: Permit) -> Outcome:
            if await anyio.to_thread.run_sync(self.ctx.judge, command, "") != judged:
                raise ToolError(_CHANGED.format(command))
            output, exit_code = await self._output(permit)
            text = quoted(_TAGS[mention.kind], self._shorten(output), hash=mention.target)
            failed = f"\n(git ended with exit code {exit_code}.)" if exit_code else ""
            ending = Ending.FAILED if exit_code else Ending.DONE
            return Outcome(text=text + failed, ending=ending, exit_code=exit_code)

        return Action(
            title=f"Run {command}",
            perform=perform,
            command=command,
            where=self.ctx.shell.describe(confined=not judged.needs_keys),
            judgement=judged,
            notes=judged.notes,
            payload={"tool": "executeCommand", "command": command, "cwd": ""},
        )

    def _files_in(self, folder: str) -> list[str]:
        """List the regular files in a folder that may be attached with it."""
        names: list[str] = []
        with suppress(OSError):
            names = sorted(os.listdir(self.root / folder))
        files: list[str] = []
        for name in names:
            with suppress(ToolError):
                place = self.ctx.files.place(name if folder == "." else f"{folder}/{name}")
                is_hidden = place.ignored or place.credential or place.outside or place.link
                if not is_hidden and (self.root / place.path).is_file():
                    files.append(place.path)
        return files[:MOST_FILES]

    async def _parts(self, files: Sequence[str], permit: Permit) -> AsyncIterator["_Part"]:
        """Yield the files of a folder until the size limit is reached."""
        for number, file in enumerate(files):
            if self._room <= 0:
                yield _Part(text=f"({len(files) - number} more files of it. {_ENOUGH})")
                return
            yield await self._part(file, permit)

    async def _part(self, path: str, permit: Permit) -> "_Part":
        """Attach one file of a folder. Images and unreadable files are skipped."""
        try:
            match await self.ctx.files.read(path, permit):
                case FileText() as file:
                    return self._text(file)
                case _:
                    return _Part()
        except Denied:
            raise
        except ToolError as error:
            return self._as_note(path, str(error))

    async def _attach(self, path: str, permit: Permit) -> "_Part":
        match await self.ctx.files.read(path, permit):
            case FileText() as file:
                return self._text(file)
            case FileBytes() as file:
                return self._picture(file)

    def _text(self, file: FileText) -> "_Part":
        room = min(PER_FILE, self._room)
        if room <= 0:
            return self._as_note(file.path, _ENOUGH)
        text, unseen = revealed(as_utf8(file.text))
        rows = rows_of(text)
        shown, whole = _head_and_tail(rows, room, self.ctx.limits.read_line_length)
        self._room -= sum(len(row.encode()) + 1 for row in shown)
        words = quoted("file_content", "\n".join(shown) or "(The file is empty.)", path=file.path)
        seen = (Seen(file.path, file.sha, whole and not unseen),) if file.sha else ()
        return _Part(text=words, seen=seen)

    def _picture(self, file: FileBytes) -> "_Part":
        limits = self.ctx.limits
        sees = self.ctx.sees_images
        sight = Sight(sees=sees, most=limits.image_bytes, room=self._image_room)
        shown = picture(file.data, sight, complete=bool(file.sha))
        if shown is None:
            return self._as_note(file.path, "Not a text file; its content is not attached.")
        if shown.image is None:
            return self._as_note(file.path, f"{shown.words}.")
        if self._images >= MOST_IMAGES:
            return self._as_note(file.path, f"Not shown: {MOST_IMAGES} images are enough.")
        self._images += 1
        self._image_room -= len(file.data)
        return replace(self._as_note(file.path, f"{shown.words}, attached."), images=(shown.image,))

    def _as_note(self, path: str, words: str) -> "_Part":
        """Attach a note instead of the content. Notes count against the limit too."""
        text = _note(path, words)
        self._room -= len(text.encode("utf-8", "replace"))
        return _Part(text=text)

    async def _output(self, permit: Permit) -> tuple[str, int]:
        cleaner, preview = Cleaner(), Preview(size=PER_FILE, head=HEAD)
        artifact = self.ctx.artifacts.create()
        seconds = min(GIT_SECONDS, self.ctx.limits.command_seconds)
        async with self.ctx.shell.run(permit, seconds=seconds, keep=artifact) as running:
            async for piece in running.output():
                preview.add(cleaner.add(piece))
            end = await running.end()
        preview.add(cleaner.finish())
        return preview.text(), end.exit_code

    def _shorten(self, text: str) -> str:
        """Shorten the text to the room that is left."""
        if self._room <= 0:
            return f"({_ENOUGH})"
        text = revealed(text)[0]
        fitting = Preview(size=self._room, head=min(HEAD, self._room // 4))
        fitting.add(text)
        kept = text if fitting.complete else fitting.text()
        self._room -= len(kept.encode("utf-8", "replace"))
        return kept


class _Part(Struct, frozen=True, kw_only=True):
    text: str = ""
    images: tuple[Image, ...] = ()
    seen: tuple[Seen, ...] = ()


def note(mention: Mention, error: ToolError) -> str:
    """Return the attachment for a mention that could not be read."""
    if mention.kind == "url":
        return _page_note(mention.target, str(error))
    return _note(mention.target, str(error))


NO_PROBLEMS = "(No problems are known. Language servers start with the first edit.)"


def plain_text(mention: Mention, terminal: str = "", problems: Sequence[str] = ()) -> str:
    """Return the attachment for a mention without an action: the last command's output, or the
    problems that language servers report."""
    match mention.kind:
        case "terminal":
            output = terminal.strip("\n") or "(No command has been run.)"
            return quoted("terminal_output", _clip(output))
        case "problems":
            rows = [*problems[:50]] or [NO_PROBLEMS]
            return quoted("workspace_diagnostics", _clip("\n".join(rows)))
        case _:
            return ""


def _note(path: str, words: str) -> str:
    return quoted("file_content", f"({words[:LONGEST_NOTE]})", path=path[:LONGEST_NAME])


def _page_note(url: str, words: str) -> str:
    return quoted("page", f"({words[:LONGEST_NOTE]})", url=url[:LONGEST_NAME])


def _clip(text: str) -> str:
    preview = Preview(size=PER_FILE, head=HEAD)
    preview.add(revealed(text)[0])
    return preview.text()


def _head_and_tail(rows: Sequence[str], room: int, longest: int) -> tuple[list[str], bool]:
    """Return numbered lines, all or the first and the last, and whether they are complete."""
    if not rows:
        return [], True
    width, last = len(str(len(rows))), len(rows) - 1
    everything = passage(rows, Span(0, last), width=width, longest=longest, room=room)
    if everything.span.last == last:
        return list(everything.rows), everything.uncut
    first = passage(rows, Span(0, last), width=width, longest=longest, room=min(HEAD, room // 4))
    left, start = room - first.size, len(rows)
    while start > first.span.last + 1:
        needed = len(_row(rows, start - 1, width, longest).encode()) + 1
        if needed > left:
            break
        left, start = left - needed, start - 1
    hidden = start - first.span.last - 1
    tail = [_row(rows, number, width, longest) for number in range(start, len(rows))]
    gap = f"[… {hidden} lines left out: read_file shows them from line {first.span.last + 2} …]"
    return [*first.rows, gap, *tail], False


def _row(rows: Sequence[str], number: int, width: int, longest: int) -> str:
    return passage(rows, Span(number, number), width=width, longest=longest, room=0).rows[0]
