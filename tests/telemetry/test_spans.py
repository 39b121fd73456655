"""Events become spans with the names and attributes of the conventions."""

from msgspec.structs import replace

from rookery.core.blocks import Text, ToolCall
from rookery.core.facts import (
    AssistantSpoke,
    CompletionOffered,
    Ending,
    Event,
    Fact,
    RequestFailed,
    RequestStarted,
    StepCancelled,
    StopReason,
    TaskFailed,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
)
from rookery.core.limits import FailureKind
from rookery.telemetry.otlp import Metrics
from rookery.telemetry.spans import LONGEST_TEXT, SpanLink, TaskSpans, TraceSpan
from support.each_row import each_row
from support.sample_logs import log

SECRET = "the password is hunter2"
REQUEST = RequestStarted(
    request_id="r1", model="m", provider="bedrock", base_url="http://me@gate.example:8080/k3y"
)
CALL = ToolCall(id="c1", name="read_file", arguments={"path": SECRET})
ANSWER = AssistantSpoke(
    request_id="r1",
    blocks=(Text(text=SECRET), CALL),
    stop=StopReason.CALLS,
    usage=Usage(tokens_in=1000, tokens_out=20, cache_reads=600),
)
TURN: tuple[Fact, ...] = (
    TaskOpened(text=SECRET),
    REQUEST,
    ANSWER,
    ToolStarted(call_id="c1", tool="read_file", title=SECRET, text=SECRET),
    ToolFinished(call_id="c1", text=SECRET),
    replace(REQUEST, request_id="r2"),
    replace(ANSWER, request_id="r2", blocks=(), stop=StopReason.END),
    CompletionOffered(result=SECRET),
)


def spans_of(
    *facts: Fact,
    content: bool = False,
    task_id: str = "t",
    links: dict[str, SpanLink] | None = None,
) -> list[TraceSpan]:
    fold = TaskSpans(task_id=task_id, content=content, links={} if links is None else links)
    events: list[Event] = log(*facts)
    return [span for event in events for span in fold.add(event)] + list(fold.close())


def test_a_turn_is_a_tree_of_spans_with_times_and_usage():
    first, tool, second, turn = spans_of(*TURN)
    assert [each.name for each in (first, tool, second, turn)] == [
        "chat m",
        "execute_tool read_file",
        "chat m",
        "invoke_agent rookery",
    ]
    assert {first.parent, tool.parent, second.parent} == {turn.id}
    assert len({each.trace for each in (first, tool, second, turn)}) == 1
    assert (len(turn.trace), len(turn.id), turn.parent) == (32, 16, "")
    assert (turn.start, turn.end) == (1000, 1700)
    assert (first.start, first.end, first.kind) == (1100, 1200, 3)
    assert first.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "aws.bedrock",
        "gen_ai.request.model": "m",
        "gen_ai.conversation.id": "t",
        "server.address": "gate.example",
        "server.port": 8080,
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 600,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "gen_ai.response.finish_reasons": ["tool_call"],
    }
    assert second.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert turn.attributes["gen_ai.usage.input_tokens"] == 2000
    assert tool.attributes["gen_ai.tool.call.id"] == "c1"


def test_what_was_written_is_included_only_with_content():
    assert SECRET not in str(spans_of(*TURN))
    chat, tool, _, turn = (each.attributes for each in spans_of(*TURN, content=True))
    assert SECRET in chat["gen_ai.output.messages"]
    assert tool["gen_ai.tool.call.arguments"] == f'{{"path": "{SECRET}"}}'
    assert tool["gen_ai.tool.call.result"] == SECRET
    assert SECRET in turn["gen_ai.input.messages"]
    assert SECRET in turn["gen_ai.output.messages"]
    long = ToolFinished(call_id="c1", text="x" * 100_000)
    cut = spans_of(*TURN[:4], long, content=True)[1].attributes["gen_ai.tool.call.result"]
    assert len(cut) == LONGEST_TEXT + 1


@each_row(
    ("model", "shown"),
    [("/home/ada/client-x/small.gguf", "small.gguf"), ("qwen/qwen3:free", "qwen/qwen3:free")],
)
def test_the_folder_of_a_model_file_is_not_sent(model: str, shown: str):
    turn, chat = spans_of(TaskOpened(text="hi"), replace(REQUEST, model=model))[::-1]
    assert (turn.attributes["gen_ai.request.model"], chat.name) == (shown, f"chat {shown}")


def test_failures_have_a_type():
    failed = RequestFailed(request_id="r1", error=FailureKind.DROPPED, message=SECRET)
    refused = ToolFinished(call_id="c1", text=SECRET, ending=Ending.DENIED)
    cases: list[tuple[tuple[Fact, ...], list[str]]] = [
        ((*TURN[:2], failed), ["dropped", ""]),
        ((*TURN[:2], StepCancelled()), ["cancelled", "cancelled"]),
        ((*TURN[:2], TaskFailed(message=SECRET)), ["task_failed", "task_failed"]),
        (TURN[:2], ["interrupted", ""]),
        ((*TURN[:4], refused), ["", "denied", ""]),
    ]
    for facts, errors in cases:
        found = spans_of(*facts)
        assert [each.error for each in found] == errors
        assert [each.attributes.get("error.type", "") for each in found] == errors
        assert SECRET not in str(found)


def test_each_message_starts_a_new_trace():
    more = replace(REQUEST, request_id="r3")
    turns = [
        each
        for each in spans_of(*TURN, UserSpoke(message_id="m", text="go on"), more)
        if each.name.startswith("invoke_agent")
    ]
    assert len({each.trace for each in turns}) == 2
    assert turns[1].start == 1800


def test_a_sub_task_belongs_to_the_call_that_started_it():
    links: dict[str, SpanLink] = {}
    started = ToolStarted(call_id="c1", tool="new_task", title="x", child="kid")
    tool = spans_of(*TURN[:3], started, TURN[4], links=links)[1]
    *_, turn = spans_of(*TURN, task_id="kid", links=links)
    assert (turn.trace, turn.parent) == (tool.trace, tool.id)


def test_metrics_count_tokens_and_seconds_of_requests():
    metrics = Metrics(5)
    for span in spans_of(*TURN):
        metrics.measure(span)
    (written,) = metrics.report({}, 9)["resourceMetrics"][0]["scopeMetrics"]
    tokens, duration = written["metrics"]
    assert (tokens["name"], tokens["unit"]) == ("gen_ai.client.token.usage", "{token}")
    points = tokens["histogram"]["dataPoints"]
    assert [(each["count"], each["sum"]) for each in points] == [("2", 2000.0), ("2", 40.0)]
    assert points[0]["bucketCounts"] == ["0"] * 5 + ["2"] + ["0"] * 9
    (point,) = duration["histogram"]["dataPoints"]
    assert (duration["unit"], point["count"], point["sum"]) == ("s", "2", 0.2)
    assert len(point["bucketCounts"]) == len(point["explicitBounds"]) + 1
