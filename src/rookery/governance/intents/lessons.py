"""The lessons in `AGENT.md`: how they are written, counted, and chosen for a reader.

People own the file. The host owns the entries of its own form in one section, and nothing else:
whatever is not exactly such an entry is somebody's text and stays where it is. A lesson that is
learned again is counted, not repeated.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from enum import StrEnum
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.limits import KIB

HEADING = "## Lessons Learned"
LONGEST_FAILURE = 500
LONGEST_FIELD = 500
MOST_LESSONS = 200
LARGEST_SECTION = 64 * KIB
MOST_SHOWN = 4_000
CUT = "[... cut: there is more in AGENT.md]\n"

_HEADINGS = re.compile(r"^## Lessons(?: Learned)?[ \t]*$", re.MULTILINE)
_NEXT_SECTION = re.compile(r"^#{1,2} ", re.MULTILINE)
_ENTRY = re.compile(
    r"^- (?P<at>\d{4}-\d\d-\d\d \d\d:\d\dZ) \[(?P<type>[A-Z]+)\](?: (?P<file>\S[^\n]*?))?"
    r" \((?P<intent>[A-Za-z][A-Za-z0-9_.-]{0,63})\)(?: x(?P<count>\d{1,6}))?\n"
    r"  - Failure: (?P<failure>[^\n]*)\n"
    r"(?:  - Fix: (?P<fix>[^\n]*)\n)?"
    r"(?:  - Rule: (?P<rule>[^\n]*)\n)?"
    r"  - id: (?P<id>[0-9a-f]{12})(?:\n|\Z)",
    re.MULTILINE,
)
_NUMBERS = re.compile(r"0x[0-9a-f]+|[0-9a-f]{12,}|\d+(?:\.\d+)*")


class LessonType(StrEnum):
    LINT = "LINT"
    TEST = "TEST"
    TYPE = "TYPE"
    BUILD = "BUILD"
    ANALYSIS = "ANALYSIS"
    OTHER = "OTHER"


class Lesson(Struct, frozen=True, kw_only=True):
    """`at` is in UTC, to the minute: `2026-02-20 14:03Z`. `count` is how often it was learned."""

    at: str
    type: LessonType
    failure: str
    intent_id: str
    file: str = ""
    fix: str = ""
    rule: str = ""
    count: int = 1

    @property
    def signature(self) -> str:
        return signature(self.file, self.failure)


class Amended(Struct, frozen=True, kw_only=True):
    """`text` is the file after a lesson was added to it, `lesson` the entry it now holds, and
    `archived` what had to make room, for another file."""

    text: str
    lesson: Lesson
    archived: str = ""


class Knowledge(Struct, frozen=True, kw_only=True):
    text: str
    cut: bool = False


def signature(file: str, failure: str) -> str:
    """The same for failures that differ only in numbers, spaces and letter case."""
    plain = _NUMBERS.sub("#", " ".join(_one_line(failure, LONGEST_FAILURE).lower().split()))
    return sha256(f"{_one_line(file, LONGEST_FIELD)}\n{plain}".encode()).hexdigest()[:12]


def lessons_in(text: str) -> tuple[Lesson, ...]:
    """In the order in which they stand there."""
    section = _section(text)
    return tuple(_lesson(found) for found in _ENTRY.finditer(section.body) if _whole(found))


def without_lessons(text: str) -> str:
    """What people wrote."""
    section = _section(text)
    body = _ENTRY.sub(lambda found: "" if _whole(found) else found[0], section.body)
    heading = section.heading if body.strip() else ""
    return f"{section.before}{heading}{body if body.strip() else ''}{section.after}"


def with_lesson(text: str, lesson: Lesson) -> Amended:
    """A known lesson is counted and dated; a new one is added at the section's end."""
    lesson = _cleaned(lesson)
    section = _section(text)
    body, known = section.body, lesson.signature
    for found in _ENTRY.finditer(body):
        if _whole(found) and found["id"] == known:
            lesson = _again(_lesson(found), lesson)
            body = body[: found.start()] + body[found.end() :]
            break
    said = body.rstrip("\n")
    blank = body[len(said) + 1 :]
    body, archived = _with_room(f"{_closed(said)}{written(lesson)}{blank}")
    heading = section.heading or f"{HEADING}\n\n"
    before = _closed(section.before) + ("\n" if section.before and not section.heading else "")
    return Amended(text=f"{before}{heading}{body}{section.after}", lesson=lesson, archived=archived)


