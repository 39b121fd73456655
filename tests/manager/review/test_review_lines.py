"""The lines of a diff turn any old text into the new one."""

import shutil
import tempfile
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rookery.manager.review.file_sides import ChangedLine, line_changes

GIT = shutil.which("git") or ""
PIECES = (
    *(b"a\n", b"b\n", b"c\r\n", b"\n", b"\r\n", b"\rmiddle", b"\0", b"\xff\xfe", b"no end"),
    *(b"@@ -1 +1 @@\n", b"\\ No newline at end of file\n", b"--- a\n", b"+++ b\n", b"-\n", b"+\n"),
)
TEXTS = st.one_of(
    st.binary(max_size=60), st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)
)


def rows_of(text: bytes) -> list[bytes]:
    rows = text.split(b"\n")
    return [*(row + b"\n" for row in rows[:-1]), *([rows[-1]] if rows[-1] else [])]


def applied(old: bytes, lines: Sequence[ChangedLine]) -> bytes:
    """Rebuild the new text from the lines alone, and check every line number."""
    before, made = rows_of(old), list[bytes]()
    at = 0
    for line in lines:
        assert line.old in (None, at + 1)
        assert line.new in (None, len(made) + 1)
        if line.kind == "gap":
            made += before[at : at + line.left_out]
            at += line.left_out
            continue
        if line.kind != "added":
            assert before[at] == line.data
            at += 1
        if line.kind != "removed":
            made.append(line.data)
    assert at == len(before)
    return b"".join(made)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(old=TEXTS, new=TEXTS, context=st.sampled_from([0, 1, 3, 10**9]))
def test_the_lines_of_a_diff_rebuild_the_new_text(old: bytes, new: bytes, context: int):
    lines = line_changes(GIT, old, new, context=context)
    assert (lines == ()) == (old == new)
    if lines:
        assert applied(old, lines) == new


def test_unchanged_lines_are_omitted_and_counted():
    old = b"".join(b"%d\n" % n for n in range(1, 21))
    lines = line_changes(GIT, old, old.replace(b"\n10\n", b"\nten\n"), context=1)
    assert [(line.kind, line.old, line.new, line.left_out) for line in lines] == [
        ("gap", 1, 1, 8),
        ("same", 9, 9, 0),
        ("removed", 10, None, 0),
        ("added", None, 10, 0),
        ("same", 11, 11, 0),
        ("gap", 12, 12, 9),
    ]
    assert "gap" not in [line.kind for line in line_changes(GIT, old, b"", context=99)]


def test_a_missing_or_different_line_end_is_a_difference():
    kinds = [(line.kind, line.data) for line in line_changes(GIT, b"a\nb", b"a\r\nb\n")]
    assert kinds == [("removed", b"a\n"), ("removed", b"b"), ("added", b"a\r\n"), ("added", b"b\n")]


def test_global_git_settings_and_attributes_are_ignored(monkeypatch: pytest.MonkeyPatch):
    """Neither settings for all repositories, nor attributes of a folder above."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {
            ".gitattributes": "* -diff diff=evil\n",
            ".gitconfig": "[diff]\n\texternal = touch ran; false\n[color]\n\tui = always\n",
        }.items():
            with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setenv("HOME", folder)
        monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
        assert [line.data for line in line_changes(GIT, b"", b"new\n")] == [b"new\n"]
