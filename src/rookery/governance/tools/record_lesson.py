"""Leave a note for whoever works here next."""

from collections.abc import Awaitable, Callable
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Struct

from rookery.engine.ports import Action, Outcome, Permit, ToolContext, ToolGroup
from rookery.errors import BadArguments


class RecordLessonArgs(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["LINT", "TEST", "TYPE", "BUILD", "ANALYSIS", "OTHER"]
    failure: Annotated[str, msgspec.Meta(description="What went wrong, in a sentence.")]
    file: str = ""
    fix: str = ""
    rule: Annotated[str, msgspec.Meta(description="What to do next time.")] = ""


class LessonSaid(Struct, frozen=True, kw_only=True):
    """A lesson as a model tells it."""

    type: str
    failure: str
    file: str = ""
    fix: str = ""
    rule: str = ""


class RecordLesson:
    name: ClassVar[str] = "record_lesson"
    description: ClassVar[str] = (
        "Record what you learned from a failure that you have mended, for everybody who works on "
        "this project."
    )
    arguments: ClassVar[type[msgspec.Struct]] = RecordLessonArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS

    def __init__(self, record: Callable[[LessonSaid, str], Awaitable[str]]) -> None:
        self._record = record

    async def prepare(self, args: RecordLessonArgs, ctx: ToolContext) -> Action:
        if not args.failure.strip():
            raise BadArguments("record_lesson was called without a failure. Say what went wrong.")
        lesson = LessonSaid(
            type=args.type, failure=args.failure, file=args.file, fix=args.fix, rule=args.rule
        )

        async def perform(permit: Permit) -> Outcome:
            return Outcome(text=await self._record(lesson, ctx.call_id))

        return Action(
            title="Record a lesson",
            perform=perform,
            payload={"tool": "recordLesson", "content": args.failure},
        )
