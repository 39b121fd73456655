"""What the editing tools share: from a new text to an action that the user can judge."""

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, TypeAlias

from rookery.core.characters import as_utf8
from rookery.core.facts import Change
from rookery.core.line_diff import line_diff
from rookery.core.omissions import omission
from rookery.engine.ports import Action, FileText, Outcome, Permit, ToolContext
from rookery.errors import BadArguments, ToolError
from rookery.tools.threads import beside

ChangeTool: TypeAlias = Literal["newFileCreated", "editedExistingFile", "appliedDiff"]

_NOTICE = "The file is as you specified it; there is no need to read it again."


async def existing(path: str, ctx: ToolContext) -> FileText:
    """The file that is to be edited."""
    file = await ctx.files.examine(path)
    if file is None:
        raise BadArguments(f"There is no file {path}. write_to_file creates one.")
    return file


async def change_file(
    ctx: ToolContext,
    file: FileText,
    new: str,
    *,
    tool: ChangeTool,
    payload: Mapping[str, Any] | None = None,
    reads: bool = False,
    note: str = "",
) -> Action:
    """Replace the file's text by `new`. A file without a hash is one that is not there yet.

    `reads` if the note quotes from the file: then the permit has to allow that too.
    """
    await beside(partial(_refuse_omission, file, new))
    data, change = await beside(partial(_change, file, new))
    if change.before == change.after:
        return unchanged(file.path)
    diff = await beside(lambda: line_diff(as_utf8(file.text), as_utf8(new)))
    shown = diff.text or "(Only line ends change.)"
    operation = "modified" if file.sha else "created"

    async def perform(permit: Permit) -> Outcome:
        await ctx.files.write(change, data, permit)
        notice = f"{_NOTICE} {note}".strip()
        result = {"path": file.path, "operation": operation, "notice": notice}
        return Outcome(text=json.dumps(result, ensure_ascii=False))

    return Action(
        title=f"{'Edit' if file.sha else 'Create'} {file.path}",
        perform=perform,
        reads=[file.path] if reads else [],
        changes=[change],
        diff=shown,
        payload={
            "tool": tool,
            "path": file.path,
            "isOutsideWorkspace": False,
            "content": shown,
            "diffStats": {"added": diff.added, "removed": diff.removed},
            **({"diff": shown} if tool == "appliedDiff" else {}),
            **(payload or {}),
        },
    )


def unchanged(path: str) -> Action:
    async def perform(permit: Permit) -> Outcome:
        return Outcome(text=f"No changes needed: {path} already is as you want it.")

    return Action(title=f"Leave {path} as it is", perform=perform)


def explain_miss(ctx: ToolContext, file: FileText, explanation: Callable[[str], str]) -> Action:
    """Tell the model why its edit does not fit the file.

    The explanation quotes the file, and so it is a reading of the file, with a permit. The
    call still counts as a mistake.
    """

    async def perform(permit: Permit) -> Outcome:
        match await ctx.files.read(file.path, permit):
            case FileText(text=text):
                said = await beside(lambda: explanation(as_utf8(text)))
                raise BadArguments(f"{file.path} was not changed. {said}")
            case _:
                raise ToolError(f"{file.path} is no longer a text file.")

    return Action(
        title=f"Look in {file.path} for what an edit did not find",
        perform=perform,
        reads=[file.path],
        payload={"tool": "readFile", "path": file.path, "isOutsideWorkspace": False},
    )


def _refuse_omission(file: FileText, new: str) -> None:
    if left_out := omission(new, file.text):
        raise BadArguments(
            f"The line '{left_out}' stands for text that was left out; it would be lost. "
            "Give the text in full."
        )


def _change(file: FileText, new: str) -> tuple[bytes, Change]:
    """What to write, and what that does to the file."""
    data = _encoded(file, new)
    after = hashlib.sha256(data).hexdigest()
    return data, Change(path=file.path, before=file.sha, after=after)


def _encoded(file: FileText, new: str) -> bytes:
    try:
        return file.encode(new)
    except UnicodeEncodeError as error:
        raise BadArguments(
            f"{file.path} is encoded as {file.encoding}, which has no way to write "
            f"{error.object[error.start : error.end]!r}."
        ) from error
