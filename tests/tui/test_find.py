"""Search in the conversation."""

import pytest
from msgspec.structs import replace

from rookery.core.blocks import Text, Thinking
from rookery.core.facts import AssistantSpoke, RequestStarted, UserSpoke
from rookery.core.message import Message
from rookery.tui.find_bar import FindBar, FoundTexts, Hit, row_text
from rookery.tui.rows.lines import ShownRow
from rookery.tui.theme import DARK, THEMES
from rookery.tui.virtual_list import Row
from support.tui_long_session import long_past
from support.tui_scenes import completed
from support.tui_session import Play, play

pytestmark = pytest.mark.anyio


def said(text: str, ts: int = 1) -> Row:
    message = Message(ts=ts, type="say", say="text", content=text)
    return Row(("t1", ts), ShownRow(message=message))


def test_every_occurrence_is_a_hit_whatever_its_case():
    texts = FoundTexts()
    rows = [said("Ein Wort, WORT", 1), said("nothing", 2), said("割引 wort", 3)]
    first, last = ("t1", 1), ("t1", 3)
    assert texts.hits(rows, "Wort") == [Hit(first, 0), Hit(first, 1), Hit(last, 0)]
    assert texts.hits(rows, "割引") == [Hit(last, 0)]
    assert texts.hits(rows, " ") == []
    rows[1].change(replace(rows[1].shown, message=replace(rows[1].shown.message, content="wort")))
    assert len(texts.hits(rows, "wort")) == 4


def test_hidden_rows_and_payload_keys_are_not_searched():
    hidden = Message(ts=1, type="say", say="checkpoint_saved", content="abc")
    assert row_text(ShownRow(message=hidden)) == ""
    call = Message(ts=1, type="ask", ask="tool", title="Read a.py", content='{"tool": "readFile"}')
    assert row_text(ShownRow(message=call, result="1 | x")) == "Read a.py\n1 | x"


def count(it: Play) -> str:
    return it.lines[-2].split("  ")[-1].strip()


async def test_matches_are_counted_highlighted_and_walked_through():
    async with play() as it:
        completed(it.host)
        await it.settle()
        await it.press("ctrl+f")
        await it.until(lambda: bool(it.app.query(FindBar)))
        await it.type("discount")
        await it.until(lambda: " of " in it.lines[-2])
        grounds = [
            (segment.text, segment.style.bgcolor.name)
            for y in range(it.app._page.transcript.size.height)
            for segment in it.app._page.transcript.render_line(y)
            if segment.text.lower() == "discount"
        ]
        theme = THEMES[DARK]
        assert {ground for _, ground in grounds} <= {theme.accent, theme.warning}
        assert theme.accent in {ground for _, ground in grounds}
        total = int(count(it).rpartition(" ")[2])
        assert total > 1
        places = []
        for _ in range(total):
            places.append(int(count(it).split()[0]))
            await it.press("enter")
        assert sorted(places) == list(range(1, total + 1))
        await it.press("down")
        await it.type("x")
        await it.see("no matches")
        await it.press("escape")
        await it.until(lambda: it.composer.has_focus)
        assert not it.app.query(FindBar)
        assert it.app._page.transcript._words == ""


async def test_a_hit_in_a_folded_row_unfolds_it_for_the_time_being():
    async with play() as it:
        thought = "\n".join(f"line {n}" for n in range(200)) + "\nthe needle"
        it.host.tell(RequestStarted(request_id="r1", model="m"))
        it.host.tell(
            AssistantSpoke(request_id="r1", blocks=(Thinking(text=thought), Text(text="Well.")))
        )
        it.host.tell(UserSpoke(message_id="m1", text="and now"))
        await it.settle()
        assert "the needle" not in it.screen
        await it.type("/find needle")
        await it.press("enter")
        await it.see("the needle")
        await it.see("1 of 1")
        await it.press("escape")
        await it.until(lambda: "the needle" not in it.screen)


async def test_ten_thousand_rows_are_searched():
    async with play() as it:
        it.host.tell(*long_past(10_000, "The **needle** at the end."))
        await it.until(lambda: len(it.app._page.transcript.rows) > 9_000)
        await it.settle()
        await it.press("ctrl+f")
        await it.type("hundred")
        await it.see(" of 3333")
        await it.press("enter")
        await it.see("3332 of 3333")
