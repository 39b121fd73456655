"""The messages that `--json-io` sends to its driver, and when."""

import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.compat.driver import StartSettings
from rookery.compat.json_io.client import ExtensionClient
from rookery.compat.json_io.messages import EngineMessages, title
from rookery.compat.json_io.row_messages import Wire, as_message, read_row
from rookery.compat.json_io.task_events import grants
from rookery.compat.json_io.task_rows import PACE, SHORT
from rookery.core.asks import AskKind
from rookery.core.blocks import Image, Text, ToolCall
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CallStreamed,
    ChildBegan,
    CompletionOffered,
    Condensed,
    Event,
    Fact,
    ModelSwitched,
    ModeSwitched,
    Pausing,
    RequestStarted,
    Rewound,
    StepCancelled,
    TaskOpened,
    TextStreamed,
    Todo,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
)
from rookery.core.queries import About, KnownTask
from support.each_row import each_row
from support.json_io_client import rows_in
from support.json_io_schema import FILE, problem_with, text
from support.sample_logs import ANY_LOG, log

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))

ABOUT = About(version="1", workspace="/w", provider="p", model="m", mode="code")
OPENED = TaskOpened(text="do it")
ASKED = RequestStarted(request_id="r", model="m")


def driven(*, webview: bool = True) -> EngineMessages:
    reported = EngineMessages(ABOUT)
    if webview:
        reported.launch(())
    reported.drive("t")
    reported.catch_up(0.0)
    return reported


def send(reported: EngineMessages, *facts: Fact, pause: float = 1.0) -> list[Wire]:
    """Feed facts `pause` seconds apart; return the lines without task events."""
    lines: list[Wire] = []
    for number, event in enumerate(log(*facts), 1):
        lines += reported.see("t", event, number * pause)
    return [line for line in lines if "payload" not in line]


def words(count: int, text: str = "word ") -> list[Fact]:
    return [TextStreamed(request_id="r", text=text) for _ in range(count)]


@given(events=ANY_LOG, pauses=st.lists(st.sampled_from([0.0, 0.01, 0.06, 5.0]), min_size=1))
def test_all_lines_together_rebuild_the_rows(events: list[Event], pauses: list[float]):
    webview, manager = driven(), driven(webview=False)
    client = ExtensionClient(lambda message: None)
    lines: dict[int, Wire] = {}
    now = 0.0

    def read(line: Wire) -> None:
        for gone in line["ts"] if line.get("event") == "messages_removed" else ():
            del lines[gone]
        lines.update({row["ts"]: row for row in rows_in(line)})

    for number, event in enumerate(events):
        now += pauses[number % len(pauses)]
        for line in webview.see("t", event, now):
            assert problem_with(line) == ""
            client.handle_message(line)
        for line in manager.see("t", event, now):
            assert problem_with(line) == ""
            read(line)
    client.handle_messages(webview.news(now + 1000))
    for line in manager.news(now + 1000):
        read(line)
    assert (webview.waits, manager.waits) == (False, False)
    assert webview.task
    rows = [as_message(row) for row in webview.task.view.messages if row.say not in CONDENSED]
    assert [row for row in client.messages if row.get("say") not in CONDENSED] == rows
    assert [row for row in lines.values() if row.get("say") not in CONDENSED] == rows
    if rows:
        assert client.agent_state.state == webview.task.view.agent.state


CONDENSED = ("condense_context", "sliding_window_truncation")


def test_a_growing_row_is_throttled_and_then_reported_in_full():
    reported = driven()
    send(reported, OPENED, ASKED)
    now, times = 100.0, 0
    *most, last_word = log(OPENED, ASKED, *words(1000))[2:]
    for event in most:
        now += PACE / 10
        times += len(reported.see("t", event, now))
    times += len(reported.news(now + 1.0))
    assert reported.see("t", last_word, now + 1.0) == []
    assert reported.waits
    assert 85 <= times <= 101
    [last] = reported.news(now + 2.0)
    assert last["clineMessage"]["text"] == "word " * 1000
    assert reported.news(now + 1000) == []


