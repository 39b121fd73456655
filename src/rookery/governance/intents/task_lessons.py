"""What a task leaves behind besides its changes: lessons that were earned."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from rookery.core.facts import Ending
from rookery.engine.ports import Action, Outcome
from rookery.governance.criteria.criteria_standing import CHECK_TOOL
from rookery.governance.intents.earned_lessons import (
    CheckRan,
    FileChanged,
    Happening,
    check_type,
    earned,
)
from rookery.governance.intents.lessons import Lesson, LessonType


class Done(Struct, frozen=True, kw_only=True):
    """A call that was made, and the files that are others since."""

    tool: str = ""
    action: Action | None = None
    outcome: Outcome | None = None
    paths: tuple[str, ...] = ()


def lessons_of(done: Sequence[Done], *, at: str, intent_id: str) -> tuple[Lesson, ...]:
    return earned(_happenings(done), at=at, intent_id=intent_id)


def _happenings(done: Sequence[Done]) -> Iterator[Happening]:
    for each in done:
        yield from (FileChanged(path) for path in each.paths)
        if each.action and each.action.command and each.outcome:
            kind = _kind(each.tool, each.action)
            if kind:
                ok = each.outcome.ending is Ending.DONE and not each.outcome.exit_code
                failure = "" if ok else _failure(each.outcome.text)
                yield CheckRan(each.action.command, kind, ok, failure)


def _kind(tool: str, action: Action) -> LessonType | None:
    commands = action.judgement.commands if action.judgement else ()
    kinds = [found for words in commands if (found := check_type(words))]
    return kinds[0] if kinds else LessonType.TEST if tool == CHECK_TOOL else None


def _failure(text: str) -> str:
    """The line that most likely says what was wrong: the last one that names an error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() or "fail" in line.lower()]
    return (telling or lines or [""])[-1]
