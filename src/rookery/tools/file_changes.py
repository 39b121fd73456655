"""Shared by the editing tools: turns a new text into an action that the user can judge.

A new text is refused if one of its lines is a placeholder for text that the model left out.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias, TypeVar

import anyio.to_thread

from rookery.core.facts import Change
from rookery.core.protected_paths import scripts_changed
from rookery.core.replies import FILE_AS_SPECIFIED
from rookery.core.text.characters import as_utf8
from rookery.core.text.text_lines import LineDiff, Swap, exact_pieces, line_diff
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.engine.ports.workspace import FileText
from rookery.errors import BadArguments, ToolError

T = TypeVar("T")
SHORT_TEXT = 16 * 1024


async def in_thread(work: Callable[[], T], *, once_through: str | None = None) -> T:
    """Run something read-only in a thread. If cancelled, the caller continues at once and the
    result is discarded. Work that goes through a short text once is done here, which is faster."""
    if once_through is not None and len(once_through) <= SHORT_TEXT:
        return work()
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


ChangeTool: TypeAlias = Literal["newFileCreated", "editedExistingFile", "appliedDiff"]

ONLY_LINE_ENDS = "(Only line ends change.)"
EMPTY_FILE = "(An empty file.)"
_LEADS = r"\s*(?://|#|--|;|/\*|\*|<!--|\{/\*|%|\"\"\"|'''|\.\.\.|…|\[|\()"
_ELLIPSIS = r"\.\.\.|…"
_THING = (
    r"(?:file|code|content|contents|text|function|functions|class|classes|method|methods|"
    r"implementation|document|module|component|lines|section|logic|imports)"
)
_LEFT_OUT = (
    r"(?i)"
    r"\b(?:rest|remainder|remaining|existing|previous|unchanged|omitted|same as before|"
    r"stays the same|remains the same)\b"
)
_WORDED = (
    r"(?i)"
    rf"\b(?:rest of (?:the |your |this |my )?(?:\w+ )?{_THING}|"
    rf"(?:existing|previous|remaining|other) {_THING})\b.*"
    r"\b(?:unchanged|same|here|omitted|before|as is|remains?|stays?)\b"
)
_LONGEST_OMISSION = 120


async def existing(path: str, ctx: ToolContext) -> FileText:
    """The file to edit."""
    file = await ctx.files.examine(path)
    if file is None:
        raise BadArguments(f"No such file: {path}. write_to_file creates one.")
    return file


async def change_file(
    ctx: ToolContext,
    file: FileText,
    new: str,
    *,
    tool: ChangeTool,
    payload: Mapping[str, Any] | None = None,
    reads: bool = False,
    whole: bool = False,
    swaps: Sequence[Swap] = (),
    note: str = "",
) -> Action:
    """Replace the file's text with `new`. A file without a hash does not exist yet.

    `reads` if the note quotes the file: the permit must then allow reading. `whole` if the new text
    was made without looking at the old one. `swaps` are the pieces of text the model replaces.
    """
    # one replaced piece needs no search for what differs
    once = max(file.text, new, key=len) if len(swaps) == 1 else None
    work = partial(_rewritten, file, new, swaps)
    data, change, diff, pieces = await in_thread(work, once_through=once)
    if change.before == change.after:
        return unchanged(file.path)
    shown = diff.text or (ONLY_LINE_ENDS if file.sha else EMPTY_FILE)
    operation = "modified" if file.sha else "created"

    async def perform(permit: Permit) -> Outcome:
        await ctx.files.write(change, data, permit)
        notice = f"{FILE_AS_SPECIFIED} {note}".strip()
        result = {"path": file.path, "operation": operation, "notice": notice}
        return Outcome(text=json.dumps(result, ensure_ascii=False))

    return Action(
        title=f"{'Edit' if file.sha else 'Create'} {file.path}",
        perform=perform,
        reads=[file.path] if reads else [],
        changes=[change],
        whole=[file.path] if whole else [],
        searched={file.path: pieces} if pieces else {},
        ordinary=[file.path] if _keeps_scripts(file, new) else [],
        diff=shown,
        payload={
            "tool": tool,
            "path": file.path,
            "isOutsideWorkspace": is_outside(file.path),
            "content": shown,
            "diffStats": {"added": diff.added, "removed": diff.removed},
            **({"diff": shown} if tool == "appliedDiff" else {}),
            **(payload or {}),
        },
    )


def _rewritten(
    file: FileText, new: str, swaps: Sequence[Swap]
) -> tuple[bytes, Change, LineDiff, Sequence[str]]:
    pieces = exact_pieces(file.text, new, swaps) if swaps else ()
    return *rewrite(file, new), readable_diff(file.text, new), pieces


def is_outside(located: str) -> bool:
    return PurePosixPath(located).is_absolute()


def unchanged(path: str) -> Action:
    async def perform(permit: Permit) -> Outcome:
        return Outcome(text=f"No changes needed: {path} already has this content.")

    return Action(title=f"Keep {path} unchanged", perform=perform)


def explain_miss(ctx: ToolContext, file: FileText, explanation: Callable[[str], str]) -> Action:
    """Explain to the model why its edit does not fit the file.

    The explanation quotes the file, so it needs a permit for reading. The call still counts as a
    mistake.
    """

    async def perform(permit: Permit) -> Outcome:
        match await ctx.files.read(file.path, permit):
            case FileText(text=text):
                said = await in_thread(lambda: explanation(as_utf8(text)))
                raise BadArguments(f"{file.path} was not changed. {said}")
            case _:
                raise ToolError(f"{file.path} is no longer a text file.")

    return Action(
        title=f"Find the place of an edit in {file.path}",
        perform=perform,
        reads=[file.path],
        payload={
            "tool": "readFile",
            "path": file.path,
            "isOutsideWorkspace": is_outside(file.path),
        },
    )


def rewrite(file: FileText, new: str) -> tuple[bytes, Change]:
    """The bytes to write, and the resulting change."""
    _refuse_omission(file, new)
    data = _encoded(file, new)
    after = hashlib.sha256(data).hexdigest()
    return data, Change(path=file.path, before=file.sha, after=after)


def readable_diff(old: str, new: str) -> LineDiff:
    return line_diff(as_utf8(old), as_utf8(new))


def _keeps_scripts(file: FileText, new: str) -> bool:
    """Whether package.json keeps its scripts, which npm runs; the rest of it is not protected."""
    named = PurePosixPath(file.path).name == "package.json"
    return named and bool(file.sha) and not scripts_changed(file.text, new)


def _refuse_omission(file: FileText, new: str) -> None:
    if left_out := _omission(new, file.text):
        raise BadArguments(
            f"The line '{left_out}' stands for text that was left out; it would be lost. "
            "Give the text in full."
        )


def _encoded(file: FileText, new: str) -> bytes:
    try:
        return file.encode(new)
    except UnicodeEncodeError as error:
        raise BadArguments(
            f"{file.path} is encoded as {file.encoding}, which cannot represent "
            f"{error.object[error.start : error.end]!r}."
        ) from error


def _omission(new: str, old: str = "") -> str | None:
    """The first line of `new` that is a placeholder, unless `old` has it too."""
    before = set(old.split("\n"))
    known: set[str] | None = None
    for line in new.split("\n"):
        if line in before or not _stands_in(line):
            continue
        if known is None:
            known = {there.strip() for there in before}
        if line.strip() not in known:
            return line.strip()
    return None


def _stands_in(line: str) -> bool:
    if len(line) > _LONGEST_OMISSION or not re.match(_LEADS, line):
        return False
    if re.search(_ELLIPSIS, line):
        return bool(re.search(_LEFT_OUT, line))
    return bool(re.search(_WORDED, line))
