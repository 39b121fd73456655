"""`--json-io` requests against a host that accepts or refuses commands."""

import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import pytest

from rookery.compat.json_io.carry_out import EngineRequests
from rookery.compat.json_io.message_reader import read_request
from rookery.compat.json_io.messages import EngineMessages
from rookery.compat.json_io.row_messages import Wire
from rookery.core import commands
from rookery.core.asks import AskKind
from rookery.core.commands import Answer, Cancel, CloseTask, OpenTask, Speak, StopCommand
from rookery.core.facts import (
    Asked,
    ChildBegan,
    CommandDetached,
    Fact,
    OfferWithdrawn,
    ToolFinished,
    ToolStarted,
)
from rookery.core.queries import AskTasks, KnownTask
from rookery.errors import CommandRejected
from rookery.protocol.picture_files import MOST, load_pictures
from support.each_row import each_row
from support.scripted_host import ABOUT, ScriptedHost

pytestmark = pytest.mark.anyio
TOOL = Asked(ask_id="q1", ask=AskKind.TOOL, call_id="c1", digest="d1")
RUNS = ToolStarted(call_id="c1", tool="execute_command", title="Run", command="make")
YES = {"type": "askResponse", "askResponse": "yesButtonClicked"}
NO = {"type": "askResponse", "askResponse": "noButtonClicked"}
WORDS = {"type": "askResponse", "askResponse": "messageResponse"}
CANCEL = {"type": "cancelTask"}
END_COMMAND = {"type": "terminalOperation", "terminalOperation": "abort"}
OFFER = Asked(ask_id="o1", ask=AskKind.COMMAND_OUTPUT, call_id="c1")


class RequestHarness:
    """A scripted host, and the lines its driver receives."""

    def __init__(self, host: ScriptedHost | None = None) -> None:
        self.host = host or ScriptedHost()
        self.reported = EngineMessages(ABOUT)
        self.lines: list[Wire] = []
        self.notes: list[str] = []
        self.followed: list[str] = []
        self.waiting: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self.requests = EngineRequests(
            self.host,
            self.reported,
            send=self.lines.extend,
            follow=self.followed.append,
            beside=self.waiting.append,
            ended=self._ended,
            note=self.notes.append,
            say_next=lambda words, images: self.notes.append(words),
            now=lambda: 1000,
            next_id="t1",
        )

    async def _ended(self, task_id: str) -> None:
        self.host.end(task_id)

    async def do(self, *messages: Wire) -> None:
        for message in messages:
            await self.requests.carry_out(read_request(json.dumps(message).encode(), 1))
        while self.waiting:
            await self.waiting.pop(0)()

    async def begin(self, *facts: Fact) -> None:
        await self.do({"type": "newTask", "text": "go"})
        self.host.tell(*facts)
        await self.follow()
        self.reported.catch_up(0.0)
        await self.happen()
        self.host.sent.clear()
        self.lines.clear()

    async def follow(self) -> None:
        """Process every event reported so far."""
        seen = self.reported.task.view.seq if self.reported.task else 0
        with anyio.move_on_after(0.01):
            async for event in self.host.follow("t1", seen):
                self.reported.see("t1", event, 0.0)

    async def happen(self, *facts: Fact) -> None:
        self.host.tell(*facts)
        await self.follow()

    @property
    def sent(self) -> list[commands.Command]:
        return self.host.sent


@each_row(
    ("message", "reply"),
    [
        (YES, "yes"),
        ({**NO, "text": "no"}, "no"),
        ({**WORDS, "text": "hm"}, "message"),
        ({**WORDS, "askResponse": "objectResponse", "text": "{}"}, "message"),
    ],
)
async def test_an_answer_goes_to_the_question_with_its_digest(message: Wire, reply: str):
    handler = RequestHarness()
    await handler.begin(TOOL)
    await handler.do(message)
    [answer] = handler.sent
    assert isinstance(answer, Answer)
    assert (answer.ask_id, answer.digest, answer.reply) == ("q1", "d1", reply)
    assert (answer.text, answer.by) == (message.get("text", ""), "user")


@each_row(
    "late",
    [
        {**YES, "messageTs": 1},
        {**WORDS, "text": "x", "messageTs": 1},
        {**YES, "taskId": "other"},
    ],
)
async def test_a_late_answer_is_ignored(late: Wire):
    handler = RequestHarness()
    await handler.begin(TOOL)
    await handler.do(late)
    assert (handler.sent, handler.lines, len(handler.notes)) == ([], [], 1)


