"""Findings end up at lines of the diff, once each, in its order."""

import pytest

from rookery.diffs.findings import ReviewFinding, Severity, place
from rookery.diffs.unified import read_diff

DIFF = b"""\
diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -10,3 +10,4 @@
 ten
+eleven
 twelve
 thirteen
@@ -50,3 +51,2 @@
 fifty-one
-gone
 fifty-two
diff --git a/old.py b/new.py
rename from old.py
rename to new.py
--- a/old.py
+++ b/new.py
@@ -1 +1 @@
-a
+b
diff --git a/gone.py b/gone.py
deleted file mode 100644
--- a/gone.py
+++ /dev/null
@@ -1,3 +0,0 @@
-a
-b
-c
"""
FILES = read_diff(DIFF)


def finding(
    path: str = "a.py",
    line: int = 11,
    end_line: int | None = None,
    title: str = "Wrong",
    severity: Severity = "error",
    explanation: str = "",
) -> ReviewFinding:
    return ReviewFinding(
        severity=severity,
        path=path,
        line=line,
        end_line=end_line,
        title=title,
        explanation=explanation,
    )


PLACES = {
    "an added line": (finding(line=11), ("a.py", 11, 11)),
    "a context line": (finding(line=13), ("a.py", 13, 13)),
    "lines of one hunk": (finding(line=11, end_line=12), ("a.py", 11, 12)),
    "lines that leave the hunk": (finding(line=12, end_line=90), ("a.py", 12, 13)),
    "a line between hunks": (finding(line=20), ("a.py", 11, 11)),
    "near lines that were only removed": (finding(line=70), ("a.py", 51, 51)),
    "a negative line": (finding(line=-4), ("a.py", 11, 11)),
    "a huge line": (finding(line=10**30), ("a.py", 51, 51)),
    "an end before the start": (finding(line=12, end_line=2), ("a.py", 12, 12)),
    "the old name of a renamed file": (finding(path="old.py", line=1), ("new.py", 1, 1)),
    "a prefix of git": (finding(path="b/a.py"), ("a.py", 11, 11)),
    "a relative path": (finding(path="./a.py"), ("a.py", 11, 11)),
    "a removed file": (finding(path="gone.py", line=2), ("gone.py", 2, 2)),
    "another file": (finding(path="b.py"), None),
    "a file outside": (finding(path="../../etc/passwd"), None),
}


@pytest.mark.parametrize(("found", "expected"), PLACES.values(), ids=PLACES.keys())
def test_a_finding_is_placed_in_the_diff(
    found: ReviewFinding, expected: tuple[str, int, int] | None
):
    placed = place([found], FILES)
    where = [(each.path, each.line, each.end_line) for each in placed.findings]
    assert where == ([expected] if expected else [])
    assert placed.dropped == (0 if expected else 1)


def test_findings_are_in_the_order_of_the_diff_and_the_worst_first():
    found = [
        finding("gone.py", 1, title="d"),
        finding("new.py", 1, title="c"),
        finding("a.py", 12, title="b"),
        finding("a.py", 11, title="a2", severity="note"),
        finding("a.py", 11, title="a1"),
    ]
    assert [each.title for each in place(found, FILES).findings] == ["a1", "a2", "b", "c", "d"]


def test_the_same_fault_is_reported_once_with_the_worse_severity_and_the_longer_explanation():
    found = [
        finding(title="Off by one", severity="note", explanation="Short."),
        finding(title="off-by-one", line=11, end_line=12, explanation="Much longer."),
        finding(title="Off by one", path="new.py", line=1),
    ]
    first, second = place(found, FILES).findings
    assert (first.severity, first.end_line, first.explanation) == ("error", 12, "Much longer.")
    assert second.path == "new.py"


def test_a_finding_cannot_steer_a_terminal():
    found = finding(title="a\x1b[2J\nb\u202e", explanation="x\x07\x1b]0;title\x07\ny")
    [clean] = place([found], FILES).findings
    assert clean.title == "a␛[2J b<U+202E>"
    assert clean.explanation == "x␇␛]0;title␇\ny"
