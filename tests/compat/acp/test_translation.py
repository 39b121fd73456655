"""Facts as updates, questions as permission requests, prompts as messages."""

import base64
import json

import pytest

from rookery.compat.acp.questions import (
    PromptTurn,
    form,
    form_answer,
    permission_answer,
    permission_options,
)
from rookery.compat.acp.requests import ClientCapabilities, ShownUpdates, prompt_content
from rookery.compat.acp.tool_calls import LONGEST_OUTPUT, Wire, hunks, kind_of_call
from rookery.compat.acp.updates import TaskUpdates
from rookery.core.asks import AskKind, IntentQuestion
from rookery.core.blocks import Text, Thinking, ToolCall
from rookery.core.event_list import EventList
from rookery.core.facts import (
    Asked,
    AssistantSpoke,
    CompletionOffered,
    Condensed,
    Condensing,
    Event,
    Fact,
    Noted,
    OutputStreamed,
    PromptRefused,
    RequestFailed,
    RequestStarted,
    StepCancelled,
    StopReason,
    TaskOpened,
    TextStreamed,
    Todo,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
)
from rookery.core.limits import MIB, FailureKind
from rookery.protocol.attend import Say
from rookery.protocol.jsonrpc import RpcError
from support.each_row import each_row
from support.foreign_homes import PICTURE

PAYLOAD = json.dumps(
    {
        "tool": "editedExistingFile",
        "path": "a.txt",
        "content": "@@ -7,3 +7,3 @@\n one\n-two\n+2\n three",
        "diffStats": {"added": 1, "removed": 1},
    }
)
DIFF = {
    "type": "diff",
    "path": "/w/a.txt",
    "oldText": "one\ntwo\nthree\n",
    "newText": "one\n2\nthree\n",
}
EDIT = AssistantSpoke(
    request_id="r", blocks=(ToolCall(id="c", name="edit", arguments={"file_path": "a.txt"}),)
)


PLAIN = ClientCapabilities()


def updates(
    *facts: Fact, replay: bool = False, child: str = "", client: ClientCapabilities = PLAIN
) -> list[Wire]:
    shown = TaskUpdates("/w", client, child=child)
    events = [Event(number, 0, number * 100, fact) for number, fact in enumerate(facts, 1)]
    if replay:
        return [*shown.load(EventList(events), replay=True)]
    return [each for event in events for each in shown.see(event)]


def kinds(found: list[Wire]) -> list[str]:
    return [each["sessionUpdate"] for each in found]


def test_streamed_text_is_not_repeated_by_the_whole_answer():
    whole = AssistantSpoke(request_id="r", blocks=(Thinking(text="Hm."), Text(text="Hi there")))
    found = updates(
        TextStreamed(request_id="r", text="Hi "), TextStreamed(request_id="r", text="there"), whole
    )
    said = [(each["sessionUpdate"], each["content"]["text"]) for each in found]
    assert said == [
        ("agent_message_chunk", "Hi "),
        ("agent_message_chunk", "there"),
        ("agent_thought_chunk", "Hm."),
    ]
    assert kinds(updates(whole)) == ["agent_thought_chunk", "agent_message_chunk"]
    assert kinds(updates(whole, child="kid")) == ["agent_thought_chunk"] * 2


def test_the_users_messages_are_sent_only_when_a_session_is_loaded():
    facts = (TaskOpened(text="Begin"), UserSpoke(message_id="m", text="More"))
    assert updates(*facts) == []
    assert [each["content"]["text"] for each in updates(*facts, replay=True)] == ["Begin", "More"]


def test_an_edit_keeps_its_difference_to_the_end():
    started = ToolStarted(call_id="c", tool="edit", title="Edit a.txt", text=PAYLOAD)
    announced, prepared, ended = updates(EDIT, started, ToolFinished(call_id="c", text="ok"))
    assert (announced["kind"], announced["status"]) == ("edit", "pending")
    assert announced["locations"] == [{"path": "/w/a.txt"}]
    assert (prepared["status"], prepared["content"]) == ("in_progress", [DIFF])
    assert prepared["locations"] == [{"path": "/w/a.txt", "line": 7}]
    assert (ended["status"], ended["content"]) == ("completed", [DIFF])


