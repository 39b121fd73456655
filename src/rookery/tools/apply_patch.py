"""Change, create, delete and move several files at once."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.facts import Change
from rookery.core.replies import FILES_AS_SPECIFIED
from rookery.core.text.text_lines import LineDiff, Swap, exact_pieces, line_swap
from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.engine.ports.workspace import FileText
from rookery.errors import BadArguments, Denied, ToolError
from rookery.tools.file_changes import (
    ONLY_LINE_ENDS,
    existing,
    explain_miss,
    in_thread,
    readable_diff,
    rewrite,
    unchanged,
)

if TYPE_CHECKING:
    from rookery.core.text.patch_text import Section

TITLED = 4
"""Number of files named in a title."""


Operation: TypeAlias = Literal["created", "modified", "deleted", "moved", "unchanged"]
_VERBS: dict[Operation, str] = {"created": "create", "modified": "edit", "deleted": "delete"}
_WITHOUT_DIFF: dict[Operation, str] = {
    "modified": ONLY_LINE_ENDS,
    "moved": "(Its lines stay as they are.)",
}


class ApplyPatchArgs(msgspec.Struct, forbid_unknown_fields=True):
    patch: Annotated[
        str,
        msgspec.Meta(
            description="*** Begin Patch; per file *** Add File: p, *** Delete File: p or "
            "*** Update File: p (*** Move to: q); *** End Patch. Hunks: @@ line above, then "
            "lines after ' ', '-' or '+'."
        ),
    ]


class ApplyPatch:
    name: ClassVar[str] = "apply_patch"
    description: ClassVar[str] = "Change several files at once, all or none."
    arguments: ClassVar[type[msgspec.Struct]] = ApplyPatchArgs
    group: ClassVar[ToolGroup] = ToolGroup.EDIT
    traits: ClassVar[ToolTraits] = ToolTraits(hook_arguments={}, explained=frozenset({"patch"}))

    async def prepare(self, args: ApplyPatchArgs, ctx: ToolContext) -> Action:
        from rookery.core.text.patch_text import MalformedPatch, parse

        sections = await in_thread(partial(parse, args.patch))
        if isinstance(sections, MalformedPatch):
            raise BadArguments(f"The patch is malformed at line {sections.line}: {sections.reason}")
        _refuse_repetition(sections, ctx)
        steps: list[FileStep] = []
        for section in sections:
            step = await _step(section, ctx)
            if isinstance(step, Action):
                return step
            steps.append(step)
        return together(steps, ctx)


class FileStep(Struct, frozen=True, kw_only=True):
    """The change of one file. `origin` is the old path of a moved file."""

    path: str
    operation: Operation
    diff: LineDiff
    edits: tuple[tuple[Change, bytes | None], ...] = ()
    origin: str = ""
    searched: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        if self.origin:
            return f"move {self.origin} to {self.path}"
        return f"{_VERBS[self.operation]} {self.path}"

    @property
    def shown(self) -> str:
        return self.diff.text or _WITHOUT_DIFF.get(self.operation, "(It has no lines.)")


def _refuse_repetition(sections: "Sequence[Section]", ctx: ToolContext) -> None:
    """Refuse two sections for the same file, whatever it is called in them."""
    named = Counter(ctx.files.locate(path) for section in sections for path in _paths(section))
    for path, times in named.items():
        if times > 1:
            raise BadArguments(
                f"The patch names {path} {times} times; nothing was changed. Put all that "
                "happens to a file under one header."
            )


def _paths(section: "Section") -> Iterator[str]:
    from rookery.core.text.patch_text import Update

    yield section.path
    if isinstance(section, Update) and section.to:
        yield section.to


async def _step(section: "Section", ctx: ToolContext) -> "FileStep | Action":
    """The change a section makes, or why it does not apply."""
    from rookery.core.text.patch_places import explain, patched
    from rookery.core.text.patch_text import Addition, Deletion, Update

    match section:
        case Addition(_, path, text):
            return await _addition(await _vacant(path, ctx), text)
        case Deletion(_, path):
            return await _deletion(path, ctx)
        case Update(_, path, hunks, to):
            file = await existing(path, ctx)
            new = await in_thread(partial(patched, file.text, hunks))
            if not isinstance(new, str):
                return explain_miss(ctx, file, partial(explain, miss=new))
            if to:
                _by_its_own_name(path, ctx)
                return await _move(file, await _vacant(to, ctx), new)
            return await _update(file, new, [line_swap(hunk.old, hunk.new) for hunk in hunks])


async def _vacant(path: str, ctx: ToolContext) -> str:
    """A path where no file exists."""
    if await ctx.files.sha(path):
        raise BadArguments(
            f"{path} already exists; nothing was changed. Update it, or choose another path."
        )
    await ctx.files.examine(path)  # refuses a name too much like one that is there
    return ctx.files.locate(path)


async def _addition(path: str, text: str) -> FileStep:
    data, change = await in_thread(partial(rewrite, FileText(path=path, text="", sha=""), text))
    diff = await in_thread(partial(readable_diff, "", text))
    return FileStep(path=path, operation="created", diff=diff, edits=((change, data),))


async def _deletion(said: str, ctx: ToolContext) -> FileStep:
    path = _by_its_own_name(said, ctx)
    try:
        file = await existing(path, ctx)
    except (BadArguments, Denied):
        raise
    except ToolError as unreadable:  # no text, or very much of it: it can be deleted all the same
        if not (sha := await ctx.files.sha(path)):
            raise
        diff = LineDiff(f"({unreadable})", added=0, removed=0)
    else:
        sha, diff = file.sha, await in_thread(partial(readable_diff, file.text, ""))
    gone = Change(path=path, before=sha, after="")
    return FileStep(path=path, operation="deleted", diff=diff, edits=((gone, None),))


def _by_its_own_name(path: str, ctx: ToolContext) -> str:
    """Refuse to delete or move through a link: the link would stay and be broken."""
    place = ctx.files.place(path)
    if place.link:
        raise BadArguments(f"{path} is reached by a symbolic link. Name {place.path} itself.")
    return place.path


async def _update(file: FileText, text: str, swaps: Sequence[Swap]) -> FileStep:
    data, change = await in_thread(partial(rewrite, file, text))
    diff = await in_thread(partial(readable_diff, file.text, text))
    if change.before == change.after:
        return FileStep(path=file.path, operation="unchanged", diff=diff)
    exact = await in_thread(partial(exact_pieces, file.text, text, swaps))
    edits = ((change, data),)
    return FileStep(path=file.path, operation="modified", diff=diff, edits=edits, searched=exact)


async def _move(file: FileText, path: str, text: str) -> FileStep:
    data, change = await in_thread(partial(rewrite, replace(file, path=path, sha=""), text))
    diff = await in_thread(partial(readable_diff, file.text, text))
    gone = Change(path=file.path, before=file.sha, after="")
    edits = ((change, data), (gone, None))
    return FileStep(path=path, operation="moved", diff=diff, edits=edits, origin=file.path)


def together(
    steps: Sequence[FileStep], ctx: ToolContext, *, title: str = "", notes: Sequence[str] = ()
) -> Action:
    """An action that makes all changes or none."""
    changing = [step for step in steps if step.edits]
    if not changing:
        return unchanged(", ".join(step.path for step in steps))
    edits = [edit for step in changing for edit in step.edits]
    moved = {step.path: step.origin for step in changing if step.origin}

    async def perform(permit: Permit) -> Outcome:
        await ctx.files.apply(edits, permit, moved=moved)
        result = {"files": [_result_row(step) for step in steps], "notice": FILES_AS_SPECIFIED}
        return Outcome(text=json.dumps(result, ensure_ascii=False))

    changes = [change for change, _ in edits]
    diff = _whole_diff(changing)
    return Action(
        title=title or _title(changing),
        perform=perform,
        notes=notes,
        reads=[*moved.values()],  # no rule about reading knows the new name
        changes=changes,
        searched={step.path: step.searched for step in steps if step.searched},
        diff=diff,
        payload={
            "tool": "appliedDiff",
            "path": changing[0].path,
            "isOutsideWorkspace": any(PurePosixPath(c.path).is_absolute() for c in changes),
            "content": diff,
            "diff": diff,
            "diffStats": _stats(*changing),
            **({"batchDiffs": [_batched(step) for step in changing]} if changing[1:] else {}),
        },
    )


def _result_row(step: FileStep) -> dict[str, str]:
    row = {"path": step.path, "operation": step.operation}
    return {**row, "from": step.origin} if step.origin else row


def _title(steps: Sequence[FileStep]) -> str:
    more = len(steps) - TITLED
    titles = [step.title for step in steps[:TITLED]]
    said = ", ".join([*titles, *([f"and {more} more files"] if more > 0 else [])])
    return said[0].upper() + said[1:]


def _whole_diff(steps: Sequence[FileStep]) -> str:
    if len(steps) == 1:
        return steps[0].shown
    return "\n".join(f"*** {step.title}\n{step.shown}" for step in steps)


def _stats(*steps: FileStep) -> dict[str, int]:
    return {
        "added": sum(step.diff.added for step in steps),
        "removed": sum(step.diff.removed for step in steps),
    }


def _batched(step: FileStep) -> dict[str, Any]:
    return {
        "path": step.path,
        "changeCount": 1,
        "key": step.title,
        "content": step.shown,
        "diffStats": _stats(step),
    }


TOOLS = (ApplyPatch(),)
