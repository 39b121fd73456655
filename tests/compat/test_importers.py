"""Sessions of other agents as sessions here: every format, damaged files, and the command."""

import json
import os
import random
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from llm_server import LlmServer, finish
from rookery.compat.cli import IMPORTERS
from rookery.compat.importers.foreign_sessions import ForeignSession, Problems
from rookery.compat.importers.imported_facts import NO_RESULT, imported_events
from rookery.core.blocks import Image, Text, ToolCall, ToolResult
from rookery.core.facts import Event, Spent
from rookery.core.folds.history import Turn, history
from rookery.core.folds.task_record import fold
from rookery.core.folds.view import View
from rookery.engine.ports.model import ModelInfo, ModelRequest
from rookery.protocol.codec import event_from_json, event_to_json
from rookery.providers import anthropic, bedrock, gemini, openai, responses
from rookery.providers.vendors import VENDORS
from rookery.storage.cli.session_listing import view_of
from support.foreign_homes import (
    DAY,
    FAILED,
    FIXED,
    LAST,
    LOOK,
    NEWER,
    NEXT,
    PROMPT,
    READ,
    WRITERS,
    opencode_database,
)
from support.provider_validators import (
    validate_anthropic,
    validate_chat,
    validate_converse,
    validate_gemini,
    validate_responses,
)
from support.terminal_session import Installed, at

SEEING = ModelInfo(id="m", provider="p", images=True, thinking=True, caching=True)
AGENTS = list(WRITERS)
LINES = ("claude", "codex")
MIB = 1 << 20
TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))


def found(agent: str, home: Path) -> ForeignSession:
    importer = IMPORTERS[agent]
    [session] = [each for root in importer.roots(home, {}) for each in importer.find(root)]
    return session


def read(agent: str, home: Path) -> tuple[list[Event], Problems]:
    problems = Problems()
    session = found(agent, home)
    entries = IMPORTERS[agent].read(session, problems)
    return list(imported_events(session, agent, entries, "/home/ada/shop", problems)), problems


def check_resumable(events: list[Event]) -> View:
    """It folds, nothing in it waits to be done, and every provider accepts the next request."""
    state = fold(events)
    assert not state.pending
    assert not state.running
    assert not state.unread
    assert state.spent == Spent()
    request = ModelRequest(system="s", turns=history(events))
    validate_anthropic(anthropic.body(request, SEEING))
    validate_responses(responses.body(request, SEEING))
    validate_gemini(gemini.body(request, SEEING))
    validate_converse(bedrock.body(request, SEEING))
    for vendor in ("openai", "mistral"):
        validate_chat(openai.body(request, SEEING, VENDORS[vendor]))
    return view_of(events)


def shape(turns: list[Turn]) -> list[tuple[str, ...]]:
    return [(turn.role, *map(_word, turn.blocks)) for turn in turns]


def _word(block: object) -> str:
    match block:
        case ToolCall():
            return "call"
        case ToolResult(text=text, is_error=failed):
            return f"{text}{' (failed)' if failed else ''}"
        case Image():
            return "image"
        case Text(text=text):
            known = [words for words in (PROMPT, LOOK, FIXED, NEXT, LAST) if words in text]
            return known[0] if known else "note"
        case _:
            return "?"


@pytest.mark.parametrize("agent", AGENTS)
def test_messages_calls_and_results_are_kept_in_order(agent: str, tmp_path: Path):
    WRITERS[agent](tmp_path, tmp_path / "work")
    events, problems = read(agent, tmp_path)
    assert problems.reasons == []
    usage = check_resumable(events).usage
    assert shape(history(events)) == [
        ("user", PROMPT, "image"),
        ("assistant", LOOK, "call", "call"),
        ("user", READ, f"{FAILED} (failed)"),
        ("assistant", FIXED),
        ("user", NEXT),
        ("assistant", LAST),
        ("user", "note"),
    ]
    assert events[0].ts == DAY
    requests = 4 if agent == "claude" else 1
    assert (usage.tokens_in, usage.tokens_out) == (requests * 100, requests * 5)
    assert usage.cost == (0.5 if agent in ("roo", "cline", "kilo", "opencode") else 0)