def test_new_and_complete_rows_are_reported_at_once():
    reported = driven()
    spoke = AssistantSpoke(request_id="r", blocks=(Text(text="word word"),), usage=Usage(cost=1.0))
    lines = send(reported, OPENED, ASKED, *words(2), spoke, pause=0.0)
    rows = [line["clineMessage"] for line in lines if "clineMessage" in line]
    assert [(row["say"], row.get("partial")) for row in rows] == [
        ("text", None),
        ("api_req_started", None),
        ("text", True),
        ("api_req_started", None),
        ("text", None),
    ]
    assert not reported.waits


def written(count: int) -> int:
    """Characters written for an answer of `count` pieces, one hundred per second."""
    reported = driven()
    send(reported, OPENED, ASKED)
    now = size = 0.0
    for event in log(OPENED, ASKED, *words(count, "x" * 20))[2:]:
        now += 0.01
        size += sum(len(json.dumps(line)) for line in reported.see("t", event, now))
    return int(size)


def test_output_grows_linearly_with_an_answer():
    count = 5_000 if TORTURE else 2_000
    short, long = written(count), written(4 * count)
    print(f"{count} pieces: {short} characters, {4 * count} pieces: {long}")
    assert long < 4.5 * short
    assert long < 4 * count / 100 * SHORT / PACE * 1.1


def test_the_cost_of_a_row_does_not_depend_on_the_length_of_the_task():
    """Checked by output size, not by a clock: old rows are never sent again."""
    reported = driven()
    many = [fact for n in range(500) for fact in (Asked(ask_id=f"q{n}", ask=AskKind.TOOL),)]
    send(reported, OPENED, *many)
    size = len(json.dumps(report_one(reported, TextStreamed(request_id="x", text=""))))
    assert size < 200


def report_one(reported: EngineMessages, fact: Fact) -> list[Wire]:
    assert reported.task
    last = reported.task.view
    event = Event(last.seq, 1, 10**9, fact)
    return [line for line in reported.see("t", event, 10**6) if "payload" not in line]


def test_streamed_calls_that_will_be_removed_are_not_shown():
    calls = [
        CallStreamed(request_id="r", index=index, name="read_file", arguments='{"path": "a"}')
        for index in (0, 1, 2)
    ]
    blocks = tuple(
        ToolCall(id=f"c{n}", name="read_file", arguments={"path": "a"}) for n in range(3)
    )
    for webview in (True, False):
        lines = send(
            driven(webview=webview),
            OPENED,
            ASKED,
            *calls,
            AssistantSpoke(request_id="r", blocks=blocks),
        )
        assert [line for line in lines if line.get("event") == "messages_removed"] == []
        assert [line for line in lines if "clineMessages" in line.get("state", {})] == []
        asked = [row for line in lines for row in rows_in(line) if row.get("ask") == "tool"]
        assert len({row["ts"] for row in asked}) == 1
        assert json.loads(asked[0]["text"]) == {"tool": "readFile", "path": "a"}


def test_a_rewind_is_reported_as_a_snapshot_or_as_removed_rows():
    facts = (OPENED, ASKED, *words(2), StepCancelled(), Rewound(to=1))
    snapshot = send(driven(), *facts)[-1]["state"]
    assert [row["text"] for row in snapshot["clineMessages"]] == ["do it"]
    assert snapshot["clineMessagesSeq"] > 1
    lines = send(driven(webview=False), *facts)
    [removed] = [line for line in lines if line.get("event") == "messages_removed"]
    assert len(removed["ts"]) == 2


