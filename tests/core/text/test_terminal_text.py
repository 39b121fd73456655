"""Text of models, files and commands is made harmless for a terminal."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from rookery.core.text.terminal_text import Paint, harmless, harmless_line, spell_plainly
from support.each_row import each_row


@each_row(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("grüße 🐦 — 日本語", "grüße 🐦 — 日本語"),
        ("\x1b[2J\x1b]0;title\x07", "␛[2J␛]0;title␇"),
        ("over\rwritten", "over␍written"),
        ("one\r\ntwo", "one\ntwo"),
        ("rm\u3164x\u034f", "rm<U+3164>x<U+034F>"),
        ("\x9b31m\x7f", "\ufffd31m\ufffd"),
        ("\u202egnp.exe", "<U+202E>gnp.exe"),
        ("zero\u200bwidth", "zero<U+200B>width"),
        ("a\u2028b", "a<U+2028>b"),
        ("\ufeff\u00ad", "<U+FEFF><U+00AD>"),
        ("tag\U000e0041", "tag<U+E0041>"),
        ("👩\u200d💻 🏳️\u200d🌈", "👩\u200d💻 🏳️\u200d🌈"),
        ("a\u200db 👩\u200d", "a<U+200D>b 👩<U+200D>"),
        ("👩\u200d\u200d💻", "👩<U+200D><U+200D>💻"),
        ("👩\u200d\u202e💻", "👩<U+200D><U+202E>💻"),
    ],
)
def test_control_and_invisible_characters_are_escaped(text: str, shown: str):
    assert harmless(text) == shown


def test_a_name_stays_on_one_line():
    assert harmless_line("a\nb\r\tc\x1b") == "a␊b␍␉c␛"


@given(st.text())
def test_no_text_keeps_a_control_character(text: str):
    kept = {char for char in harmless(text) if unicodedata.category(char) == "Cc"}
    assert kept <= {"\n", "\t"}
    assert not {char for char in harmless_line(text) if unicodedata.category(char) == "Cc"}


LETTERS_THAT_SHOW_NOTHING = "\u115f\u1160\u2800\u3164\uffa0"
READABLE = st.characters(
    categories=["L", "N", "P", "S", "Zs"], exclude_characters=LETTERS_THAT_SHOW_NOTHING
)


@given(st.text(alphabet=READABLE))
def test_readable_text_is_left_as_it_is(text: str):
    assert harmless(text) == harmless_line(text) == text


def test_escaping_twice_changes_nothing_more():
    text = "\x1b[31m\u202e"
    assert harmless(harmless(text)) == harmless(text)


@each_row(
    ("text", "spelled"),
    [("● ✔ ✗ … · − →", "* + x ... - - ->"), ("grüße", "gr??e"), ("a\ud83db", "a?b")],
)
def test_characters_missing_from_an_encoding_are_replaced(text: str, spelled: str):
    import codecs

    codecs.register_error("plainly-in-test", spell_plainly)
    assert text.encode("ascii", "plainly-in-test").decode() == spelled


def test_a_diff_is_coloured_by_line_and_harmless():
    diff = "@@ -1 +1 @@\n-old\x1b[0m\n+new\n same"
    assert Paint(False).diff(diff) == "@@ -1 +1 @@\n-old␛[0m\n+new\n same"
    assert Paint(True).diff(diff).split("\n") == [
        "\x1b[36m@@ -1 +1 @@\x1b[0m",
        "\x1b[31m-old␛[0m\x1b[0m",
        "\x1b[32m+new\x1b[0m",
        " same",
    ]


def test_a_diff_line_cannot_pretend_to_be_two():
    assert Paint(False).diff("+a\u2028-b\x0b c\x85") == "+a<U+2028>-b␋ c\ufffd"
