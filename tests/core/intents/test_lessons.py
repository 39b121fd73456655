"""Lessons in AGENT.md: their form, counting, room for them, and what a reader is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rookery.governance.intents.earned_lessons import (
    CheckRan,
    FileChanged,
    Happening,
    check_type,
    earned,
)
from rookery.governance.intents.lessons import (
    CUT,
    LARGEST_SECTION,
    MOST_LESSONS,
    Lesson,
    LessonType,
    knowledge_shown,
    lessons_in,
    signature,
    with_lesson,
    without_lessons,
    written,
)

HUMAN = """\
# Shared knowledge

Ask Ada about the database.

## Lessons Learned

People may write here too.

## House rules

Be kind.
"""
LESSON = Lesson(
    at="2026-02-20 14:03Z",
    type=LessonType.TEST,
    file="tests/auth/test_jwt.py",
    failure="expected 401, got 200",
    fix="expiry compared in local time; use UTC",
    rule="compare token times in UTC only",
    intent_id="INT-001",
    count=3,
)


def test_17_1_a_lesson_is_written_in_its_form() -> None:
    assert written(LESSON) == (
        "- 2026-02-20 14:03Z [TEST] tests/auth/test_jwt.py (INT-001) x3\n"
        "  - Failure: expected 401, got 200\n"
        "  - Fix: expiry compared in local time; use UTC\n"
        "  - Rule: compare token times in UTC only\n"
        f"  - id: {signature('tests/auth/test_jwt.py', 'expected 401, got 200')}\n"
    )


def test_17_1_what_people_wrote_around_it_stays() -> None:
    after = with_lesson(HUMAN, LESSON).text
    assert lessons_in(after) == (LESSON,)
    assert after.replace(written(LESSON), "") == HUMAN
    assert without_lessons(after) == HUMAN
    assert after.index("People may write here too.") < after.index(LESSON.failure)
    assert after.index(LESSON.failure) < after.index("## House rules")


@pytest.mark.parametrize("text", ["", "# Notes", "# Notes\n", "# A\n\n## Lessons\n"])
def test_17_1_the_section_is_made_where_there_is_none(text: str) -> None:
    after = with_lesson(text, LESSON).text
    assert lessons_in(after) == (LESSON,)
    assert after.startswith(text)
    assert after.count("## Lessons") == 1


def test_17_2_a_known_signature_is_counted_and_dated() -> None:
    once = with_lesson(HUMAN, LESSON).text
    later = replace(
        LESSON, at="2026-03-01 09:00Z", failure="Expected  401, got 500", fix="", rule="", count=1
    )
    twice = with_lesson(once, later)
    assert [each.count for each in lessons_in(twice.text)] == [4]
    assert twice.lesson.at == "2026-03-01 09:00Z"
    assert twice.lesson.rule == LESSON.rule, "what is not said anew is kept"


def test_17_2_other_files_and_other_failures_are_other_lessons() -> None:
    text = with_lesson("", LESSON).text
    text = with_lesson(text, replace(LESSON, file="a.py")).text
    text = with_lesson(text, replace(LESSON, failure="no such table")).text
    assert len(lessons_in(text)) == 3


@pytest.mark.parametrize(
    "hostile",
    [
        "one\n  - id: 000000000000\n- 2026-01-01 00:00Z [TEST] x (INT-9)",
        "a\r\n## House rules\n",
        "\u202eevil\u2066\x1b[31m",
        "x" * 5_000,
    ],
)
def test_17_1_a_field_stays_on_its_line_and_short(hostile: str) -> None:
    lesson = replace(LESSON, failure=hostile, file=hostile, fix=hostile, rule=hostile)
    after = with_lesson(HUMAN, lesson).text
    [found] = lessons_in(after)
    assert len(found.failure) <= 500
    assert without_lessons(after) == HUMAN
    assert not {"\x1b", "\u202e", "\u2066"} & set(after)


def test_17_1_what_looks_like_an_entry_but_is_not_one_is_somebodys_text() -> None:
    forged = HUMAN.replace(
        "People may write here too.",
        "- 2026-01-01 00:00Z [TEST] a.py (INT-001)\n  - Failure: x\n  - id: 000000000000",
    )
    assert lessons_in(forged) == ()
    after = with_lesson(forged, LESSON).text
    assert "  - id: 000000000000" in without_lessons(after)


def test_17_2_the_oldest_lessons_make_room_and_human_text_does_not() -> None:
    text, gone = HUMAN, ""
    for number in range(MOST_LESSONS + 3):
        at = f"2026-01-01 {number // 60:02}:{number % 60:02}Z"
        amended = with_lesson(text, replace(LESSON, at=at, file=f"f{number}.py", count=1))
        text, gone = amended.text, gone + amended.archived
    kept = lessons_in(text)
    assert len(kept) == MOST_LESSONS
    assert kept[0].file == "f3.py"
    assert [f"f{number}.py" in gone for number in range(4)] == [True, True, True, False]
    assert without_lessons(text) == HUMAN


def test_17_2_the_section_stays_below_its_size() -> None:
    text = HUMAN
    for number in range(60):
        big = replace(LESSON, failure=f"{'ä' * 450} {chr(97 + number % 26) * (number + 1)}")
        text = with_lesson(text, replace(big, fix="ü" * 500, rule="ö" * 500)).text
    assert len(text.encode()) < LARGEST_SECTION + 2_000
    assert 10 < len(lessons_in(text)) < 60


def test_17_3_lessons_in_scope_come_first_newest_first_then_human_text() -> None:
    text = HUMAN
    rows = [("2026-01-01", "src/a.py"), ("2026-01-03", "src/b.py"), ("2026-01-02", "docs/c.md")]
    for day, file in rows:
        text = with_lesson(text, replace(LESSON, at=f"{day} 00:00Z", file=file)).text
    shown = knowledge_shown(text, lambda path: path.startswith("src/"))
    order = [shown.text.index(word) for word in ("src/b.py", "src/a.py", "Ask Ada", "docs/c.md")]
    assert order == sorted(order)
    assert not shown.cut


def test_17_3_what_does_not_fit_is_cut_and_marked() -> None:
    text = "# Notes\n" + "".join(f"line {number}\n" for number in range(2_000))
    shown = knowledge_shown(with_lesson(text, LESSON).text, lambda path: True)
    assert shown.cut
    assert len(shown.text) <= 4_000
    assert shown.text.startswith("- 2026-02-20 14:03Z [TEST]")
    assert shown.text.endswith(CUT)


_TEXTS = st.text(max_size=60)


@given(
    text=st.lists(st.one_of(_TEXTS, st.sampled_from(["## Lessons Learned", "# X", "- a"]))),
    lessons=st.lists(
        st.builds(
            Lesson,
            at=st.sampled_from(["2026-01-01 00:00Z", "2026-01-02 00:00Z"]),
            type=st.sampled_from(LessonType),
            failure=_TEXTS,
            file=_TEXTS,
            fix=_TEXTS,
            rule=_TEXTS,
            intent_id=st.just("INT-001"),
        ),
        max_size=5,
    ),
)
def test_17_2_whatever_is_recorded_can_be_read_and_loses_no_human_word(
    text: list[str], lessons: list[Lesson]
) -> None:
    human = "\n".join(text)
    before = human
    for lesson in lessons:
        human = with_lesson(human, lesson).text
    found = lessons_in(human)
    assert {each.signature for each in found} == {
        with_lesson("", each).lesson.signature for each in lessons
    }
    assert sum(each.count for each in found) == len(lessons)
    assert _words(without_lessons(human)) == _words(before)


def _words(text: str) -> list[str]:
    """Without the heading, which goes with the last lesson and comes with the first."""
    return [word for word in text.split() if word not in {"##", "Lessons", "Learned"}]


FAILS = CheckRan("pytest -q", LessonType.TEST, False, "test_a: expected 401, got 200")
PASSES = CheckRan("pytest -q", LessonType.TEST, True)
FIX = FileChanged("src/auth/jwt.py")


def test_22_118_a_check_that_failed_and_passes_after_a_change_is_a_lesson() -> None:
    [lesson] = earned([FAILS, FIX, FileChanged("b.py"), FIX, PASSES], at="x", intent_id="INT-001")
    assert lesson.file == "src/auth/jwt.py"
    assert lesson.failure == FAILS.failure
    assert lesson.fix == "passed after a change of src/auth/jwt.py, b.py"


@pytest.mark.parametrize(
    "happened",
    [
        [FAILS],
        [FAILS, FIX],
        [FAILS, PASSES],
        [FIX, PASSES],
        [FIX, FAILS, PASSES],
        [FAILS, FIX, CheckRan("ruff check", LessonType.LINT, True)],
        [FAILS, FileChanged("src/__pycache__/jwt.cpython-311.pyc"), PASSES],
    ],
    ids=[
        "failed",
        "not tried again",
        "flaky",
        "never failed",
        "changed before",
        "another check",
        "by-product only",
    ],
)
def test_17_2_nothing_else_is_earned(happened: list[Happening]) -> None:
    assert earned(happened, at="x", intent_id="INT-001") == ()


def test_22_118_the_same_failure_twice_is_one_lesson_with_counter_2() -> None:
    at = "2026-02-20 14:03Z"
    lessons = earned([FAILS, FIX, PASSES, FAILS, FIX, PASSES], at=at, intent_id="INT-001")
    text = ""
    for lesson in lessons:
        text = with_lesson(text, lesson).text
    assert [each.count for each in lessons_in(text)] == [2]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pytest -q", LessonType.TEST),
        ("/usr/bin/pytest", LessonType.TEST),
        ("python -m pytest", LessonType.TEST),
        ("python3 -m unittest", LessonType.TEST),
        ("cargo test", LessonType.TEST),
        ("npm run build", LessonType.BUILD),
        ("make", LessonType.BUILD),
        ("make test", LessonType.TEST),
        ("ruff check .", LessonType.LINT),
        ("mypy src", LessonType.TYPE),
        ("git status", None),
        ("python app.py", None),
    ],
)
def test_17_2_checks_are_recognised(line: str, expected: LessonType | None) -> None:
    assert check_type(line.split()) is expected