@pytest.mark.parametrize(
    ("fact", "part"),
    [
        (ModeSwitched(mode="debug"), {"mode": "debug"}),
        (
            ModelSwitched(provider="q", model="n"),
            {"apiConfiguration": {"apiProvider": "q", "apiModelId": "n"}},
        ),
        (
            TodosChanged(todos=(Todo(id="1", content="x"),)),
            {"currentTaskTodos": [{"id": "1", "content": "x", "status": "pending"}]},
        ),
        (
            UserSpoke(
                message_id="u", text="more", images=(Image(media_type="image/png", data="AA=="),)
            ),
            {
                "messageQueue": [
                    {
                        "id": "u",
                        "timestamp": 1100,
                        "text": "more",
                        "images": ["data:image/png;base64,AA=="],
                    }
                ]
            },
        ),
    ],
    ids=["mode", "model", "todos", "queue"],
)
def test_state_changes_outside_the_rows_are_reported_alone(fact: Fact, part: Wire):
    assert send(driven(), OPENED, fact)[-1] == {"type": "state", "state": part}
    assert send(driven(webview=False), OPENED, fact)[1:] == []


def test_the_whole_queue_is_reported_with_every_change():
    reported = driven()
    send(reported, OPENED, ASKED)
    states = [
        line["state"]["messageQueue"]
        for line in send(
            reported,
            UserSpoke(message_id="a", text="one"),
            UserSpoke(message_id="b", text="two"),
            RequestStarted(request_id="s", model="m"),
        )
        if "messageQueue" in line.get("state", {})
    ]
    assert [[item["text"] for item in queue] for queue in states] == [["one"], ["one", "two"], []]


def test_a_child_is_shown_while_it_works_and_a_manager_sees_what_it_asks():
    child = log(
        TaskOpened(text="part", parent="t"),
        RequestStarted(request_id="r", model="m"),
        Asked(ask_id="q", ask=AskKind.FOLLOWUP, text="Which?"),
        Answered(ask_id="q", ask=AskKind.FOLLOWUP, reply="message", text="this"),
        start=5000,
    )
    for webview in (True, False):
        reported = driven(webview=webview)
        send(reported, OPENED, ChildBegan(call_id="c", task_id="child"))
        lines = [line for event in child for line in reported.see("child", event, 99.0)]
        lines = [line for line in lines if "payload" not in line]
        assert reported.at_work
        assert reported.at_work.task_id == "child"
        lines += reported.end_task("child", 99.0)
        assert reported.at_work is reported.task
        shown = [
            line["state"]["currentTaskId"]
            for line in lines
            if "clineMessages" in line.get("state", {})
        ]
        if webview:
            assert shown == ["child", "t"]
        else:
            assert [(row["ask"], row["taskId"], row.get("isAnswered")) for row in lines] == [
                ("followup", "child", None),
                ("followup", "child", True),
            ]


def test_a_condensed_conversation_says_how_much_shorter_it_is():
    reported = driven()
    usage = Usage(cost=0.5)
    send(
        reported,
        OPENED,
        Condensed(upto=1, summary="In short.", tokens_before=9, tokens_after=3, usage=usage),
    )
    assert reported.task
    [row] = reported.task.messages()[1:]
    assert "text" not in row
    assert row["contextCondense"] == {
        "prevContextTokens": 9,
        "newContextTokens": 3,
        "cost": 0.5,
        "summary": "In short.",
        "condenseId": "2",
    }
    reported = driven()
    send(reported, OPENED, Condensed(upto=1, tokens_before=9, tokens_after=3))
    assert reported.task
    assert reported.task.messages()[1]["contextTruncation"]["newContextTokens"] == 3


def test_a_final_text_becomes_the_result_in_the_same_row():
    reported = driven()
    send(reported, OPENED, ASKED, TextStreamed(request_id="r", text="It is 4."))
    spoken = AssistantSpoke(request_id="r", blocks=(Text(text="It is 4."),))
    offered = CompletionOffered(result="It is 4.", spoken=True)
    lines = send(reported, spoken, offered, Asked(ask_id="q", ask=AskKind.COMPLETION_RESULT))
    rows = [as_message(row) for row in reported.task.view.messages if row.text == "It is 4."]
    assert [row["say"] for row in rows] == ["completion_result"]
    assert json.dumps(lines).count('"say": "completion_result"') == 1


def test_a_pause_between_requests_is_reported_in_seconds():
    reported = driven()
    send(reported, OPENED, Pausing(seconds=2.4, reason="", paced=True))
    row = as_message(reported.task.view.messages[-1])
    assert (row["say"], json.loads(row["text"])) == ("api_req_rate_limit_wait", {"seconds": 3})


