"""How structured output reports calls and questions of special tools."""

import json
from typing import Any

from rookery.compat.structured_output.call_rows import Ids
from rookery.compat.structured_output.output_events import DrivenOutput, StructuredOutput
from rookery.core.asks import AskKind
from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CallStreamed,
    Event,
    Fact,
    RequestStarted,
    ToolFinished,
    ToolStarted,
    next_event,
)
from support.each_row import each_row

JsonEvent = dict[str, Any]
PAYLOAD = '{"type": "use_mcp_tool", "serverName": "db", "toolName": "query", "arguments": "{}"}'


def reported(*facts: Fact, driven: bool = False) -> list[JsonEvent]:
    output = StructuredOutput(session_id="t1", stream=True)
    if driven:
        output = DrivenOutput(session_id="t1", after=0, ids=Ids())
    events: list[Event] = []
    for fact in facts:
        events.append(next_event(events[-1] if events else None, fact, 1))
    return [one for event in events for one in output.see(event)]


def piece(name: str, arguments: str) -> CallStreamed:
    return CallStreamed(request_id="r", index=0, name=name, arguments=arguments)


def answer(name: str, **arguments: Any) -> AssistantSpoke:
    call = ToolCall(id="c1", name=name, arguments=arguments)
    return AssistantSpoke(request_id="r", blocks=(call,))


class TestMcp:
    @each_row("name", ["use_mcp_tool", "access_mcp_resource", "mcp--db--query"])
    def test_partial_calls_have_no_input(self, name: str):
        [one] = reported(piece(name, '{"a"'))
        assert one == {
            "type": "tool_use",
            "subtype": "mcp",
            "id": 1,
            "content": '{"a"',
            "tool_use": {"name": "mcp_server"},
        }

    @each_row("asked", [True, False])
    def test_the_input_is_raw_text_and_the_result_is_the_servers(self, asked: bool):
        ask = AskKind.USE_MCP_SERVER
        question = Asked(ask_id="q", ask=ask, text=PAYLOAD, call_id="c1")
        start = ToolStarted(call_id="c1", tool="use_mcp_tool", title="", ask=ask, text=PAYLOAD)
        end = ToolFinished(call_id="c1", text="3 rows")
        events = reported(answer("mcp--db--query"), *([question] if asked else []), start, end)
        use, *waiting, result = events
        assert [one["code"] for one in waiting] == (["use_mcp_server"] if asked else [])
        assert (use["subtype"], use["tool_use"]["name"], use["done"]) == ("mcp", "mcp_server", True)
        assert json.loads(use["tool_use"]["input"]["raw"]) == json.loads(PAYLOAD)
        assert (result["subtype"], result["id"]) == ("mcp", use["id"])
        assert result["tool_result"] == {"name": "mcp_server", "output": "3 rows"}

    def test_an_interrupted_call_is_shown_as_received(self):
        facts = [piece("mcp--db--query", '{"a'), RequestStarted(request_id="r2", model="m")]
        closing = reported(*facts)[1]
        assert closing["tool_use"] == {"name": "mcp_server", "input": {"raw": '{"a'}}


class TestQuestionsOfTools:
    TEXT = '{"question": "Which port?"}'

    def story(self, **answered: Any) -> list[Fact]:
        return [
            piece("ask_followup_question", "{"),
            answer("ask_followup_question", question="Which port?"),
            ToolStarted(call_id="c1", tool="ask_followup_question", title="", text="{}"),
            Asked(ask_id="q", ask=AskKind.FOLLOWUP, text=self.TEXT, call_id="c1"),
            Answered(ask_id="q", ask=AskKind.FOLLOWUP, reply="message", text="8080", **answered),
            ToolFinished(call_id="c1", text="8080"),
        ]

    def test_an_answer_by_a_rule_is_the_result_of_the_call(self):
        events = reported(*self.story(by="policy"))
        assert [one["type"] for one in events] == ["tool_use", "system", "tool_result"]
        assert events[-1]["tool_result"]["output"] == "8080"

    def test_a_driver_receives_a_followup_as_text_and_not_as_a_call(self):
        text = self.TEXT
        events = reported(*self.story(), driven=True)
        assert [(one["type"], one.get("subtype"), one.get("content")) for one in events] == [
            ("assistant", "followup", text),
            ("system", "waiting", "answer"),
            ("user", None, "8080"),
        ]

    def test_the_offer_to_end_a_command_is_not_reported(self):
        offer = Asked(ask_id="q", ask=AskKind.COMMAND_OUTPUT, call_id="c1")
        start = ToolStarted(
            call_id="c1",
            tool="execute_command",
            title="",
            ask=AskKind.COMMAND,
            text="ls",
            command="ls",
        )
        events = reported(answer("execute_command", command="ls"), start, offer)
        assert [one["type"] for one in events] == ["tool_use"]