async def test_a_permanent_approval_counts_as_approval():
    handler = RequestHarness()
    await handler.begin(TOOL)
    await handler.do({**YES, "always": True})
    [answer] = handler.sent
    assert isinstance(answer, Answer)
    assert answer.always


async def test_a_second_click_is_ignored_even_before_the_first_is_reported():
    handler = RequestHarness()
    await handler.begin(TOOL)
    await handler.do(YES, YES)
    assert len(handler.sent) == 1


async def test_a_refused_answer_leaves_the_question_open():
    handler = RequestHarness()
    await handler.begin(TOOL)
    handler.host.refusal = "Somebody was quicker."
    await handler.do(YES)
    assert handler.reported.question
    assert handler.lines == []
    await handler.do(NO)
    assert len(handler.sent) == 1


async def test_a_message_without_an_open_question_is_queued():
    handler = RequestHarness()
    await handler.begin()
    await handler.do({**WORDS, "text": "more"}, YES)
    [words] = handler.sent
    assert isinstance(words, Speak)
    assert words.text == "more"


async def test_messages_go_to_the_working_task():
    handler = RequestHarness()
    await handler.begin(ChildBegan(call_id="c", task_id="child"))
    handler.reported.drive("t1")
    handler.reported.catch_up(0.0)
    await handler.follow()
    handler.host.tell(TOOL, task="child")
    async for event in handler.host.follow("child"):
        handler.reported.see("child", event, 0.0)
        break
    await handler.do(
        {"type": "queueMessage", "text": "more"}, YES, {"type": "queueMessage", "text": " "}
    )
    assert [command.task_id for command in handler.sent] == ["child", "child"]


async def test_a_terminal_operation_waits_until_it_can_be_done():
    handler = RequestHarness()
    await handler.begin(RUNS)
    await handler.do(END_COMMAND)
    assert handler.sent == []
    await handler.happen(OFFER)
    await handler.requests.answers.handle_offer()
    [answer] = handler.sent
    assert isinstance(answer, Answer)
    assert (answer.ask_id, answer.reply) == ("o1", "no")
    await handler.requests.answers.handle_offer()
    assert len(handler.sent) == 1


async def test_a_background_command_is_ended():
    handler = RequestHarness()
    await handler.begin(
        RUNS,
        OFFER,
        OfferWithdrawn(ask_id="o1"),
        CommandDetached(call_id="c1", command="make", artifact="a"),
        ToolFinished(call_id="c1", text="It runs on."),
    )
    await handler.do({**END_COMMAND, "terminalOperation": "continue"})
    assert handler.sent == []
    await handler.do(END_COMMAND)
    assert handler.sent == [StopCommand(task_id="t1", call_id="c1")]


async def test_cancel_is_sent_once():
    handler = RequestHarness()
    await handler.begin()
    await handler.do(CANCEL, CANCEL)
    assert handler.sent == [Cancel(task_id="t1")]


async def test_a_new_task_closes_the_previous_one():
    handler = RequestHarness()
    await handler.begin()
    await handler.do(
        {
            "type": "newTask",
            "text": "other",
            "taskConfiguration": {"autoApprovalEnabled": True, "apiModelId": "x"},
        }
    )
    opened, closed = handler.sent
    assert isinstance(opened, OpenTask)
    assert (opened.text, opened.mode) == ("other", "code")
    assert (opened.model, opened.automatic) == ("x", True)
    assert closed == CloseTask(task_id="t1")
    assert handler.followed == ["t1", opened.task_id]
    created = [line for line in handler.lines if line["event"] == "session_created"]
    assert [line["sessionId"] for line in created] == [opened.task_id]


async def test_a_preset_id_is_used_for_the_first_task():
    handler = RequestHarness()
    await handler.do({"type": "newTask", "text": "go"}, {"type": "newTask", "text": "go"})
    first, second = [command for command in handler.sent if isinstance(command, OpenTask)]
    assert (first.task_id, second.task_id == "t1") == ("t1", False)


class RejectsModels(ScriptedHost):
    async def send(self, command: commands.Command) -> None:
        if isinstance(command, OpenTask) and command.model:
            raise CommandRejected("There is no such model.")
        await super().send(command)


async def test_a_task_with_a_rejected_model_is_not_opened_and_the_previous_one_stays():
    handler = RequestHarness(RejectsModels())
    await handler.begin()
    await handler.do({"type": "newTask", "text": "other", "taskConfiguration": {"model": "x"}})
    assert handler.sent == []
    assert (handler.reported.root, [line["event"] for line in handler.lines]) == ("t1", ["error"])