def test_condensing_is_answered_once():
    reported = driven()
    send(reported, OPENED)
    [started] = reported.condense("t")
    assert started == {"type": "condenseTaskContextStarted", "text": "t"}
    ended = {"type": "condenseTaskContextResponse", "text": "t"}
    assert ended in send(reported, OPENED, Condensed(upto=1))
    assert ended not in send(reported, OPENED, Condensed(upto=1))


def test_settings_chosen_before_a_task_are_shown_and_kept():
    reported = EngineMessages(ABOUT)
    reported.launch(())
    [line] = reported.choose(StartSettings(mode="debug", automatic=True))
    assert (line["state"]["mode"], line["state"]["alwaysAllowWrite"]) == ("debug", True)
    assert line["state"]["alwaysAllowWriteOutsideWorkspace"] is False
    reported.choose(StartSettings(model="n"))
    assert reported.wanted == StartSettings(mode="debug", automatic=True, model="n")


def test_the_history_lists_known_tasks():
    reported = EngineMessages(ABOUT)
    known = KnownTask(task_id="a", title="x", workspace="/w", updated=7, status="completed")
    line, theme = reported.launch((known,))
    assert problem_with(line) == problem_with(theme) == ""
    [item] = line["state"]["taskHistory"]
    assert (item["id"], item["status"], item["ts"]) == ("a", "completed", 7)
    assert reported.history(())[0]["type"] == "taskHistoryUpdated"


@each_row(
    ("text", "expected"),
    [("a\n b", "a b"), ("x" * 120, "x" * 120), ("x" * 121, "x" * 117 + "...")],
)
def test_a_title_is_one_line(text: str, expected: str):
    assert title(text) == expected


@each_row(
    ("given_row", "ok"),
    [
        ({"ts": 1, "type": "say"}, True),
        ({"ts": 1.5, "type": "ask", "unknown": []}, True),
        ({"ts": True, "type": "say"}, False),
        ({"ts": "1", "type": "say"}, False),
        ({"type": "say"}, False),
        ({"ts": 1, "type": "other"}, False),
        ([], False),
        (None, False),
    ],
)
def test_only_objects_with_the_right_fields_are_messages(given_row: Any, ok: bool):
    assert (read_row(given_row) is not None) is ok


def test_the_committed_schema_is_the_generated_one():
    assert FILE.read_text(encoding="utf-8") == text()


@each_row(
    ("automatic", "allows", "granted"),
    [
        (False, (), {"ReadOnly"}),
        (False, ("edits",), {"ReadOnly", "Write"}),
        (False, ("outside", "protected"), {"ReadOnly", "ReadOnlyOutsideWorkspace"}),
        (
            True,
            (),
            {"ReadOnly", "Write", "Browser", "Mcp", "ModeSwitch", "Subtasks", "Execute"},
        ),
        (False, ("modes", "subtasks"), {"ReadOnly", "ModeSwitch", "Subtasks"}),
    ],
)
def test_the_flags_show_what_is_auto_approved(
    automatic: bool, allows: tuple[str, ...], granted: set[str]
):
    flags = grants(automatic, allows)
    assert {name.removeprefix("alwaysAllow") for name, on in flags.items() if on} == granted


def test_a_page_in_a_browser_is_reported_in_the_fields_that_webviews_read():
    reported = driven(webview=False)
    send(reported, OPENED, ToolStarted(call_id="b", tool="browser_action", title="Look"))
    picture = Image(media_type="image/png", data="AA==")
    seen = "The browser is at http://localhost:1/a.b.\nWhat the page says"
    [row] = report_one(reported, ToolFinished(call_id="b", text=seen, images=(picture,)))
    assert row["say"] == "browser_action_result"
    assert json.loads(row["text"]) == {
        "currentUrl": "http://localhost:1/a.b",
        "logs": seen,
        "screenshot": "data:image/png;base64,AA==",
    }
