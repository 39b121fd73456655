"""The author of a line as recorded in the ledger, without guessing."""

from typing import Any

import pytest

from rookery.governance.ledger.attribution import blame
from rookery.governance.ledger.records import (
    LedgerEntry,
    Link,
    TracedFile,
    build_record,
    line_change,
    plain_lines,
)
from rookery.governance.ledger.traced import TracedRecord, parse_record
from support.each_row import each_row
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
    return parse_record(build_record(entry, id=intent, timestamp="t", writer=WRITER, link=LINK))


def reported(text: str, *records: TracedRecord, path: str = "a.py") -> list[str]:
    return [
        f"{origin.certainty} {origin.record.intent_id}" if origin.record else origin.certainty
        for origin in blame(path, plain_lines(text), records)
    ]


UNKNOWN, ONE, TWO = "unknown", "written INT-001", "written INT-002"
EDITED = "edited since INT-001"


CHANGED = NEW.replace("raise Expired(claims)", "raise TooLate(claims)")
WARNED = NEW.replace("        raise", "        log.warning('late')\n        raise")
SPACED = NEW.replace("    ", "\t").replace("claims = decode(token)", "claims=decode( token )")
NEWER = NEW.replace("decode(token)", "decode(token, KEY)")
LINE = "    claims = decode_the_token(token)\n"
BODY = NEW.splitlines(keepends=True)[3:]
MOVED_IN_PART = "".join(["import time\n", *BODY[2:4], "\n\n", *BODY[:2], BODY[4]])
PART = "def check(claims):\n" + "".join(BODY[2:4]) + "    return None\n"
RECORD = wrote(OLD, NEW)
RENAMED = wrote("", "", path="b.py", op="rename", origin="a.py", intent="INT-002")
WHOLE_LINES = wrote(OLD, NEW, marks=False, line_marks=line_change(OLD, NEW).marks)
TWIN = wrote(OLD, NEW, path="c.py", intent="INT-002")
HERE = {
    "written": (NEW, [RECORD], [*[UNKNOWN] * 3, *[ONE] * 5]),
    "moved": ("# a comment\n# another\n" + NEW, [RECORD], [*[UNKNOWN] * 5, *[ONE] * 5]),
    "edited": (CHANGED, [RECORD], [*[UNKNOWN] * 3, ONE, ONE, ONE, EDITED, ONE]),
    "edited, no marks": (CHANGED, [wrote(OLD, NEW, marks=False)], [UNKNOWN] * 8),
    "marks of lines": (CHANGED, [WHOLE_LINES], [*[UNKNOWN] * 3, ONE, ONE, ONE, EDITED, ONE]),
    "added between": (WARNED, [RECORD], [*[UNKNOWN] * 3, *[ONE] * 3, UNKNOWN, ONE, ONE]),
    "the newest first": (
        NEWER,
        [wrote(NEW, NEWER, intent="INT-002"), RECORD],
        [*[UNKNOWN] * 3, ONE, TWO, ONE, ONE, ONE],
    ),
    "spaced": (SPACED, [RECORD], [*[UNKNOWN] * 3, *[ONE] * 5]),
    "in part": (MOVED_IN_PART, [RECORD], [UNKNOWN, ONE, ONE, UNKNOWN, UNKNOWN, ONE, ONE, ONE]),
    "empty file": ("", [RECORD], []),
    "empty ledger": (NEW, [], [UNKNOWN] * 8),
}
ELSEWHERE = {
    "moved": ("# moved\n" + "".join(BODY), [RECORD], [UNKNOWN, *[ONE] * 5]),
    "a line that tells enough": ("x = 1\n" + LINE, [wrote("", LINE)], [UNKNOWN, ONE]),
    "in two places": (LINE + LINE, [wrote("", LINE)], [UNKNOWN, UNKNOWN]),
    "of two intents": (
        LINE,
        [wrote("", LINE, path="x.py"), wrote("", LINE, path="y.py", intent="INT-002")],
        [UNKNOWN],
    ),
    "renamed": (CHANGED, [RENAMED, RECORD], [*[UNKNOWN] * 3, ONE, ONE, ONE, EDITED, ONE]),
    "in part": (PART, [RECORD], [UNKNOWN, ONE, ONE, UNKNOWN]),
    "in part of two": (PART, [RECORD, TWIN], [UNKNOWN] * 4),
}


@each_row("name", HERE)
def test_who_wrote_the_lines_of_a_file(name: str):
    text, records, lines = HERE[name]
    assert reported(text, *records) == lines


@each_row("name", ELSEWHERE)
def test_who_wrote_lines_that_came_from_another_file(name: str):
    text, records, lines = ELSEWHERE[name]
    assert reported(text, *records, path="b.py") == lines


@pytest.mark.parametrize("line", ["}\n", "\n", "    pass\n", "else:\n"], ids=repr)
def test_plain_lines_are_not_recognised_elsewhere(line: str):
    assert reported("x = 1\n" + line, wrote("", line), path="b.py") == [UNKNOWN, UNKNOWN]
    assert reported(line, wrote("", line)) == [ONE]
