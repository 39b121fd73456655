"""Logs for tests: valid sequences of facts, and logs that no engine would write."""

from collections.abc import Iterable

from hypothesis import strategies as st

from rookery.core.asks import AskKind
from rookery.core.blocks import Image, Text, Thinking, ToolCall
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CallStreamed,
    CompletionOffered,
    Condensed,
    Ending,
    Event,
    Fact,
    HistoryRepaired,
    ModeSwitched,
    Noted,
    OfferWithdrawn,
    OutputStreamed,
    Pausing,
    QueueEdited,
    Reminded,
    RequestFailed,
    RequestStarted,
    Rewound,
    StepCancelled,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    TaskReopened,
    TextStreamed,
    ThinkingStreamed,
    Todo,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    Unrecognised,
    Usage,
    UserSpoke,
    Waiting,
    next_event,
)
from rookery.core.folds.rows import Rows
from rookery.core.folds.transcript import Transcript
from rookery.core.limits import FailureKind
from rookery.core.message import Message


def log(*facts: Fact, start: int = 1000) -> list[Event]:
    """The facts as events, 100 ms apart."""
    events: list[Event] = []
    for fact in facts:
        last = events[-1] if events else None
        events.append(next_event(last, fact, last.ts + 100 if last else start))
    return events


def messages(events: Iterable[Event]) -> Rows[Message]:
    """The rows of the whole log."""
    transcript = Transcript()
    for event in events:
        transcript.add(event)
    return transcript.messages


def crowded(facts: Iterable[Fact]) -> list[Event]:
    """The facts as events, all at the same time."""
    events: list[Event] = []
    for fact in facts:
        events.append(next_event(events[-1] if events else None, fact, 1000))
    return events


IDS = st.sampled_from(["a", "b", "c"])
WORDS = st.sampled_from(["", " ", "\n", "one", " two", "three\n", '{"message": "four"}'])
TOOLS = st.sampled_from(
    ["read_file", "execute_command", "ask_followup_question", "attempt_completion", ""]
)
PIECES = st.sampled_from(["", '{"pa', 'th": "x', '", "command": "l', 's"}', '{"result": "d', "}"])
USAGES = st.builds(
    Usage,
    tokens_in=st.integers(0, 9),
    tokens_out=st.integers(0, 9),
    cache_reads=st.integers(0, 3),
    cache_writes=st.integers(0, 3),
    cost=st.none() | st.sampled_from([0.0, 0.25]),
)
IMAGES = st.sampled_from([(), (Image(media_type="image/png", data="AA=="),)])
CALLS = st.builds(ToolCall, id=IDS, name=TOOLS, arguments=st.sampled_from([{}, {"path": "x"}]))
BLOCKS = st.lists(
    st.one_of(st.builds(Text, text=WORDS), st.builds(Thinking, text=WORDS), CALLS),
    max_size=4,
    unique_by=lambda block: block.id if isinstance(block, ToolCall) else object(),
).map(tuple)
SEQS = st.integers(0, 40)