def _spoilt(file: Path) -> Iterator[bytes]:
    """The file without a line, with that line cut in half, and cut off in the middle."""
    lines = file.read_bytes().splitlines(keepends=True)
    for place, line in list(enumerate(lines))[:: 1 if TORTURE else 4]:
        yield b"".join([*lines[:place], *lines[place + 1 :]])
        yield b"".join([*lines[:place], line[: len(line) // 2], b"\n", *lines[place + 1 :]])
    yield b"".join(lines)[: file.stat().st_size // 2]


@pytest.mark.parametrize("agent", AGENTS)
def test_the_intact_part_of_a_damaged_file_can_be_resumed(agent: str, tmp_path: Path):
    file = WRITERS[agent](tmp_path, tmp_path / "work")
    imported = 0
    for data in _spoilt(file):
        file.write_bytes(data)
        events, _ = read(agent, tmp_path)
        imported += bool(events)
        if events:
            check_resumable(events)
    assert imported or agent == "gemini"  # one JSON object: damaged, it cannot be read at all


ODD: list[Any] = [None, True, -5, 1e308, 10**25, "", "\ud83d", [], {}, [None], [{"type": "text"}]]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every dictionary and list in it, with each key."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


@pytest.mark.parametrize("agent", AGENTS)
def test_values_of_any_type_do_no_harm(agent: str, tmp_path: Path):
    file = WRITERS[agent](tmp_path, tmp_path / "work")
    whole, chance = file.read_text(), random.Random(agent)
    for _ in range(60 if TORTURE else 20):
        lines = [json.loads(line) for line in whole.splitlines()] if agent in LINES else None
        value = lines or json.loads(whole)
        for inside, key in chance.sample(list(_places(value)), 2):
            inside[key] = deepcopy(chance.choice(ODD))
        file.write_text("\n".join(map(json.dumps, lines)) if lines else json.dumps(value))
        events, _ = read(agent, tmp_path)
        assert [event_from_json(event_to_json(event)) for event in events] == events
        if events:
            check_resumable(events)


@pytest.mark.parametrize(("agent", "home"), [("claude", ".claude"), ("gemini", ".gemini")])
def test_sessions_are_found_from_the_agents_own_folder(agent: str, home: str, tmp_path: Path):
    WRITERS[agent](tmp_path, tmp_path / "work")
    (tmp_path / home / "history.jsonl").write_text("{}\n")
    assert [*IMPORTERS[agent].find(tmp_path / home)] == [found(agent, tmp_path)]


def test_a_damaged_line_is_counted_and_its_call_gets_a_result(tmp_path: Path):
    file = WRITERS["codex"](tmp_path, tmp_path)
    lines = file.read_bytes().splitlines(keepends=True)
    lines[10] = b'{"timestamp": "2025\xff\n'
    file.write_bytes(b"".join(lines))
    events, problems = read("codex", tmp_path)
    assert (problems.count, problems.reasons) == (1, ["line 11: not valid JSON"])
    assert f"{NO_RESULT} (failed)" in shape(history(events))[2]


@pytest.mark.parametrize("odd", ["1e999", "NaN"])
def test_records_before_an_odd_number_in_a_cut_file_are_kept(odd: str, tmp_path: Path):
    file = WRITERS["roo"](tmp_path, tmp_path)
    file.write_text(f'[{{"role": "user", "content": "{PROMPT}"}}, {{"ts": {odd}}}, {{"role')
    events, problems = read("roo", tmp_path)
    assert PROMPT in str(events)
    assert problems.count == 1


def test_a_large_file_is_read_line_by_line(tmp_path: Path):
    file = WRITERS["codex"](tmp_path, tmp_path)
    start, *_ = file.read_text().splitlines()
    with file.open("w") as out:
        out.write(f"{start}\n")
        for number in range(40):
            text = f"{number} " + "x" * MIB
            content = [{"type": "input_text", "text": text}]
            item = {"type": "message", "role": "user", "content": content}
            out.write(json.dumps({"type": "response_item", "payload": item}) + "\n")
    session, problems = found("codex", tmp_path), Problems()
    tracemalloc.start()
    events = imported_events(session, "x", IMPORTERS["codex"].read(session, problems), "", problems)
    count = sum(1 for _ in events)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 44
    assert peak < 16 * MIB


def test_a_summary_replaces_what_was_before_it(tmp_path: Path):
    file = WRITERS["claude"](tmp_path, tmp_path)
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None}
    told = {"message": {"role": "user", "content": "It was about a parser."}, "parentUuid": "b"}
    with file.open("a") as out:
        out.write(json.dumps({**boundary, "logicalParentUuid": "a6"}) + "\n")
        out.write(
            json.dumps({"type": "user", "uuid": "c", "isCompactSummary": True, **told}) + "\n"
        )
    events, _ = read("claude", tmp_path)
    check_resumable(events)
    [only] = history(events)
    assert "It was about a parser." in str(only)
    assert FIXED not in str(only)


def test_rewound_messages_are_not_sent(tmp_path: Path):
    file = WRITERS["codex"](tmp_path, tmp_path)
    back = {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}
    with file.open("a") as out:
        out.write(json.dumps(back) + "\n")
    events, _ = read("codex", tmp_path)
    check_resumable(events)
    assert shape(history(events))[3:] == [("assistant", FIXED), ("user", "note")]


@pytest.mark.parametrize("agent", NEWER)
def test_newer_versions_store_the_same_conversation(agent: str, tmp_path: Path):
    older, newer = tmp_path / "older", tmp_path / "newer"
    WRITERS[agent](older, newer / "work")
    file = NEWER[agent](newer)
    before = file.read_bytes()
    events, problems = read(agent, newer)
    assert problems.reasons == []
    assert events == read(agent, older)[0]
    assert found(agent, newer).title == found(agent, older).title
    assert (file.read_bytes(), [*file.parent.iterdir()]) == (before, [file])


@pytest.mark.parametrize("agent", NEWER)
def test_the_intact_part_of_a_damaged_newer_file_can_be_resumed(agent: str, tmp_path: Path):
    file, chance = NEWER[agent](tmp_path), random.Random(agent)
    whole, importer = file.read_bytes(), IMPORTERS[agent]
    for _ in range(60 if TORTURE else 20):
        at = chance.randrange(len(whole))
        file.write_bytes(chance.choice([whole[:at], whole[:at] + b"\xff\0" + whole[at + 2 :]]))
        for session in importer.find(file.parent):
            problems = Problems()
            entries = importer.read(session, problems)
            if events := list(imported_events(session, agent, entries, "/", problems)):
                check_resumable(events)


@pytest.mark.parametrize(
    ("revert", "last"),
    [({"messageID": "msg_004"}, FIXED), ({"messageID": "msg_002", "partID": "prt_003"}, LOOK)],
)
def test_rewound_messages_in_a_database_are_not_imported(
    revert: dict[str, str], last: str, tmp_path: Path
):
    with closing(sqlite3.connect(opencode_database(tmp_path))) as database, database:
        database.execute("UPDATE session SET revert = ?", [json.dumps(revert)])
    events, _ = read("opencode", tmp_path)
    check_resumable(events)
    assert shape(history(events))[-2][:2] == ("assistant", last)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE part RENAME TO p; CREATE VIEW part AS SELECT * FROM p",
        "DROP TABLE message",
        "UPDATE part SET data = zeroblob(70000000) WHERE id = 'prt_003'",
        "UPDATE part SET data = 7, id = x'ff'",
    ],
)
def test_an_odd_database_is_reported_or_shows_nothing(change: str, tmp_path: Path):
    file, importer = opencode_database(tmp_path), IMPORTERS["opencode"]
    [session] = importer.find(file.parent)
    with closing(sqlite3.connect(file)) as database, database:
        database.executescript(change)
    problems = Problems()
    entries = importer.read(session, problems)
    assert READ not in str(list(imported_events(session, "x", entries, "/", problems)))
    assert problems.count


def test_a_session_with_an_unreadable_id_is_reported(tmp_path: Path):
    with closing(sqlite3.connect(opencode_database(tmp_path))) as database, database:
        database.execute("UPDATE session SET id = CAST(x'ff' AS TEXT)")
    events, problems = read("opencode", tmp_path)
    assert not events
    assert problems.count == 1


def test_a_database_in_use_is_read_with_its_newest_rows(tmp_path: Path):
    file = opencode_database(tmp_path)
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        with database:
            database.execute("UPDATE session SET title = 'Newer'")
        assert found("opencode", tmp_path).title == "Newer"


class TestCommand:
    @pytest.fixture
    def rookery(self, tmp_path: Path) -> Installed:
        rookery = Installed(tmp_path)
        for write in WRITERS.values():
            write(Path(rookery.environ["HOME"]), rookery.workspace)
        return rookery

    def test_sessions_are_found_imported_once_and_continued(self, rookery: Installed):
        home = Path(rookery.environ["HOME"])
        before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
        listed = json.loads(rookery.run("import", "--json").stdout)["sessions"]
        assert [each["agent"] for each in listed] == AGENTS
        assert not rookery.sessions()
        for agent in AGENTS:
            assert "Imported 1 session." in rookery.run("import", agent).stdout
            again = json.loads(rookery.run("import", agent, "--json").stdout)["sessions"]
            assert [each["state"] for each in again] == ["known"]
        assert len(rookery.sessions()) == len(AGENTS)
        assert f"{len(AGENTS)} stored, none damaged." in rookery.run("doctor").stdout
        assert "Parser repair" in rookery.run("list").stdout
        assert len(rookery.run("search", "parse.py").stdout.splitlines()) >= len(AGENTS)
        shown = rookery.run("show", again[0]["session"]).stdout
        places = [shown.index(words) for words in (PROMPT, LOOK, FIXED, NEXT, LAST)]
        assert places == sorted(places)
        for each in rookery.sessions():
            with LlmServer([finish("Went on.")]) as server:
                done = rookery.run("-p", *at(server), "--resume", each["id"], "Go on")
            assert (done.returncode, done.stdout) == (0, "Went on.\n"), done.stderr
            assert READ in str(server.requests[0].body)
        assert before == {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}

    def test_other_folders_need_all_and_here_moves_them(self, rookery: Installed):
        other = rookery.workspace.parent / "other"
        other.mkdir()
        none = rookery.run("import", "claude", "-w", str(other))
        assert (none.returncode, none.stdout) == (1, "")
        assert "--all" in none.stderr
        assert rookery.run("import", "--all").returncode == 2
        assert rookery.run("import", "claude", "--all", "--here", "-w", str(other)).returncode == 0
        listed = rookery.run("list", "--format", "json", "-w", str(other)).stdout
        assert [each["workspace"] for each in json.loads(listed)["sessions"]] == [str(other)]

    def test_what_cannot_be_read_is_reported(self, rookery: Installed):
        [file] = Path(rookery.environ["HOME"]).rglob("rollout-*.jsonl")
        with file.open("ab") as out:
            out.write(b"\x1b[31mno json\n")
        done = rookery.run("import", "codex")
        assert done.returncode == 0
        assert f"1 record of {file} could not be read:\n    line 18: not valid JSON" in done.stderr
        assert os.access(file, os.R_OK)

    @pytest.mark.parametrize("folder", ["/a\0b", "../up", "~"])
    def test_a_folder_that_cannot_exist_counts_as_unknown(self, rookery: Installed, folder: str):
        [file] = Path(rookery.environ["HOME"]).rglob("rollout-*.jsonl")
        spelled = file.read_text().replace(json.dumps(str(rookery.workspace)), json.dumps(folder))
        file.write_text(spelled)
        assert rookery.run("import", "codex").returncode == 1
        assert rookery.run("import", "codex", "--all").returncode == 0
        assert [each["workspace"] for each in rookery.sessions()] == [str(rookery.workspace)]