def test_output_is_sent_now_and_then_and_only_its_end():
    run = AssistantSpoke(request_id="r", blocks=(ToolCall(id="c", name="execute_command"),))
    pieces = [OutputStreamed(call_id="c", text="x" * 3000) for _ in range(20)]
    _, *shown = updates(run, *pieces)
    assert len(shown) == 10
    text = shown[-1]["content"][0]["content"]["text"]
    assert (text[:4], text[-4:]) == ("```\n", "\n```")
    assert len(text) == LONGEST_OUTPUT + 8


TERMINALS = ClientCapabilities(meta={"terminal_output": True})
RUN = AssistantSpoke(request_id="r", blocks=(ToolCall(id="c", name="execute_command"),))
SHOWN = [{"type": "terminal", "terminalId": "c"}]


def printed(text: str) -> dict[str, str]:
    return {"terminal_id": "c", "data": text}


def exited(code: int | None) -> dict[str, object]:
    return {"terminal_id": "c", "exit_code": code, "signal": None}


def test_output_goes_to_a_terminal_of_editors_that_show_one():
    facts = (
        RUN,
        ToolStarted(call_id="c", tool="execute_command", title="Run make"),
        OutputStreamed(call_id="c", text="one\n"),
        OutputStreamed(call_id="c", text="two\n"),
        ToolFinished(call_id="c", text="one two", exit_code=2),
    )
    called, started, output, end = updates(*facts, client=TERMINALS)
    assert called["_meta"] == {"terminal_info": {"terminal_id": "c", "cwd": "/w"}}
    assert called["content"] == started["content"] == end["content"] == SHOWN
    assert output["_meta"] == {"terminal_output": printed("one\n")}
    assert end["_meta"] == {"terminal_output": printed("two\n"), "terminal_exit": exited(2)}
    *_, loaded = updates(facts[0], facts[1], facts[4], client=TERMINALS)
    assert loaded["_meta"]["terminal_output"] == printed("one two")
    *_, stopped = updates(*facts[:2], StepCancelled(), client=TERMINALS)
    assert (stopped["status"], stopped["_meta"]) == ("failed", {"terminal_exit": exited(None)})
    *_, rejected = updates(RUN, facts[4], client=TERMINALS)
    assert rejected["content"][0]["content"]["text"] == "```\none two\n```"


def test_a_cancelled_step_leaves_no_call_open():
    assert updates(EDIT, StepCancelled())[1] == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c",
        "status": "failed",
    }


@each_row(
    ("fact", "all_announced", "none_announced"),
    [
        (TodosChanged(todos=(Todo(id="1", content="x"),)), ["plan"], ["plan"]),
        (Noted(text="Careful."), ["notice"], ["agent_thought_chunk"]),
        (Condensing(tokens=9), ["compaction_update"], []),
        (Condensed(upto=1, summary="s"), ["compaction_update"], []),
        (CompletionOffered(result="Done."), ["agent_message_chunk"], ["agent_message_chunk"]),
        (CompletionOffered(result="Done.", spoken=True), [], []),
    ],
)
def test_optional_updates_are_sent_if_the_client_announced_them(
    fact: Fact, all_announced: list[str], none_announced: list[str]
):
    shows_all = ClientCapabilities(session=ShownUpdates(notices={}, compaction={}))
    assert kinds(updates(fact, client=shows_all)) == all_announced
    assert kinds(updates(fact)) == none_announced


def test_the_use_of_the_window_is_reported():
    begun = RequestStarted(request_id="r", model="m", window=1000)
    usage = Usage(tokens_in=90, tokens_out=10, cost=0.5)
    answer = AssistantSpoke(request_id="r", blocks=(), usage=usage)
    assert updates(begun, answer)[-1] == {
        "sessionUpdate": "usage_update",
        "used": 100,
        "size": 1000,
        "cost": {"amount": 0.5, "currency": "USD"},
    }


