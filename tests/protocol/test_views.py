"""A client that only applies view updates ends up with the rows of the view."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.asks import AskKind
from rookery.core.facts import (
    Asked,
    CallStreamed,
    Event,
    Fact,
    Noted,
    RequestStarted,
    TaskOpened,
    TextStreamed,
    next_event,
)
from rookery.core.folds.view import PARTS, View, see
from rookery.protocol.codec import answer_to_json
from rookery.protocol.relay import PIECE, changes_in_pieces, row_of
from support.each_row import each_row
from support.protocol_hosts import Logs, caller


class Drawn:
    """A client that only applies view updates."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self.parts: dict[str, Any] = {}

    def draw(self, change: dict[str, Any]) -> None:
        for ts in change.get("removed", []):
            del self.rows[ts]
        for row in change.get("added", []):
            self.rows[row["ts"]] = row
        for patch in change.get("changed", []):
            row = self.rows[patch["ts"]]
            if "append" in patch:
                row["text"] = _spliced(row.get("text") or "", patch)
            row.update(patch)
        self.parts.update(change.get("parts", {}))


def _spliced(text: str, patch: dict[str, Any]) -> str:
    """Apply an edit like a web page, which counts UTF-16 units."""
    units = text.encode("utf-16-le")
    kept = units[: len(units) - 2 * patch.pop("drop", 0)]
    return kept.decode("utf-16-le") + str(patch.pop("append"))


def shown(view: View) -> dict[int, dict[str, Any]]:
    return {row.ts: json.loads(answer_to_json(row_of(row))) for row in view.messages}


def same(drawn: Drawn, view: View) -> None:
    defaults = {"partial": False, "answered": False, "text": None}
    rows = {ts: {**defaults, **row} for ts, row in drawn.rows.items()}
    assert rows == {ts: {**defaults, **row} for ts, row in shown(view).items()}
    parts = {name: json.loads(answer_to_json(PARTS[name](view))) for name in drawn.parts}
    assert drawn.parts == parts


def reported(facts: Iterable[Fact]) -> list[Event]:
    events: list[Event] = []
    for fact in facts:
        events.append(next_event(events[-1] if events else None, fact, len(events) + 1_000))
    return events


def piece(name: str, text: str) -> CallStreamed:
    return CallStreamed(request_id="r", index=0, name=name, arguments=text)


WORDS = st.text(st.sampled_from('ab "}\\\n😀é'), min_size=1, max_size=12)
STREAM = st.lists(
    st.one_of(
        st.builds(lambda text: TextStreamed(request_id="r", text=text), WORDS),
        st.builds(lambda text: piece("write_to_file", text), WORDS),
        st.builds(lambda text: Noted(text=text), WORDS),
        st.just(Asked(ask_id="q", ask=AskKind.FOLLOWUP, text="Which?")),
    ),
    max_size=30,
)


@given(STREAM, st.lists(st.booleans(), min_size=40, max_size=40))
def test_applied_updates_equal_the_view(stream: Sequence[Fact], sent: list[bool]):
    """However the changes are batched."""
    facts = [TaskOpened(text="Do it"), RequestStarted(request_id="r", model="m"), *stream]
    drawn, view, last = Drawn(), View(), View()
    for event, now in zip(reported(facts), sent, strict=False):
        view = see(view, event)
        if now:
            for change in changes_in_pieces(last, view):
                drawn.draw(json.loads(change))
            last = view
            same(drawn, view)


@each_row(
    ("name", "begin"),
    [("write_to_file", '{"path":"a.txt","content":"'), ("execute_command", '{"command":"')],
)
def test_a_growing_row_costs_only_what_is_appended(name: str, begin: str):
    facts: list[Fact] = [TaskOpened(text="Do it"), RequestStarted(request_id="r", model="m")]
    facts += [TextStreamed(request_id="r", text="some words ") for _ in range(500)]
    facts += [piece(name, begin), *[piece(name, "some words ")] * 500]
    view, cost = View(), 0
    drawn = Drawn()
    for event in reported(facts):
        before, view = view, see(view, event)
        for change in changes_in_pieces(before, view):
            cost += len(change)
            drawn.draw(json.loads(change))
    same(drawn, view)
    assert cost < len(facts) * 120


@pytest.mark.parametrize(
    ("old", "new", "told_as"),
    [
        ("x" * 40, "x" * 40 + "é😀", {"append": "é😀"}),
        ("x" * 40 + '"}', "x" * 40 + 'é"}', {"drop": 2, "append": 'é"}'}),
        ("x" * 40 + "😀", "x" * 40 + "b", {"text": "x" * 40 + "b"}),
        ("short", "shore", {"text": "shore"}),
    ],
    ids=["grows", "grows before its end", "beyond the basic plane", "short"],
)
def test_a_changed_text_is_reported_by_its_new_part(old: str, new: str, told_as: dict[str, object]):
    views = []
    for text in (old, new):
        view = View()
        facts = [TaskOpened(text="Do it"), RequestStarted(request_id="r", model="m")]
        for event in reported([*facts, TextStreamed(request_id="r", text=text)]):
            view = see(view, event)
        views.append(view)
    (change,) = changes_in_pieces(*views)
    (patch,) = json.loads(change)["changed"]
    assert patch == {"ts": patch["ts"], **told_as}


def test_many_rows_come_in_several_pieces():
    view = View()
    for event in reported(Noted(text="x" * 1_000) for _ in range(1_000)):
        view = see(view, event)
    pieces = list(changes_in_pieces(View(), view))
    assert all(len(each) < PIECE + 10_000 for each in pieces)
    assert len(pieces) > 3
    drawn = Drawn()
    for each in pieces:
        drawn.draw(json.loads(each))
    same(drawn, view)


@pytest.mark.anyio
async def test_a_view_can_be_followed_remotely():
    host = Logs("t")
    host.append("t", TaskOpened(text="Do it"))
    async with caller(host) as client:
        await client.initialize()
        await client.call("follow", **{"task_id": "t", "as": "view", "after": 1})
        host.append("t", RequestStarted(request_id="r", model="m"))
        for number in range(1_000):
            host.append("t", TextStreamed(request_id="r", text=f"{number} "))
        host.append("t", Noted(text="The end."))
        host.logs["t"].close()
        drawn, view = Drawn(), View()
        while (message := await client.receive())["method"] == "view":
            drawn.draw(message["params"]["change"])
        assert message["method"] == "ended"
        for event in host.logs["t"].events:
            view = see(view, event)
        assert [row["text"] for row in drawn.rows.values()][-1] == "The end."
        assert drawn.parts["model"] == "m"
        assert len(client.received) < 100
