"""Parsing patches and applying them to a file's text."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.text.patch_places import Lost, Pointless, explain, patched
from rookery.core.text.patch_text import (
    Addition,
    Deletion,
    Hunk,
    MalformedPatch,
    PatchRow,
    Sign,
    Update,
    parse,
)
from support.each_row import each_row
from support.timeouts import patience

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))

KEPT, REMOVED, ADDED = Sign


def patch(*rows: str) -> str:
    return "\n".join(["*** Begin Patch", *rows, "*** End Patch"])


def rows(*said: str) -> tuple[PatchRow, ...]:
    return tuple(PatchRow(Sign(row[0]), row[1:]) for row in said)


def hunks(*said: str) -> tuple[Hunk, ...]:
    parsed = parse(patch("*** Update File: a", *said))
    assert not isinstance(parsed, MalformedPatch), parsed
    (update,) = parsed
    assert isinstance(update, Update)
    return update.hunks


ALL_KINDS = (
    "*** Add File: new.txt",
    "+one",
    "+",
    "*** Delete File: old.txt",
    "*** Update File: a.txt",
    "*** Move to: b.txt",
    "@@ def f():",
    "-x",
    "+y",
)
READ = (
    Addition(2, "new.txt", "one\n\n"),
    Deletion(5, "old.txt"),
    Update(6, "a.txt", (Hunk(8, ("def f():",), rows("-x", "+y")),), "b.txt"),
)


def test_a_patch_is_read():
    assert parse(patch(*ALL_KINDS)) == READ


@each_row(
    "wrapped",
    [
        pytest.param("<<EOF\n{}\nEOF", id="heredoc"),
        pytest.param("<<'EOF'\n{}\nEOF\n", id="single quotes"),
        pytest.param('<<"EOF"\n{}\nEOF', id="double quotes"),
        pytest.param("<<'END_OF_IT'\n{}", id="never closed"),
        pytest.param("apply_patch <<EOF\n{}\nEOF", id="with the command"),
    ],
)
def test_a_heredoc_around_the_patch_is_tolerated(wrapped: str):
    parsed = parse(wrapped.format(patch(*ALL_KINDS)))
    assert not isinstance(parsed, MalformedPatch)
    assert [type(section) for section in parsed] == [Addition, Deletion, Update]


@each_row("blank", ["", "\n", "\n \n"])
def test_blank_lines_around_a_patch_and_its_line_ends_do_not_matter(blank: str):
    text = f"{blank}{patch(*ALL_KINDS)}{blank}".replace("\n", "\r\n")
    parsed = parse(text)
    assert not isinstance(parsed, MalformedPatch)
    assert [section.path for section in parsed] == ["new.txt", "old.txt", "a.txt"]
    assert parsed[0] == Addition(READ[0].line + blank.count("\n"), "new.txt", "one\n\n")


@each_row(
    ("said", "read"),
    [
        pytest.param((" a", "-b"), [Hunk(3, (), rows(" a", "-b"))], id="no @@ at first"),
        pytest.param(("@@", "-b"), [Hunk(3, (), rows("-b"))], id="@@ alone"),
        pytest.param(("@@", "-b", "@@ c", "+d"),
                     [Hunk(3, (), rows("-b")), Hunk(5, ("c",), rows("+d"))], id="two hunks"),
        pytest.param(("@@ class A", "@@ def f", "-b"),
                     [Hunk(3, ("class A", "def f"), rows("-b"))], id="one context in another"),
        pytest.param(("@@", " a", "", "-b"),
                     [Hunk(3, (), rows(" a", " ", "-b"))], id="an empty line is context"),
        pytest.param(("-b", "*** End of File"),
                     [Hunk(3, (), rows("-b"), at_end=True)], id="end of file"),
        pytest.param(("@@", "-b", "*** End of File", "", "@@", "-c"),
                     [Hunk(3, (), rows("-b"), at_end=True), Hunk(7, (), rows("-c"))],
                     id="a hunk after the end"),
        pytest.param((" *** Delete File: x", "-b"),
                     [Hunk(3, (), rows(" *** Delete File: x", "-b"))], id="markers as text"),
        pytest.param(("@@   def f", "-\tb"),
                     [Hunk(3, ("  def f",), rows("-\tb"))], id="blanks stay"),
    ],
)  # fmt: skip
def test_hunks_are_read(said: tuple[str, ...], read: list[Hunk]):
    assert list(hunks(*said)) == read


@each_row(
    ("text", "line", "words"),
    [
        ("", 1, "it is empty"),
        ("hello", 1, "'*** Begin Patch' is missing"),
        ("*** Begin Patch\n*** Delete File: a", 2, "'*** End Patch' is missing"),
        (patch(), 1, "nothing between"),
        (patch("+x"), 2, "'+x' stands before any file"),
        (patch("*** Rename File: a"), 2, "stands before any file"),
        (patch("*** Add File: "), 2, "the path is missing"),
        (patch("*** Add File: a", "+x", "y"), 4, "'y' does not begin with '+'"),
        (patch("*** Delete File: a", "-x"), 3, "stands below a deletion"),
        (patch("*** Update File: a"), 2, "nothing is said about how a changes"),
        (patch("*** Update File: a", "*** Move to:"), 3, "the path is missing"),
        (patch("*** Update File: a", "@@ f"), 3, "the hunk has no lines"),
        (patch("*** Update File: a", "*** End of File"), 3, "the hunk has no lines"),
        (patch("*** Update File: a", "@@", " x", "y"), 5, "begin with a space"),
        (patch("*** Update File: a", "@@f", " x"), 3, "'@@f' begins with none of"),
        (patch("*** Update File: a", "@@", "y" * 5000), 4, "[cut]"),
    ],
)
def test_the_error_for_a_malformed_patch_names_line_and_reason(text: str, line: int, words: str):
    parsed = parse(text)
    assert isinstance(parsed, MalformedPatch)
    assert parsed.line == line
    assert words in parsed.reason
    assert len(parsed.reason) < 400


def test_a_move_needs_no_hunks():
    assert parse(patch("*** Update File: a", "*** Move to: b")) == (Update(2, "a", (), "b"),)


@each_row(
    ("text", "said", "after"),
    [
        pytest.param("a\nb\nc\n", ("@@", " a", "-b", "+B"), "a\nB\nc\n", id="exact"),
        pytest.param("x\ny\nx\n", ("-x", "+z"), "z\ny\nx\n", id="the first place"),
        pytest.param("x\ny\nx\n", ("@@ y", "-x", "+z"), "x\ny\nz\n", id="below its context"),
        pytest.param("A\nf\nx\nB\nf\nx\n", ("@@ B", "@@ f", "-x", "+z"), "A\nf\nx\nB\nf\nz\n",
                     id="below both contexts"),
        pytest.param("x\nx\n", ("-x", "+1", "@@", "-x", "+2"), "1\n2\n", id="one below another"),
        pytest.param("a  \nb\n", (" a", "-b", "+c"), "a  \nc\n", id="right-trimmed"),
        pytest.param("a \nx\nb \ny\nc \n", (" a", "-x", "+X", " b", "-y", "+Y", " c"),
                     "a \nX\nb \nY\nc \n", id="what is kept is kept to the byte"),
        pytest.param("x\n  a\n", ("-a", "+b"), "x\n  b\n", id="trimmed, indented as there"),
        pytest.param("\tif x:\n\t\ty\n", (" if x:", "-\ty", "+\tz"), "\tif x:\n\t\tz\n",
                     id="C14 tabs stay tabs"),
        pytest.param("say “hi” – ok\nx\n", (' say "hi" - ok', "-x", "+y"),
                     "say “hi” – ok\ny\n", id="typographic"),
        pytest.param(" a\na\n", ("-a", "+b"), " a\nb\n", id="exact below before trimmed above"),
        pytest.param(" a\na \n", ("-a", "+b"), " a\nb\n", id="right-trimmed below before trimmed"),
        pytest.param("x\nx\n", ("@@ x", "-x", "+z"), "x\nz\n", id="below the context, not on it"),
        pytest.param("x\ny\nx\n", ("-x", "+z", "*** End of File"), "x\ny\nz\n", id="at the end"),
        pytest.param("a\nb\n", ("+c",), "a\nb\nc\n", id="nothing old: appended"),
        pytest.param("", ("+c",), "c\n", id="into an empty file"),
        pytest.param("a\nb\n", ("+c", "@@", "-a", "+A"), "A\nb\nc\n", id="appended, then above"),
        pytest.param("a\nb\n", (" a", "-b", "+c", ""), "a\nc\n", id="an empty line for the end"),
        pytest.param("a\n\nb\n", (" a", " ", "-b"), "a\n\n", id="an empty line that is there"),
        pytest.param("a\nb\n", ("-a", "-b"), "", id="everything goes"),
        pytest.param("a\nb\n", (" a", " b"), "a\nb\n", id="nothing changes"),
        pytest.param("a\r\nb\r\n", ("-b", "+x", "+y"), "a\r\nx\r\ny\r\n", id="CRLF"),
        pytest.param("a\r\nb\nc\r\n", ("-b", "+x"), "a\r\nx\nc\r\n", id="mixed"),
        pytest.param("a\rb\rc", ("-b", "+x", "+y"), "a\rx\ry\rc", id="bare CR"),
        pytest.param("a\nb", ("-b", "+x", "+y"), "a\nx\ny", id="no final newline, replaced"),
        pytest.param("a\nb", (" b", "+c"), "a\nb\nc", id="no final newline, appended"),
        pytest.param("a\r\nb", ("+c",), "a\r\nb\r\nc", id="no final newline, added at the end"),
        pytest.param("a\nb", (" a", "-b"), "a\n", id="no final newline, the last goes"),
        pytest.param("a\nb", ("-a", "+x"), "x\nb", id="no final newline, far from it"),
        pytest.param("a\fb\n\u2028c\n", ("-\u2028c", "+d"), "a\fb\nd\n", id="odd separators"),
    ],
)  # fmt: skip
def test_hunks_change_their_lines_and_no_others(text: str, said: tuple[str, ...], after: str):
    assert patched(text, hunks(*said)) == after


@each_row(
    ("text", "said", "words"),
    [
        ("def f(a):\n    pass\n", ("-def f(b):",), ["line 3 of the patch", "Nearest: lines 1-1"]),
        ("a\n", ("@@ def g", "-a"), ["'def g' is not in the file"]),
        ("a\nb\n", ("-b", "@@", "-a"), ["below line 2", "at line 1", "order of the file"]),
        ("a\nb\n", ("-a", "*** End of File"), ["not at the end of the file, but at line 1"]),
        ("a\nb\n", ("-c", "*** End of File"), ["Its lines are not in the file"]),
        ("a\nb\n", ("@@ b", "-a"), ["Its lines are not below line 2, but at line 1"]),
        ("a\n", ("@@ a", "+b"), ["names 'a'", "only lines to add"]),
        ("def f():\n    a\n        b\n", ("-a", "-b", "+c"), ["only indentation differs"]),
    ],
)
def test_a_hunk_that_does_not_fit_is_explained(text: str, said: tuple[str, ...], words: list[str]):
    miss = patched(text, hunks(*said))
    assert isinstance(miss, Lost | Pointless)
    reported = explain(text, miss)
    assert all(word in reported for word in words), reported


def test_repetitive_text_does_not_slow_down_a_patch():
    most = 20_000 if TORTURE else 5_000
    text = "x\ny\n" * 3 * most
    with patience():
        assert isinstance(patched(text, hunks(*["-x", "-y"] * (most * 3 // 2), "-y")), Lost)
        changed = patched(text, hunks(*["@@", "-x", "+z"] * most))
        assert changed == "z\ny\n" * most + "x\ny\n" * 2 * most


lines = st.lists(st.text(st.sampled_from("ab \t+-@*“\u00a0\f\u2028"), max_size=4), max_size=8)
news = st.lists(st.text(st.sampled_from("ab \t+-@*"), max_size=3), max_size=2)
ends = st.sampled_from(["\n", "\r\n", "\r"])


@given(lines, st.data(), ends, st.booleans())
def test_applying_a_generated_patch_gives_exactly_the_new_text(
    before: list[str], data: st.DataObject, end: str, closed: bool
):
    """One hunk that keeps or removes every line and adds lines between them."""
    before = [f"{number}{line}" for number, line in enumerate(before)]
    said, after = list[str](), list[str]()
    for line in [*before, None]:
        added = [f"{new}." for new in data.draw(news)]
        said += [f"+{new}" for new in added]
        after += added
        if line is not None:
            kept = data.draw(st.booleans())
            said.append(f"{' ' if kept else '-'}{line}")
            after += [line] * kept
    if not said:
        return
    text = end.join(before) + (end if closed and before else "")
    bare = end == "\r" and "\r" in text
    own = end if bare or end in text else "\n"
    result = patched(text, hunks("@@", *said))
    assert isinstance(result, str)
    assert result.removesuffix(own).split(own) == (after or [""])
    if closed and after:
        assert result.endswith(own)


@given(lines.filter(bool), st.data(), ends)
def test_bytes_outside_a_hunk_do_not_change(before: list[str], data: st.DataObject, end: str):
    before = [f"{number}{line}" for number, line in enumerate(before)]
    at = data.draw(st.integers(0, len(before) - 1))
    text = "".join(f"{line}{end}" for line in before)
    result = patched(text, hunks(f"-{before[at]}", "+new", "+er"))
    assert result == "".join(
        f"{line}{end}" for line in [*before[:at], "new", "er", *before[at + 1 :]]
    )


markers = st.sampled_from(
    ["*** Begin Patch", "*** End Patch", "*** Add File: a", "*** Delete File: a", "@@", "@@ a",
     "*** Update File: a", "*** Move to: b", "*** End of File", "+a", "-a", " a", "", "<<EOF",
     "EOF", "a", "\r", "\0"]
)  # fmt: skip


@given(st.lists(markers | st.text(max_size=5), max_size=12), st.booleans(), st.text(max_size=20))
def test_garbage_is_parsed_or_refused_with_a_message(said: list[str], marked: bool, text: str):
    parsed = parse(patch(*said) if marked else "\n".join(said))
    if isinstance(parsed, MalformedPatch):
        assert parsed.line >= 1
        assert parsed.reason
        return
    for section in parsed:
        if isinstance(section, Update):
            result = patched(text, section.hunks)
            assert isinstance(result, str) or explain(text, result)