async def test_a_refused_task_leaves_the_previous_one_open():
    handler = RequestHarness()
    await handler.begin()
    handler.host.refusal = "No room."
    await handler.do({"type": "newTask", "text": "other"})
    assert [line["event"] for line in handler.lines] == ["error"]
    assert (handler.reported.root, handler.sent) == ("t1", [])
    await handler.do({"type": "newTask", "text": "other", "taskConfiguration": {"mode": "nobody"}})
    assert "No such mode: 'nobody'" in handler.lines[-1]["error"]


async def test_a_refused_condensing_is_still_answered():
    handler = RequestHarness()
    await handler.begin()
    handler.host.refusal = "Not now."
    await handler.do({"type": "condenseTaskContextRequest"})
    assert [line.get("type") or line["event"] for line in handler.lines] == [
        "condenseTaskContextStarted",
        "condenseTaskContextResponse",
        "error",
    ]


async def test_deleting_the_task_that_is_shown_closes_it_first():
    handler = RequestHarness()
    await handler.begin()
    handler.host.answer(AskTasks, (KnownTask(task_id="t1"),))
    await handler.do(
        {"type": "deleteTaskWithId", "text": " t1 "}, {"type": "deleteTaskWithId", "text": "other"}
    )
    assert handler.sent == [CloseTask(task_id="t1"), commands.DeleteTask(task_id="t1")]
    assert handler.reported.root == ""
    assert "does not belong to this workspace" in handler.lines[-1]["error"]


QUEUED = {"type": "editQueuedMessage", "payload": {"id": "q", "text": "y"}}


@pytest.mark.parametrize(
    ("message", "command"),
    [
        (QUEUED, commands.EditQueue(task_id="t1", message_id="q", text="y")),
        (
            {"type": "removeQueuedMessage", "text": "q"},
            commands.EditQueue(task_id="t1", message_id="q", text=None),
        ),
        ({"type": "mode", "text": " code "}, commands.SwitchMode(task_id="t1", mode="code")),
        ({"type": "switchMode", "text": "code"}, commands.SwitchMode(task_id="t1", mode="code")),
        (
            {"type": "autoApprovalEnabled", "bool": True},
            commands.SwitchApproval(task_id="t1", automatic=True),
        ),
        (
            {"type": "updateSettings", "updatedSettings": {"apiModelId": "m", "language": "de"}},
            commands.SwitchModel(task_id="t1", provider=ABOUT.provider, model="m"),
        ),
        ({"type": "condenseTaskContextRequest"}, commands.Condense(task_id="t1")),
        (
            {"type": "condenseTaskContextRequest", "text": "t2"},
            commands.Condense(task_id="t2"),
        ),
    ],
    ids=lambda each: each.get("type") if isinstance(each, dict) else "",
)
async def test_a_request_becomes_a_command(message: Wire, command: commands.Command):
    handler = RequestHarness()
    await handler.begin()
    await handler.do(message)
    assert handler.sent == [command]


@pytest.mark.parametrize(
    "message",
    [
        {"type": "queueMessage", "text": "x"},
        {"type": "removeQueuedMessage", "text": "m"},
        {"type": "checkpointRestore", "payload": {"ts": 1}},
        {"type": "checkpointDiff", "payload": {"mode": "full"}},
        {"type": "newTask"},
    ],
    ids=lambda each: each["type"],
)
async def test_requests_that_lack_a_task_or_a_text_are_errors(message: Wire):
    handler = RequestHarness()
    await handler.do(message)
    assert [line["event"] for line in handler.lines] == ["error"]


@pytest.mark.parametrize(
    "message", [CANCEL, END_COMMAND, YES, {"type": "playSound"}], ids=lambda each: each["type"]
)
async def test_requests_without_a_target_do_nothing(message: Wire):
    handler = RequestHarness()
    await handler.do(message)
    assert (handler.sent, [line for line in handler.lines if "error" in line]) == ([], [])


async def test_a_picture_that_is_too_large_or_not_a_file_is_not_read(tmp_path: Path):
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x09\0\0\0\x09"
    (tmp_path / "large.png").write_bytes(header + bytes(MOST))
    images, problems = await load_pictures(["large.png", ".", "\0"], str(tmp_path))
    assert images == ()
    assert "too large" in problems[0]["error"]
    assert len(problems) == 3
