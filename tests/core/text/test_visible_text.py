"""Commands and paths are shown so that nothing in them can hide."""

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from rookery.core.text.terminal_text import folded_diff, harmless, plainly_visible, visible_line
from support.each_row import each_row

HIDING = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp", "Zs"}


@each_row(
    ("text", "shown"),
    [
        ("ls -la", "ls -la"),
        ("a   b", "a   b"),
        ("a    b", "a␣␣␣␣b"),
        ("a" + " " * 16 + "b", "a" + "␣" * 16 + "b"),
        ("a" + " " * 17 + "b", "a␣×17b"),
        ("a\t\tb", "a\t\tb"),
        ("a\t\t\t\tb", "a␉␉␉␉b"),
        ("a \t \tb", "a␣␉␣␉b"),
        ("a" + " " * 20 + "\t" * 30 + "b", "a␣×20␉×30b"),
        ("two\nlines", "two\nlines"),
        ("a\n\n\nb", "a\n\n\nb"),
        ("a\n\n\n\nb", "a\n<3 blank lines>\nb"),
        ("ls" + "\n" * 300 + "rm x", "ls\n<299 blank lines>\nrm x"),
        ("\n" * 40 + "rm x", "<40 blank lines>\nrm x"),
        ("ls\n" + " \t\r\n" * 50 + "rm x", "ls\n<50 blank lines>\nrm x"),
        ("dos\r\nline", "dos␍\nline"),
        ("\x1b[8mx\x00\x7f\x9b", "␛[8mx␀\ufffd\ufffd"),
        ("\u202ex\u2066y", "<U+202E>x<U+2066>y"),
        ("a\u200bb\ufeffc\u00ad", "a<U+200B>b<U+FEFF>c<U+00AD>"),
        ("\U000e0041\U000e0101\ufe0f\ufe01", "<U+E0041><U+E0101><U+FE0F><U+FE01>"),
        ("rm\u00a0-r\u3000x\u202fy", "rm<U+00A0>-r<U+3000>x<U+202F>y"),
        ("\ue000\ud800", "<U+E000><U+D800>"),
        ("grüße 🐦 — 日本語 e\u0301", "grüße 🐦 — 日本語 e\u0301"),
    ],
)
def test_invisible_characters_are_drawn(text: str, shown: str):
    assert plainly_visible(text) == shown


def test_a_path_stays_on_one_line():
    assert visible_line("a\nb\tc     d") == "a␊b␉c␣␣␣␣␣d"


def test_blank_lines_cannot_push_a_diff_out_of_sight():
    assert folded_diff("+rm x\n" + "+\n" * 300 + "+ls\n") == "+rm x\n+<300 blank lines>\n+ls\n"
    assert folded_diff("-a\n \n \n+\n+\n+b\n") == "-a\n \n \n+\n+\n+b\n"


@given(st.text())
def test_no_hidden_character_remains(text: str):
    shown = plainly_visible(text)
    kept = {char for char in shown if unicodedata.category(char) in HIDING}
    assert kept <= {" ", "\n", "\t"}
    assert "    " not in shown
    assert "\t\t\t\t" not in shown
    assert not re.search(r"^\n\n\n", shown, re.M)
    assert harmless(shown) == shown


@given(st.text(st.sampled_from("ab \t"), max_size=60))
def test_the_count_of_blanks_is_exact(text: str):
    shown = re.sub(
        r"([␣␉])×(\d+)", lambda reported: reported[1] * int(reported[2]), plainly_visible(text)
    )
    assert shown.replace("␣", " ").replace("␉", "\t") == text
