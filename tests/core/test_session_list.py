"""The list of sessions (8, 11): order, search, badge."""

from typing import Any

import pytest
from msgspec.structs import replace

from rookery.manager.sessions.session_list import (
    Counts,
    archived,
    counts,
    found,
    merged,
    normalised_remote,
    of_project,
    ordered,
)
from rookery.manager.sessions.session_record import ParallelMode, SessionRecord
from rookery.manager.sessions.session_states import SessionState


def one(id: str, state: str = "completed", start: int = 0, **more: Any) -> SessionRecord:
    return SessionRecord(session_id=id, state=SessionState(state), start_time=start, **more)


def ids(records: tuple[SessionRecord, ...]) -> str:
    return " ".join(record.session_id for record in records)


def test_11_what_is_pending_or_active_comes_first_then_the_history_newest_first():
    records = [
        one("done", "completed", 9),
        one("old", "stopped", 1),
        one("working", "streaming", 2),
        one("asking", "waiting_approval", 4),
        one("starting", "creating", 3),
        one("failed", "error", 5),
        one("away", "completed", 8, archived=True),
    ]
    assert ids(ordered(records)) == "asking starting working done failed old"
    assert ids(ordered(reversed(records))) == ids(ordered(records))
    assert ids(archived(records)) == "away"


def test_18_6_nothing_is_dropped_because_there_is_much():
    assert len(ordered(one(str(number)) for number in range(5000))) == 5000


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
def test_11_a_search_finds_what_holds_every_word(words: str, hits: str):
    records = [
        one("a", label="Fix it", title="The parser breaks", model="tiny-model"),
        one("b", prompt="Fix STRASSE", parallel_mode=ParallelMode(branch="agent/docs")),
    ]
    assert ids(found(records, words)) == hits


@pytest.mark.parametrize(
    ("git_url", "hits"),
    [
        ("git@example.org:team/app.git", "a b"),
        ("https://example.org/team/other", "c"),
        (None, "d e"),
    ],
)
def test_11_a_project_has_the_sessions_of_its_remote(git_url: str | None, hits: str):
    records = [
        one("a", git_url="https://example.org/team/app"),
        one("b", git_url="example.org/team/app"),
        one("c", git_url="ssh://git@example.org:2222/team/other.git"),
        one("d"),
        one("e", git_url=""),
    ]
    assert ids(of_project(records, git_url)) == hits


@pytest.mark.parametrize(
    ("url", "key"),
    [
        (None, None),
        ("", None),
        (" / ", None),
        ("https://Example.org/team/App.git", "example.org/team/App"),
        ("https://user:secret@example.org/team/app/", "example.org/team/app"),
        ("ftp://user:secret@example.org/app", "example.org/app"),
        ("ssh://git@example.org:22/team/app.git", "example.org/team/app"),
        ("git@example.org:team/app.git", "example.org/team/app"),
        ("example.org:team/app", "example.org/team/app"),
        ("example.org/team/app", "example.org/team/app"),
        ("/srv/git/app.git", "/srv/git/app"),
        ("file:///srv/git/app.git", "file:///srv/git/app"),
        ("C:\\git\\app", "C:\\git\\app"),
    ],
)
def test_2_a_remote_has_one_spelling(url: str | None, key: str | None):
    assert normalised_remote(url) == key
    assert normalised_remote(key) == key


def test_11_what_is_here_wins_over_what_is_elsewhere():
    here, there = one("a", label="here"), one("a", label="there", source="remote")
    other = one("b", source="remote")
    assert merged([here], [there, other]) == (here, other)


def test_8_the_badge_counts_what_needs_attention():
    records = [one(state, state) for state in SessionState if state != "idle"]
    unread = [replace(record, unread=True) for record in records]
    away = [replace(record, session_id="x", archived=True) for record in unread]
    assert counts(records) == Counts(active=4, history=4, attention=3)
    assert counts([*unread, *away]) == Counts(active=4, history=4, archived=8, attention=4)
    assert counts([]) == Counts()
