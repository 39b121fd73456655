"""Vim's keys in the input area. In the texts, `|` stands before the cursor's character."""

import pytest

from rookery.core.settings_sections import UiSettings
from rookery.tui.vim_keys import VimMode, VimState, leave_insert, press
from support.each_row import each_row
from support.tui_session import play


def state_of(marked: str, mode: VimMode = VimMode.NORMAL) -> VimState:
    return VimState(text=marked.replace("|", ""), at=marked.index("|"), mode=mode)


def pressed(marked: str, keys: str) -> str:
    """The text after the keys; `+` at the end says that it is in insert mode."""
    state = state_of(marked)
    for key in keys:
        state = press(state, key)
    mode = "+" if state.mode is VimMode.INSERT else ""
    return f"{state.text[: state.at]}|{state.text[state.at :]}{mode}"


@each_row(
    ("before", "keys", "after"),
    [
        ("one |two", "h", "one| two"),
        ("|one", "h", "|one"),
        ("on|e", "l", "on|e"),
        ("one\n|two", "h", "one\n|two"),
        ("|one, two", "w", "one|, two"),
        ("|one, two", "ww", "one, |two"),
        ("one |two", "w", "one tw|o"),
        ("|one\n\ntwo", "w", "one\n|\ntwo"),
        ("one tw|o", "b", "one |two"),
        ("one |two", "b", "|one two"),
        ("|one two", "e", "on|e two"),
        ("on|e two", "e", "one tw|o"),
        ("  one t|wo", "0", "|  one two"),
        ("  one t|wo", "^", "  |one two"),
        ("|one two\nx", "$", "one tw|o\nx"),
        ("one\ntw|o", "gg", "|one\ntwo"),
        ("|one\ntwo", "G", "one\n|two"),
        ("割|引 two", "w", "割引 |two"),
        ("|one", "x", "|ne"),
        ("on|e", "x", "o|n"),
        ("|", "x", "|"),
        ("|one two", "dw", "|two"),
        ("one |two\nx", "dw", "one| \nx"),
        ("one |two", "db", "|two"),
        ("|one two", "de", "| two"),
        ("one |two", "D", "one| "),
        ("one |two", "d0", "|two"),
        ("one\n|two\nthree", "dd", "one\n|three"),
        ("one\n|two", "dd", "|one"),
        ("|one", "dd", "|"),
        ("one\n|two\nthree", "dG", "|one"),
        ("one\n|two\nthree", "dgg", "|three"),
        ("|one\ntwo\nthree", "dj", "|three"),
        ("one\n|two\nthree", "dk", "|three"),
        ("|one two", "cw", "| two+"),
        ("one\n|two\nthree", "cc", "one\n|\nthree+"),
        ("one |two", "C", "one |+"),
        ("one |two", "yw0P", "tw|oone two"),
        ("|one\ntwo", "yyp", "one\n|one\ntwo"),
        ("one\n|two", "yyP", "one\n|two\ntwo"),
        ("|one\ntwo", "ddp", "two\n|one"),
        ("a|bc", "xp", "ac|b"),
        ("o|ne", "i", "o|ne+"),
        ("o|ne", "a", "on|e+"),
        ("o|ne\nx", "A", "one|\nx+"),
        ("  on|e", "I", "  |one+"),
        ("o|ne\ntwo", "o", "one\n|\ntwo+"),
        ("one\nt|wo", "O", "one\n|\ntwo+"),
        ("o|ne", "q", "o|ne"),
        ("o|ne", "dq", "o|ne"),
    ],
)
def test_keys_of_normal_mode(before: str, keys: str, after: str):
    assert pressed(before, keys) == after


def test_escape_stands_on_the_last_character():
    left = leave_insert(state_of("one|", VimMode.INSERT))
    assert (left.at, left.mode) == (2, VimMode.NORMAL)
    assert leave_insert(state_of("one\n|", VimMode.INSERT)).at == 4


@pytest.mark.anyio
async def test_vim_keys_can_be_turned_on_and_show_the_mode():
    async with play(task=False, ui=UiSettings(keys="vim")) as it:
        await it.see("INSERT")
        await it.type("one two")
        await it.press("escape")
        await it.see("NORMAL")
        await it.type("bcw")
        await it.see("INSERT")
        await it.type("three")
        assert it.composer.text == "one three"
        await it.press("escape", "u")
        assert it.composer.text.startswith("one ")
        assert it.composer.text != "one three"
        await it.press("d", "d")
        assert it.composer.text == ""
        await it.press("i")
        await it.type("/vim")
        await it.press("enter")
        await it.until(lambda: "INSERT" not in it.lines[-1])
        await it.type("dd")
        assert it.composer.text == "dd"