@each_row(
    ("tool", "kind"),
    [
        *(("read_file", "read"), ("edit", "edit"), ("execute_command", "execute")),
        *(("list_files", "search"), ("search_files", "search"), ("codebase_search", "search")),
        *(("list_code_definition_names", "search"), ("web_search", "search")),
        *(("web_fetch", "fetch"), ("browser_action", "fetch"), ("switch_mode", "switch_mode")),
        *(("new_task", "think"), ("run_agents", "think"), ("mcp--tickets--open", "other")),
    ],
)
def test_editors_show_the_kind_of_a_tool(tool: str, kind: str):
    assert kind_of_call(tool) == kind


def test_a_permission_request_has_the_whole_call():
    shown = TaskUpdates("/w", PLAIN)
    list(shown.see(Event(1, 0, 1, EDIT)))
    asked = Asked(
        ask_id="q",
        ask=AskKind.TOOL,
        call_id="c",
        title="Edit a.txt",
        text=PAYLOAD,
        notes=("It is a link.",),
    )
    call = shown.permission(asked)
    assert (call["toolCallId"], call["kind"], call["title"]) == ("c", "edit", "Edit a.txt")
    assert call["rawInput"] == {"file_path": "a.txt"}
    note = {"type": "content", "content": {"type": "text", "text": "It is a link."}}
    assert call["content"] == [DIFF, note]


@each_row(
    ("diff", "pieces"),
    [
        ("@@ -0,0 +1,2 @@\n+a\n+b", [(None, "a\nb\n", 1)]),
        ("@@ -1,2 +0,0 @@\n-a\n-b", [("a\nb\n", "", 1)]),
        ("@@ -1 +1 @@\n-a\n+b\n@@ -9 +9 @@\n-c\n+d", [("a\n", "b\n", 1), ("c\n", "d\n", 9)]),
        ("(Only line ends change.)", []),
    ],
)
def test_pieces_of_a_diff(diff: str, pieces: list[tuple[str | None, str, int]]):
    assert list(hunks(diff)) == pieces


ASKED = Asked(
    ask_id="q",
    ask=AskKind.COMMAND,
    digest="d",
    rule="exactly this command: make",
    prefix="commands that begin so: make …",
    governance=IntentQuestion(choices=("task", "halt"), grant="docs/**"),
)


def test_options_name_the_rules_they_add():
    assert [tuple(each.values()) for each in permission_options(ASKED)] == [
        ("once", "Allow once", "allow_once"),
        ("always", "Always allow exactly this command: make", "allow_always"),
        ("prefix", "Always allow commands that begin so: make …", "allow_always"),
        ("task", "Allow for the rest of this session: docs/**", "allow_always"),
        ("halt", "Reject, and stop the session", "reject_always"),
        ("reject", "Reject", "reject_once"),
    ]
    plain = Asked(ask_id="q", ask=AskKind.COMMAND)
    assert [each["optionId"] for each in permission_options(plain)] == ["once", "reject"]


def selected(option: object) -> object:
    return {"outcome": {"outcome": "selected", "optionId": option}}


@each_row(
    ("response", "expected"),
    [
        (selected("once"), Say("yes")),
        (selected("always"), Say("yes", always=True)),
        (selected("prefix"), Say("yes", prefix=True)),
        (selected("task"), Say("yes", choice="task")),
        (selected("halt"), Say("no", choice="halt")),
        (selected("reject"), Say("no")),
    ],
)
def test_an_option_becomes_an_answer(response: object, expected: Say):
    assert permission_answer(ASKED, response) == expected


@each_row(
    "response",
    [None, {}, [], "once", selected("expand"), selected("ONCE"), selected(None), selected([])],
)
def test_no_other_answer_approves(response: object):
    assert permission_answer(ASKED, response).reply == "no"


def test_forms_offer_the_suggestions_and_other_words():
    shown = form(("a", "b"))
    assert shown["properties"]["answer"]["enum"] == ["a", "b"]
    assert form_answer({"action": "accept", "content": {"answer": "a"}}) == "a"
    assert form_answer({"action": "accept", "content": {"answer": "a", "other": "c"}}) == "c"
    assert form_answer({"action": "accept", "content": {}}) is None
    assert form_answer({"action": "decline"}) is None


