"""Any log gives a history that every provider accepts."""

from hypothesis import example, given

from rookery.core.asks import AskKind
from rookery.core.blocks import Text, ToolCall, ToolResult
from rookery.core.facts import (
    Answered,
    AssistantSpoke,
    Condensed,
    Ending,
    Event,
    Fact,
    FilesRestored,
    PromptRefused,
    QueueEdited,
    Reminded,
    RequestStarted,
    Rewound,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from rookery.core.folds.history import Conversation, Turn, history
from rookery.core.replies import CALL_TAKEN_BACK, CALL_UNDONE, NEVER_RUN, user_message
from rookery.engine.ports.model import Scale, weight
from support.each_row import each_row
from support.sample_logs import ANY_LOG, log

READ = ToolCall(id="c1", name="read_file", arguments={"path": "a"})
EDIT = ToolCall(id="c2", name="edit", arguments={"path": "a"})


@given(ANY_LOG)
def test_any_log_gives_a_history_that_providers_accept(events: list[Event]):
    turns = history(events)
    assert [turn.role for turn in turns] == [
        "assistant" if position % 2 else "user" for position in range(len(turns))
    ]
    calls: list[str] = []
    for turn in turns:
        results = [block.call_id for block in turn.blocks if isinstance(block, ToolResult)]
        if turn.role == "user":
            assert results == calls
            assert all(isinstance(block, ToolResult) for block in turn.blocks[: len(results)])
            calls = []
        else:
            calls = [block.id for block in turn.blocks if isinstance(block, ToolCall)]
    assert not calls


@given(ANY_LOG)
@example(log(Condensed(upto=2), Reminded(text="one")))  # a cut that names what comes after it
def test_a_growing_conversation_equals_the_history_of_its_log(events: list[Event]):
    conversation, scale = Conversation(), Scale()
    for count in range(len(events) + 1):
        turns = conversation.turns(events[:count])
        assert turns == history(events[:count])
        assert scale.weight(turns) == weight(turns)


def test_a_growing_conversation_omits_edits_of_refused_messages():
    events = log(
        TaskOpened(text="Go", mode="code"),
        UserSpoke(message_id="m", text="no"),
        PromptRefused(of=2, text="no", reason="a hook"),
        QueueEdited(message_id="m", text="still no"),
        UserSpoke(message_id="n", text="yes"),
        RequestStarted(request_id="r", model="m"),
    )
    conversation = Conversation()
    grown = [conversation.turns(events[:count]) for count in range(len(events) + 1)]
    assert grown == [history(events[:count]) for count in range(len(events) + 1)]


def test_a_conversation_reuses_closed_turns():
    events = log(
        TaskOpened(text="Go", mode="code"),
        AssistantSpoke(request_id="r", blocks=(READ,)),
        ToolFinished(call_id="c1", ending=Ending.DONE, text="read"),
        AssistantSpoke(request_id="s", blocks=(EDIT,)),
    )
    conversation = Conversation()
    first, second = conversation.turns(events[:3]), conversation.turns(events)
    assert [one is other for one, other in zip(first, second, strict=False)] == [True, True, False]


def test_a_call_without_a_result_is_answered_as_never_run():
    events = log(
        TaskOpened(text="go"),
        AssistantSpoke(request_id="r", blocks=(READ, EDIT)),
        ToolFinished(call_id="c2", text="done"),
    )
    assert history(events)[-1].blocks == (
        ToolResult(call_id="c1", text=NEVER_RUN, is_error=True),
        ToolResult(call_id="c2", text="done"),
    )


def test_messages_come_after_tool_results():
    events = log(
        TaskOpened(text="go"),
        AssistantSpoke(request_id="r", blocks=(READ,)),
        Answered(ask_id="q", ask=AskKind.TOOL, reply="message", text="comes as the result"),
        Answered(ask_id="q", ask=AskKind.RESUME_TASK, reply="message", text="wait"),
        ToolFinished(call_id="c1", text="ok"),
    )
    assert history(events)[-1].blocks == (
        ToolResult(call_id="c1", text="ok"),
        Text(text=user_message("wait")),
    )


def test_queued_messages_are_sent_with_the_next_request():
    events = log(
        TaskOpened(text="go"),
        UserSpoke(message_id="m", text="also this"),
        RequestStarted(request_id="r", model="m"),
        AssistantSpoke(request_id="r", blocks=(Text(text="ok"),)),
    )
    assert history(events) == [
        Turn("user", (Text(text=user_message("go")), Text(text=user_message("also this")))),
        Turn("assistant", (Text(text="ok"),)),
    ]


def test_unsent_messages_are_in_the_next_request():
    events = log(TaskOpened(text="x"), UserSpoke(message_id="m1", text="later"))
    assert history(events)[-1].blocks[-1] == Text(text=user_message("later"))
    assert Conversation().turns(events) == history(events)


def test_an_interrupted_answer_is_never_sent_back():
    events = log(
        TaskOpened(text="go"),
        AssistantSpoke(request_id="r", blocks=(Text(text="half"),), interrupted=True),
    )
    assert [turn.role for turn in history(events)] == ["user"]


def test_rewound_events_are_not_sent():
    events = log(
        TaskOpened(text="go"),
        AssistantSpoke(request_id="r", blocks=(READ,)),
        Rewound(to=1),
    )
    assert history(events) == [Turn("user", (Text(text=user_message("go")),))]


RESTORED = FilesRestored(to=2, before="b", after="a", paths=("a", "d/e"), count=3)
UNDONE = CALL_UNDONE.format(paths="a, d/e, and 1 more")


@each_row(
    ("taken_back", "reported"),
    [
        ([ToolStarted(call_id="c2", tool="edit", title="Edit a"), RESTORED], UNDONE),
        ([ToolFinished(call_id="c2", text="no", ending=Ending.DENIED), RESTORED], UNDONE),
        ([ToolStarted(call_id="c2", tool="edit", title="Edit a")], CALL_TAKEN_BACK),
        ([RESTORED], NEVER_RUN),
        ([], NEVER_RUN),
    ],
)
def test_the_result_of_an_undone_call_is_an_error(taken_back: list[Fact], reported: str):
    spoken = AssistantSpoke(request_id="r", blocks=(EDIT,))
    events = log(TaskOpened(text="go"), spoken, *taken_back, Rewound(to=2))
    result = ToolResult(call_id="c2", text=reported, is_error=True)
    assert history(events)[-1].blocks == (result,)


def test_an_undone_call_that_ran_again_has_its_new_result():
    begun = ToolStarted(call_id="c2", tool="edit", title="Edit a")
    done = ToolFinished(call_id="c2", text="done")
    spoken = AssistantSpoke(request_id="r", blocks=(EDIT,))
    events = log(TaskOpened(text="go"), spoken, begun, done, RESTORED, Rewound(to=2), begun, done)
    assert history(events)[-1].blocks == (ToolResult(call_id="c2", text="done"),)