STREAMED = st.one_of(
    st.builds(TextStreamed, request_id=IDS, text=WORDS),
    st.builds(ThinkingStreamed, request_id=IDS, text=WORDS),
    st.builds(CallStreamed, request_id=IDS, index=st.integers(0, 2), name=TOOLS, arguments=PIECES),
)
ANY_FACT: st.SearchStrategy[Fact] = st.one_of(
    STREAMED,
    st.builds(TaskOpened, text=WORDS, images=IMAGES),
    st.just(TaskReopened()),
    st.just(TaskClosed()),
    st.builds(TaskFailed, message=WORDS),
    st.just(StepCancelled()),
    st.builds(Rewound, to=SEQS),
    st.builds(UserSpoke, message_id=IDS, text=WORDS, images=IMAGES),
    st.builds(QueueEdited, message_id=IDS, text=st.none() | WORDS),
    st.builds(
        Asked, ask_id=IDS, ask=st.sampled_from(AskKind), text=WORDS, call_id=IDS | st.just("")
    ),
    st.builds(
        Answered,
        ask_id=IDS,
        ask=st.sampled_from(AskKind),
        reply=st.sampled_from(["yes", "no", "message"]),
        text=WORDS,
        images=IMAGES,
        by=st.sampled_from(["user", "policy"]),
    ),
    st.builds(OfferWithdrawn, ask_id=IDS),
    st.builds(RequestStarted, request_id=IDS, model=st.just("m"), attempt=st.integers(1, 2)),
    st.builds(
        AssistantSpoke, request_id=IDS, blocks=BLOCKS, usage=USAGES, interrupted=st.booleans()
    ),
    st.builds(
        RequestFailed,
        request_id=IDS,
        error=st.sampled_from(FailureKind),
        message=WORDS,
        usage=USAGES,
    ),
    st.builds(Pausing, seconds=st.floats(0, 9), reason=WORDS, paced=st.booleans()),
    st.builds(Waiting, request_id=IDS, seconds=st.floats(0, 9), what=st.sampled_from(["", "m"])),
    st.builds(
        ToolStarted,
        call_id=IDS,
        tool=TOOLS,
        title=WORDS,
        ask=st.sampled_from([AskKind.TOOL, AskKind.COMMAND]),
        text=WORDS,
        command=st.sampled_from(["", "ls"]),
    ),
    st.builds(OutputStreamed, call_id=IDS, text=WORDS),
    st.builds(ToolFinished, call_id=IDS, text=WORDS, ending=st.sampled_from(Ending), images=IMAGES),
    st.just(TodosChanged(todos=(Todo(id="t", content="x"),))),
    st.builds(CompletionOffered, result=WORDS, spoken=st.booleans()),
    st.builds(ModeSwitched, mode=WORDS),
    st.builds(Condensed, upto=SEQS),
    st.builds(HistoryRepaired, upto=SEQS),
    st.builds(Reminded, text=WORDS, mistake=st.booleans(), nudge=st.booleans()),
    st.builds(Noted, text=WORDS),
    st.just(Unrecognised(name="moon_rose", raw="{}")),
)


def _opened_once(facts: list[Fact]) -> list[Fact]:
    """Drop every `TaskOpened` after the first fact."""
    return facts[:1] + [fact for fact in facts[1:] if not isinstance(fact, TaskOpened)]


IMPLAUSIBLE = st.lists(ANY_FACT, max_size=40).map(_opened_once)


@st.composite
def plausible(draw: st.DrawFn) -> list[Fact]:
    """A task as an engine would write it, truncated anywhere."""
    facts: list[Fact] = [TaskOpened(text="do it")]
    for turn in range(draw(st.integers(1, 4))):
        facts += draw(_turn(f"r{turn}", f"c{turn}"))
    return facts[: draw(st.integers(1, len(facts)))]


@st.composite
def _turn(draw: st.DrawFn, request: str, call: str) -> list[Fact]:
    facts: list[Fact] = [RequestStarted(request_id=request, model="m")]
    text = draw(st.sampled_from(["", "Looking.", "Well, then."]))
    facts += [TextStreamed(request_id=request, text=word) for word in text.split()]
    facts.append(CallStreamed(request_id=request, index=0, name="read_file", arguments='{"path"'))
    if draw(st.booleans()):
        facts.append(_failure(request) if draw(st.booleans()) else StepCancelled())
        return facts
    blocks = (Text(text=text), ToolCall(id=call, name="read_file", arguments={"path": "x"}))
    facts.append(AssistantSpoke(request_id=request, blocks=blocks, usage=draw(USAGES)))
    if draw(st.booleans()):
        facts.append(Asked(ask_id=f"q{call}", ask=AskKind.TOOL, call_id=call))
        facts += draw(st.sampled_from([[], [Noted(text="By the way.")], [TaskReopened()]]))
        reply = draw(st.sampled_from(["yes", "no", "message"]))
        facts.append(Answered(ask_id=f"q{call}", ask=AskKind.TOOL, reply=reply, text="hm"))
    facts.append(ToolStarted(call_id=call, tool="read_file", title="Read x"))
    facts.append(OutputStreamed(call_id=call, text="x\n"))
    facts.append(ToolFinished(call_id=call, text="x", ending=draw(st.sampled_from(Ending))))
    return facts


def _failure(request: str) -> RequestFailed:
    return RequestFailed(request_id=request, error=FailureKind.DROPPED, message="It broke off.")


ANY_LOG = st.one_of(IMPLAUSIBLE, plausible()).flatmap(
    lambda facts: st.sampled_from([log(*facts), crowded(facts)])
)