def test_prompts_with_links_files_and_pictures():
    image = {"type": "image", "mimeType": "image/png", "data": PICTURE}
    content = prompt_content(
        [
            {"type": "text", "text": "Compare"},
            {"type": "resource_link", "uri": "file:///w/a%20b.py", "name": "a b.py"},
            {"type": "text", "text": "with"},
            {"type": "resource", "resource": {"uri": "file:///w/c.py", "text": "c = 1"}},
            {"type": "resource_link", "uri": "https://x.test/y", "name": "y"},
            image,
        ],
        "/w",
    )
    assert content.text == (
        "Compare @/a\\ b.py with /w/c.py  https://x.test/y\n\n"
        "/w/c.py:\n<piped_text>\nc = 1\n</piped_text>"
    )
    assert [each.media_type for each in content.images] == ["image/png"]


@each_row(
    ("block", "problem"),
    [
        ({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}, "'audio' is not supported"),
        ({"type": "image", "mimeType": "image/png", "data": "?"}, "not base64"),
        ({"type": "image", "mimeType": "image/png", "data": "aGk="}, "png. is not a PNG"),
        ({"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zz4="}, "xml. is not a PNG"),
        ({"type": "text"}, "incomplete"),
        ({}, "needs a type"),
        ({"type": "text", "text": "  "}, "The prompt is empty"),
    ],
)
def test_prompts_that_are_refused(block: Wire, problem: str):
    with pytest.raises(RpcError, match=problem):
        prompt_content([block], "/w")


def test_images_beyond_the_limits_are_refused_and_not_sent_again_and_again():
    data = base64.b64decode(PICTURE)
    sized = {
        size: base64.b64encode(data.ljust(size * MIB - MIB // 2, b"\0")).decode()
        for size in (1, 4, 6)
    }
    refused = {
        "the limit is 5 MiB": [6],
        "20 MiB of images": [4] * 6,
        "at most 20 images": [1] * 21,
    }
    for problem, sizes in refused.items():
        images = [{"type": "image", "mimeType": "image/png", "data": sized[each]} for each in sizes]
        with pytest.raises(RpcError, match=f"Block {len(sizes)} of the prompt: .*{problem}"):
            prompt_content(images, "/w")


@each_row("uri", ["file:///w/../etc/x", "file:///w/%2e%2e/etc/x", "file:///etc/x"])
def test_a_link_outside_the_workspace_stays_text(uri: str):
    link = {"type": "resource_link", "uri": uri, "name": "x"}
    assert prompt_content([link], "/w").text == "/etc/x"


def failed(kind: FailureKind) -> RequestFailed:
    return RequestFailed(request_id="r", error=kind, message="No.")


@each_row(
    ("fact", "ask", "stop", "code"),
    [
        (None, AskKind.COMPLETION_RESULT, "end_turn", None),
        (AssistantSpoke(request_id="r", blocks=(), stop=StopReason.LENGTH), None, "max_tokens", 0),
        (StepCancelled(), AskKind.RESUME_TASK, "cancelled", None),
        (PromptRefused(of=1, text="", reason=""), AskKind.RESUME_TASK, "refusal", None),
        (failed(FailureKind.REFUSED), AskKind.API_REQ_FAILED, "refusal", None),
        (failed(FailureKind.BAD_KEY), AskKind.API_REQ_FAILED, "end_turn", -32000),
        (failed(FailureKind.OFFLINE), AskKind.API_REQ_FAILED, "end_turn", -32603),
        (None, AskKind.AUTO_APPROVAL_MAX_REQ_REACHED, "max_turn_requests", None),
        (None, None, "end_turn", -32603),
    ],
)
def test_why_a_turn_ended(fact: Fact | None, ask: AskKind | None, stop: str, code: int | None):
    turn = PromptTurn()
    if fact:
        turn.see(fact)
    turn.end(Asked(ask_id="q", ask=ask or AskKind.COMPLETION_RESULT) if ask or code == 0 else None)
    assert turn.stop == stop
    assert (turn.error.code if turn.error else None) == (code or None)
