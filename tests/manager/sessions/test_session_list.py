"""The list of sessions (8, 11): order, search, badge."""

from typing import Any

import pytest
from msgspec.structs import replace

from rookery.manager.sessions.session_record import (
    Counts,
    ParallelMode,
    SessionRecord,
    active_first,
    archived_records,
    count_records,
    matching,
)
from rookery.manager.sessions.session_states import SessionState


def one(id: str, state: str = "completed", start: int = 0, **more: Any) -> SessionRecord:
    return SessionRecord(session_id=id, state=SessionState(state), start_time=start, **more)


def ids(records: tuple[SessionRecord, ...]) -> str:
    return " ".join(record.session_id for record in records)


def test_pending_and_active_sessions_come_before_the_newest_history():
    records = [
        one("done", "completed", 9),
        one("old", "stopped", 1),
        one("working", "streaming", 2),
        one("asking", "waiting_approval", 4),
        one("starting", "creating", 3),
        one("failed", "error", 5),
        one("away", "completed", 8, archived=True),
    ]
    assert ids(active_first(records)) == "asking starting working done failed old"
    assert ids(active_first(reversed(records))) == ids(active_first(records))
    assert ids(archived_records(records)) == "away"


def test_the_list_is_sorted_by_the_time_it_shows_and_pinned_sessions_come_first():
    records = [
        one("ended last", "completed", 1, end_time=9),
        one("started last", "completed", 5, end_time=6),
        one("working", "streaming", 2),
        one("pinned", "completed", 0, end_time=1, pinned=True),
    ]
    assert ids(active_first(records)) == "pinned working ended last started last"


def test_a_tag_is_found_by_its_sign():
    records = [one("a", tags=("urgent",)), one("b", label="urgent")]
    assert ids(matching(records, "#urgent")) == "a"


def test_a_long_list_keeps_every_session():
    assert len(active_first(one(str(number)) for number in range(5000))) == 5000


@pytest.mark.parametrize(
    ("words", "hits"),
    [
        ("", "a b"),
        ("PARSER", "a"),
        ("parser fix", "a"),
        ("fix  docs", "b"),
        ("agent/docs", "b"),
        ("tiny-model", "a"),
        ("a parser b", "a"),
        ("moonrise", ""),
        ("straße", "b"),
    ],
)
def test_a_search_finds_sessions_that_contain_every_word(words: str, hits: str):
    records = [
        one("a", label="Fix it", title="The parser breaks", model="tiny-model"),
        one("b", prompt="Fix STRASSE", parallel_mode=ParallelMode(branch="agent/docs")),
    ]
    assert ids(matching(records, words)) == hits


def test_the_badge_counts_sessions_that_need_attention():
    records = [one(state, state) for state in SessionState if state != "idle"]
    unread = [replace(record, unread=True) for record in records]
    away = [replace(record, session_id="x", archived=True) for record in unread]
    assert count_records(records) == Counts(active=4, history=4, attention=3)
    assert count_records([*unread, *away]) == Counts(active=4, history=4, archived=8, attention=4)
    assert count_records([]) == Counts()
