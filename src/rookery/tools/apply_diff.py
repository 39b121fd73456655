"""Change parts of a file by search/replace blocks."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec

from rookery.core.text.characters import as_utf8
from rookery.core.text.text_lines import line_swap
from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action
from rookery.engine.ports.tool import ToolContext
from rookery.errors import BadArguments
from rookery.tools.file_changes import change_file, existing, explain_miss
from rookery.tools.threads import beside

if TYPE_CHECKING:
    from rookery.core.text.diff_blocks import Applied

_HINT = "Several blocks may be sent in one call."


class ApplyDiffArgs(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="File, relative to the workspace.")]
    diff: Annotated[
        str,
        msgspec.Meta(
            description="Blocks of: <<<<<<< SEARCH, optional :start_line:N and -------, the lines "
            "as they are, =======, the new lines, >>>>>>> REPLACE; each marker on its own line. "
            "Put a backslash before such markers in file text."
        ),
    ]


class ApplyDiff:
    name: ClassVar[str] = "apply_diff"
    description: ClassVar[str] = (
        "Change parts of a file with one or more search/replace blocks. Each SEARCH part must "
        "match whole lines of the file and be unique in it, or have a start line."
    )
    arguments: ClassVar[type[msgspec.Struct]] = ApplyDiffArgs
    group: ClassVar[ToolGroup] = ToolGroup.EDIT
    traits: ClassVar[ToolTraits] = ToolTraits(
        hook_arguments={"path": "file_path"},
        explained=frozenset({"diff"}),
    )

    async def prepare(self, args: ApplyDiffArgs, ctx: ToolContext) -> Action:
        from rookery.core.text.diff_blocks import Malformed, apply, explain, parse

        blocks = await beside(partial(parse, args.diff))
        if isinstance(blocks, Malformed):
            raise BadArguments(f"The diff is malformed. {blocks.reason}")
        file = await existing(args.path, ctx)
        applied = await beside(partial(apply, file.text, blocks))
        if not applied.count:
            return explain_miss(ctx, file, partial(explain, misses=applied.misses))
        said = as_utf8(file.text) if applied.misses else ""
        return await change_file(
            ctx,
            file,
            applied.text,
            tool="appliedDiff",
            payload={"diff": args.diff},
            reads=bool(applied.misses),
            swaps=[line_swap(block.search, block.replace) for block in blocks],
            note=await beside(partial(_note, said, applied)),
        )


def _note(text: str, applied: "Applied") -> str:
    from rookery.core.text.diff_blocks import explain

    if not applied.misses:
        return _HINT if applied.count == 1 else ""
    total = applied.count + len(applied.misses)
    reasons = explain(text, applied.misses)
    return f"Only {applied.count} of {total} blocks were applied.\n\n{reasons}"


TOOL = ApplyDiff()
