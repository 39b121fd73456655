"""Hidden characters are marked for the model; ordinary text stays as it is."""

from hypothesis import given
from hypothesis import strategies as st

from rookery.core.text.characters import marked, unmarked
from support.each_row import each_row

TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "rm -rf")
MARKED = [
    ("plain words", "plain words"),
    ("a\u200bb", "a<U+200B>b"),
    ("a\u2060b\ufeffc\u00ad", "a<U+2060>b<U+FEFF>c<U+00AD>"),
    ("x\u202egnp.exe", "x<U+202E>gnp.exe"),
    ("if (a\u2066 // x\u2069)", "if (a<U+2066> // x<U+2069>)"),
    ("a" + TAGS[0] + "b", "a<U+E0072>b"),
    ("a\u200cb a\u200db", "a<U+200C>b a<U+200D>b"),
    ("a\ufe0f b\ufe01\ufe02", "a<U+FE0F> b<U+FE01><U+FE02>"),
    ("x\u3164y\u115f", "x<U+3164>y<U+115F>"),
    ("a\u2028b", "a<U+2028>b"),
    ("abc\u200fdef", "abc<U+200F>def"),
    ("☀\ufe0f\ufe0f", "☀\ufe0f<U+FE0F>"),
    ("👩\u200d\u200d💻", "👩<U+200D><U+200D>💻"),
    ("\U0001f3f4" + TAGS, "\U0001f3f4" + "".join(f"<U+{ord(tag):04X}>" for tag in TAGS)),
]
ORDINARY = [
    "grüße 🐦 — 日本語 e\u0301",
    "👩\u200d💻 🏳\ufe0f\u200d🌈 ☀\ufe0f 1\ufe0f\u20e3 ❤\ufe0f",
    "می\u200cخواهم",
    "क्\u200dष",
    "שלום\u200f (world)\u200e!",
    "葛\U000e0100",
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "⠁\u2800⠃",
]


@each_row(("text", "shown"), MARKED)
def test_hidden_characters_are_marked(text: str, shown: str):
    assert marked(text) == shown
    assert marked(shown) == shown


@each_row("text", ORDINARY)
def test_ordinary_text_is_not_marked(text: str):
    assert marked(text) == text


@given(st.text(st.sampled_from("a\u200b\u202e\ufe0f👩\u200d☀ש\u200f\n<U+20>BE"), max_size=40))
def test_an_edit_of_marked_text_applies_to_the_file(text: str):
    if "<U+" not in text:
        assert unmarked(marked(text), text) == text


def test_a_literal_mark_in_the_file_is_kept():
    assert unmarked("<U+200B>", "a\u200b <U+200B>") == "<U+200B>"
    assert unmarked("<U+200B>", "nothing hidden") == "<U+200B>"
    assert unmarked("<U+0041><U+FFFFFF>", "A") == "<U+0041><U+FFFFFF>"


def test_a_copied_line_keeps_hidden_characters_next_to_literal_marks():
    original = "lit <U+200B> and real\u200bone\r\na\u2028b\nc <U+2028>\n"
    copied = "lit <U+200B> and real<U+200B>one\nnew\na<U+2028>b\nc <U+2028>\n"
    assert unmarked(copied, original) == (
        "lit <U+200B> and real\u200bone\nnew\na\u2028b\nc <U+2028>\n"
    )


def test_an_ambiguous_marked_line_is_kept_as_written():
    assert unmarked("a<U+200B>", "a<U+200B>\na\u200b\n") == "a<U+200B>"
