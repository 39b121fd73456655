"""AGENT.md on disk: several writers, links, and a file nobody can read."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from intent_files import laid_out
from rookery.errors import RookeryError
from rookery.governance.intents.lessons import MOST_LESSONS, Lesson, LessonType, lessons_in, written
from rookery.governance.intents.shared_knowledge import ARCHIVE, SharedKnowledge
from rookery.governance.layout import Layout, init
from warm_programs import start_program

LESSON = Lesson(
    at="2026-02-20 14:03Z",
    type=LessonType.TEST,
    file="a.py",
    failure="expected 401, got 200",
    intent_id="INT-001",
)


def test_22_118_the_same_lesson_twice_is_one_with_counter_2(tmp_path: Path) -> None:
    init(tmp_path)
    knowledge = SharedKnowledge(Layout(tmp_path, tmp_path))
    knowledge.record(LESSON)
    assert knowledge.record(replace(LESSON, failure="Expected 401, got 500")).count == 2
    assert [each.count for each in lessons_in(knowledge.read())] == [2]
    assert "What everybody who works here should know." in knowledge.read()


def test_without_a_file_nothing_is_known_and_the_first_lesson_makes_it(tmp_path: Path) -> None:
    knowledge = SharedKnowledge(laid_out(tmp_path))
    assert knowledge.read() == ""
    knowledge.record(LESSON)
    assert lessons_in(knowledge.read()) == (LESSON,)


RECORD_SOME = """
import sys
from pathlib import Path
from rookery.governance.intents.lessons import Lesson, LessonType
from rookery.governance.layout import Layout
from rookery.governance.intents.shared_knowledge import SharedKnowledge
root = Path(sys.argv[1])
facts = {"at": "2026-02-20 14:03Z", "failure": "expected 401, got 200", "intent_id": "INT-001"}
for number in range(10):
    name = f"{sys.argv[2]}{number % 5}.py"
    lesson = Lesson(type=LessonType.TEST, file=name, **facts)
    SharedKnowledge(Layout(root, root)).record(lesson)
"""


def test_17_2_writers_in_several_processes_lose_nothing(tmp_path: Path) -> None:
    layout = laid_out(tmp_path)
    writers = [start_program(RECORD_SOME, str(layout.root), each) for each in "abc"]
    assert [each.wait(60) for each in writers] == [0, 0, 0]
    lessons = lessons_in(SharedKnowledge(layout).read())
    assert len(lessons) == 15
    assert {each.count for each in lessons} == {2}


def test_17_2_what_makes_room_moves_to_the_archive(tmp_path: Path) -> None:
    layout = laid_out(tmp_path)
    knowledge = SharedKnowledge(layout)
    old = [replace(LESSON, at="2026-01-01 00:00Z", file=f"f{n}.py") for n in range(MOST_LESSONS)]
    body = "".join(map(written, old))
    layout.knowledge_file.write_text(f"Mine.\n\n## Lessons Learned\n\n{body}", encoding="utf-8")
    knowledge.record(LESSON)
    assert "f0.py" in (layout.folder / ARCHIVE).read_text(encoding="utf-8")
    assert "f0.py" not in knowledge.read()
    assert knowledge.read().startswith("Mine.\n")


@pytest.mark.parametrize("linked", ["AGENT.md", ".state"])
def test_a_link_is_not_written_through(tmp_path: Path, linked: str) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    root.mkdir()
    layout = laid_out(root)
    if linked == "AGENT.md":
        elsewhere.write_text("theirs\n", encoding="utf-8")
    else:
        elsewhere.mkdir()
    (layout.folder / linked).symlink_to(elsewhere)
    with pytest.raises(RookeryError):
        SharedKnowledge(layout).record(LESSON)
    if linked == "AGENT.md":
        assert elsewhere.read_text(encoding="utf-8") == "theirs\n"
    else:
        assert list(elsewhere.iterdir()) == []


def test_what_is_no_text_is_left_alone(tmp_path: Path) -> None:
    layout = laid_out(tmp_path)
    layout.knowledge_file.write_bytes(b"\xff\xfe")
    with pytest.raises(RookeryError, match="not UTF-8"):
        SharedKnowledge(layout).record(LESSON)
    assert layout.knowledge_file.read_bytes() == b"\xff\xfe"
