"""Who wrote a line: what the ledger tells of it, and nothing that is guessed."""

from typing import Any

import pytest

from rookery.governance.ledger.attribution import blame
from rookery.governance.ledger.records import (
    LedgerEntry,
    Link,
    TracedFile,
    line_change,
    plain_lines,
    record_of,
)
from rookery.governance.ledger.traced import TracedRecord, traced
from support.sample_ledgers import WRITER

LINK = Link(stream="01JMZ3V9K6T2Q8R4W0XYABCDEF", seq=0, prev=None)
OLD = "import time\n\n\ndef verify(token):\n    return True\n"
NEW = (
    "import time\n\n\ndef verify(token: str) -> Claims:\n    claims = decode(token)\n"
    "    if claims.exp < utcnow():\n        raise Expired(claims)\n    return claims\n"
)


def wrote(
    old: str,
    new: str,
    *,
    path: str = "a.py",
    intent: str = "INT-001",
    marks: bool = True,
    **more: Any,
) -> TracedRecord:
    found = line_change(old, new)
    file = TracedFile(
        **{
            "path": path,
            "op": "modify",
            "ranges": found.written,
            "word_marks": found.words if marks else "",
            **more,
        }
    )
    entry = LedgerEntry(kind="mutation", task_id="t", intent_id=intent, files=(file,))
    return traced(record_of(entry, id=intent, timestamp="t", writer=WRITER, link=LINK))


def told(text: str, *records: TracedRecord, path: str = "a.py") -> list[str]:
    return [
        f"{origin.certainty} {origin.record.intent_id}" if origin.record else origin.certainty
        for origin in blame(path, plain_lines(text), records)
    ]


UNKNOWN, ONE, TWO = "unknown", "written INT-001", "written INT-002"
EDITED = "edited since INT-001"


def test_lines_written_are_told_from_lines_found():
    assert told(NEW, wrote(OLD, NEW)) == [UNKNOWN] * 3 + [ONE] * 5


def test_lines_are_found_where_they_moved():
    moved = "# a comment\n# another\n" + NEW
    assert told(moved, wrote(OLD, NEW)) == [UNKNOWN] * 5 + [ONE] * 5


@pytest.mark.parametrize("marks", [True, False], ids=["with marks", "without"])
def test_a_range_that_was_edited_is_edited_since(marks: bool):
    edited = NEW.replace("raise Expired(claims)", "raise TooLate(claims)")
    lines = told(edited, wrote(OLD, NEW, marks=marks))
    if marks:
        assert lines == [UNKNOWN] * 3 + [ONE, ONE, ONE, EDITED, ONE]
    else:
        assert lines == [UNKNOWN] * 8


def test_lines_added_between_are_nobodys():
    more = NEW.replace("        raise", "        log.warning('late')\n        raise")
    assert told(more, wrote(OLD, NEW)) == [UNKNOWN] * 3 + [ONE] * 3 + [UNKNOWN] + [ONE] * 2


def test_the_newest_record_has_the_first_word():
    newer = NEW.replace("decode(token)", "decode(token, KEY)")
    lines = told(newer, wrote(NEW, newer, intent="INT-002"), wrote(OLD, NEW))
    assert lines == [UNKNOWN] * 3 + [ONE, TWO, ONE, ONE, ONE]


def test_lines_moved_to_another_file_are_found_by_their_hash():
    there = "\n".join(NEW.splitlines()[3:]) + "\n"
    assert told("# moved\n" + there, wrote(OLD, NEW), path="b.py") == [UNKNOWN] + [ONE] * 5


def test_a_single_line_that_tells_enough_is_found_elsewhere():
    line = "    claims = decode_the_token(token)\n"
    assert told("x = 1\n" + line, wrote("", line), path="b.py") == [UNKNOWN, ONE]


@pytest.mark.parametrize("line", ["}\n", "\n", "    pass\n", "else:\n"], ids=repr)
def test_plain_lines_are_not_recognised_elsewhere(line: str):
    assert told("x = 1\n" + line, wrote("", line), path="b.py") == [UNKNOWN, UNKNOWN]
    assert told(line, wrote("", line)) == [ONE]


def test_the_same_words_of_two_intents_are_nobodys_elsewhere():
    line = "    claims = decode_the_token(token)\n"
    both = [wrote("", line, path="x.py"), wrote("", line, path="y.py", intent="INT-002")]
    assert told(line, *both) == [UNKNOWN]


def test_the_same_words_in_two_places_are_nobodys():
    line = "    claims = decode_the_token(token)\n"
    assert told(line + line, wrote("", line), path="b.py") == [UNKNOWN, UNKNOWN]


def test_a_renamed_file_keeps_its_lines():
    renamed = wrote("", "", path="b.py", op="rename", origin="a.py", intent="INT-002")
    edited = NEW.replace("raise Expired(claims)", "raise TooLate(claims)")
    lines = told(edited, renamed, wrote(OLD, NEW), path="b.py")
    assert lines == [UNKNOWN] * 3 + [ONE, ONE, ONE, EDITED, ONE]


def test_an_empty_file_and_an_empty_ledger():
    assert told("", wrote(OLD, NEW)) == []
    assert told(NEW) == [UNKNOWN] * 8


def test_lines_that_were_only_spaced_in_another_way_keep_their_record():
    spaced = NEW.replace("    ", "\t").replace("claims = decode(token)", "claims=decode( token )")
    assert told(spaced, wrote(OLD, NEW)) == [UNKNOWN] * 3 + [ONE] * 5


def test_a_part_of_a_range_that_moved_within_the_file_keeps_its_record():
    first, *rest = NEW.splitlines(keepends=True)[3:]
    moved = "".join(["import time\n", *rest[1:3], "\n\n", first, rest[0], rest[3]])
    assert told(moved, wrote(OLD, NEW)) == [UNKNOWN, ONE, ONE, UNKNOWN, UNKNOWN, ONE, ONE, ONE]


def test_a_part_of_a_range_that_moved_to_another_file_keeps_its_record():
    part = "".join(NEW.splitlines(keepends=True)[5:7])
    text = f"def check(claims):\n{part}    return None\n"
    assert told(text, wrote(OLD, NEW), path="b.py") == [UNKNOWN, ONE, ONE, UNKNOWN]
    other = wrote(OLD, NEW, path="c.py", intent="INT-002")
    assert told(text, wrote(OLD, NEW), other, path="b.py") == [UNKNOWN] * 4


def test_records_with_marks_of_whole_lines_are_still_read():
    found = line_change(OLD, NEW)
    old = wrote(OLD, NEW, marks=False, line_marks=found.marks)
    edited = NEW.replace("raise Expired(claims)", "raise TooLate(claims)")
    assert told(edited, old) == [UNKNOWN] * 3 + [ONE, ONE, ONE, EDITED, ONE]