def written(lesson: Lesson) -> str:
    place = f" {lesson.file}" if lesson.file else ""
    count = f" x{lesson.count}" if lesson.count > 1 else ""
    lines = [
        f"- {lesson.at} [{lesson.type}]{place} ({lesson.intent_id}){count}",
        f"  - Failure: {lesson.failure}",
        *([f"  - Fix: {lesson.fix}"] if lesson.fix else []),
        *([f"  - Rule: {lesson.rule}"] if lesson.rule else []),
        f"  - id: {lesson.signature}",
    ]
    return "\n".join(lines) + "\n"


def knowledge_shown(
    text: str, covers: Callable[[str], bool], *, most: int = MOST_SHOWN
) -> Knowledge:
    """For somebody who works in a scope: what was learned there, newest first, then what people
    wrote, from the top, then the other lessons. A lesson about no file is about every one."""
    lessons = sorted(lessons_in(text), key=lambda each: each.at, reverse=True)
    near = [each for each in lessons if not each.file or covers(each.file)]
    far = [each for each in lessons if each not in near]
    human = without_lessons(text).strip()
    pieces = [
        *map(written, near),
        *(line for line in f"{human}\n".splitlines(keepends=True) if human),
        *map(written, far),
    ]
    return _fitting(pieces, most)


def _fitting(pieces: Sequence[str], most: int) -> Knowledge:
    whole = "".join(pieces)
    if len(whole) <= most:
        return Knowledge(text=whole)
    kept, room = "", most - len(CUT)
    for piece in pieces:
        if len(kept) + len(piece) > room:
            break
        kept += piece
    return Knowledge(text=(kept + CUT)[:most], cut=True)


class _Section(Struct, frozen=True, kw_only=True):
    """A text in four parts, which put together are the text again."""

    before: str
    heading: str = ""
    body: str = ""
    after: str = ""


def _section(text: str) -> _Section:
    found = _HEADINGS.search(text)
    if found is None:
        return _Section(before=text)
    start = found.end()
    start += len(text[start:]) - len(text[start:].lstrip("\n"))
    following = _NEXT_SECTION.search(text, start)
    end = following.start() if following else len(text)
    heading = text[found.start() : start]
    return _Section(
        before=text[: found.start()],
        heading=heading if heading.endswith("\n\n") else f"{heading.rstrip()}\n\n",
        body=text[start:end],
        after=text[end:],
    )


def _whole(found: re.Match[str]) -> bool:
    """Whether it is an entry of ours: its id is what its words come to."""
    return found["type"] in LessonType.__members__ and found["id"] == signature(
        found["file"] or "", found["failure"]
    )


def _lesson(found: re.Match[str]) -> Lesson:
    return Lesson(
        at=found["at"],
        type=LessonType(found["type"]),
        failure=found["failure"],
        intent_id=found["intent"],
        file=found["file"] or "",
        fix=found["fix"] or "",
        rule=found["rule"] or "",
        count=int(found["count"] or 1),
    )


def _again(old: Lesson, new: Lesson) -> Lesson:
    """What is said anew counts; what is not said anew is kept."""
    return replace(
        new, fix=new.fix or old.fix, rule=new.rule or old.rule, count=old.count + new.count
    )


def _cleaned(lesson: Lesson) -> Lesson:
    return replace(
        lesson,
        file=_one_line(lesson.file, LONGEST_FIELD),
        failure=_one_line(lesson.failure, LONGEST_FAILURE),
        fix=_one_line(lesson.fix, LONGEST_FIELD),
        rule=_one_line(lesson.rule, LONGEST_FIELD),
    )


def _one_line(text: str, most: int) -> str:
    """Without characters that could make two entries of one, or hide something."""
    plain = "".join(" " if unicodedata.category(sign)[0] in "CZ" else sign for sign in text)
    line = " ".join(plain.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _with_room(body: str) -> tuple[str, str]:
    """The oldest entries go until the section is small enough. What people wrote stays."""
    entries = [found for found in _ENTRY.finditer(body) if _whole(found)]
    oldest = sorted(entries, key=lambda found: (found["at"], found.start()))
    size, count = len(body.encode()), len(entries)
    gone: list[re.Match[str]] = []
    for found in oldest[:-1]:
        if count <= MOST_LESSONS and size <= LARGEST_SECTION:
            break
        gone.append(found)
        size, count = size - len(found[0].encode()), count - 1
    for found in sorted(gone, key=lambda each: each.start(), reverse=True):
        body = body[: found.start()] + body[found.end() :]
    return body, "".join(found[0] for found in gone)


def _closed(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
