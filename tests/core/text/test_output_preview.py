from hypothesis import given
from hypothesis import strategies as st

from rookery.core.text.output_preview import LONGEST_LINE, Cleaner, Preview, collapsed, readable
from support.each_row import each_row

MESSY = st.text(alphabet="ab€\n\r\b\t\0\x1b[]0;m\x07\\P", max_size=60)


@each_row(
    ("raw", "clean"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("10%\r50%\r100%\ndone", "100%\ndone"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("50%\r\r\n", "50%\n"),
        ("kept\r", "kept"),
        ("b\bbo\bol\bld", "bold"),
        ("\b\bx", "x"),
        ("\x1b[1;31mred\x1b[0m \x1b[2K\x1b[1Amoved", "red moved"),
        ("\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r\x1b\\\x1b(B\x1b7\x1b=text", "text"),
        ("a\0b\x01c\x7fd\x9be", "a␀b␁c␡d\ufffde"),
        ("cut off \x1b[3", "cut off ␛[3"),
        ("no sequence \x1b\x01", "no sequence ␛␁"),
        ("", ""),
    ],
)
def test_output_is_cleaned_as_a_terminal_would_have_shown_it(raw: str, clean: str):
    assert readable(raw) == clean


@given(MESSY, st.integers(1, 9))
def test_chunk_boundaries_do_not_change_the_output(raw: str, size: int):
    cleaner = Cleaner()
    pieces = [raw[start : start + size] for start in range(0, len(raw), size)]
    assert "".join(map(cleaner.add, pieces)) + cleaner.finish() == readable(raw)


@given(MESSY)
def test_cursor_movements_are_removed(raw: str):
    assert not set(readable(raw)) & set("\0\b\r\x07\x1b")


def test_an_endless_progress_bar_uses_no_memory_and_keeps_its_last_state():
    cleaner = Cleaner()
    for step in range(20_000):
        assert cleaner.add(f"\r{step} of 20000") == ""
    assert cleaner.finish() == "19999 of 20000"


def test_an_endless_line_is_emitted_in_parts():
    cleaner = Cleaner()
    given_away = [cleaner.add("x" * 1000) for _ in range(1000)]
    assert max(map(len, given_away)) <= LONGEST_LINE + 1000
    assert len("".join(given_away)) > 1000 * 1000 - 2 * LONGEST_LINE


def test_an_unfinished_escape_sequence_does_not_swallow_later_output():
    cleaner = Cleaner()
    text = "".join(cleaner.add(piece) for piece in ["\x1b]0;", *["never ends\n"] * 200])
    assert text.count("never ends\n") == 200


def preview(text: str, *, size: int = 10, head: int = 4) -> Preview:
    made = Preview(size=size, head=head)
    for start in range(0, len(text), 3):
        made.add(text[start : start + 3])
    return made


@each_row(
    ("text", "shown", "complete"),
    [
        ("", "", True),
        ("0123456789", "0123456789", True),
        ("0123456789a", "0123\n[… 1 bytes omitted …]\n56789a", False),
        ("0" * 4 + "x" * 1000 + "9" * 6, "0000\n[… 1000 bytes omitted …]\n999999", False),
        ("€€€€€", "€\n[… 6 bytes omitted …]\n€€", False),
    ],
)
def test_a_preview_is_the_beginning_and_the_end(text: str, shown: str, complete: bool):
    made = preview(text)
    assert (made.text(), made.complete, made.total) == (shown, complete, len(text.encode()))


@given(st.text(alphabet="a€😀\n", max_size=80), st.integers(0, 12), st.integers(1, 12))
def test_a_preview_accounts_for_every_byte(text: str, head: int, tail: int):
    made = preview(text, size=head + tail, head=head)
    before, note, after = made.text().partition("\n[… ")
    if made.complete:
        assert made.text() == collapsed(text)
    else:
        omitted, _, end = after.partition(" bytes omitted …]\n")
        assert note
        assert len((before + end).encode()) + int(omitted) == len(text.encode())


def test_repeated_lines_are_collapsed():
    assert collapsed("a\n" + "warning\n" * 50 + "b\n") == (
        "a\nwarning\n[… the line above 49 more times …]\nb\n"
    )


@each_row("text", ["", "x", "x\nx\nx\n", "a\nb\n", "}\n}\n}"])
def test_text_that_would_not_get_shorter_is_not_collapsed(text: str):
    assert collapsed(text) == text
