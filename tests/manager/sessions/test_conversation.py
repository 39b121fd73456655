"""A broken connection to a session's process loses and repeats nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from llm_server import LlmServer, call, finish, gate, say, status
from rookery.core.facts import Event, UserSpoke
from rookery.core.folds.view import View, see
from rookery.manager.sessions.conversation import HandOver, SessionConversation
from rookery.manager.sessions.session_events import UserMessage
from rookery.manager.sessions.session_folders import SessionOptions
from rookery.manager.sessions.session_record import QueuedMessage
from rookery.manager.sessions.session_task import FollowedTask
from rookery.platform.user_folders import find_places
from rookery.protocol.channels import channel_on, unix_listener
from rookery.protocol.codec import Host
from rookery.protocol.server import serve
from rookery.storage.sessions import TaskStore
from support.manager_project import IMPATIENT, PATIENCE, Project
from support.protocol_hosts import workplace

pytestmark = pytest.mark.anyio

TASK = "3f0a2c44-5b1d-4c53-9f0e-0c8f2b7a9d10"
TALKS = f"""\
- say: {" ".join(f"word{n}" for n in range(60))}
  pause: 0.003
  calls:
  - {{tool: attempt_completion, arguments: {{result: "Done."}}}}
- say: More.
  calls:
  - {{tool: attempt_completion, arguments: {{result: "Done again."}}}}
"""


class EventRecorder:
    """Records every event and breaks the connection again and again."""

    is_active = True

    def __init__(self) -> None:
        self.reported: list[object] = []
        self.queued: QueuedMessage | None = QueuedMessage(
            number=1, message=UserMessage(text="also this")
        )
        self.connections: list[anyio.CancelScope] = []
        self.result = anyio.Event()
        self.begun = 0

    def on_event(self, task: FollowedTask, event: Event) -> None:
        self.reported += task.receive(event)
        if len(self.reported) % 5 == 0 and len(self.connections) < 8:
            self.connections[-1].cancel()
        # a message that arrives before the first request is part of it: then there is no second
        if task.ask and any(row.text == "also this" for row in task.view.messages):
            self.result.set()

    def on_handed_over(self) -> None:
        self.begun += 1

    def next_message(self) -> QueuedMessage | None:
        return self.queued

    def on_message_sent(self, message: QueuedMessage) -> None:
        self.queued = None

    def on_message_refused(self, message: QueuedMessage, problem: str) -> None:
        raise AssertionError(problem)

    def on_silence(self, seconds: float) -> None:
        pass


@asynccontextmanager
async def listening(host: Host, socket: Path, recorder: EventRecorder) -> AsyncIterator[None]:
    async def welcome(stream: anyio.abc.SocketStream) -> None:
        with anyio.CancelScope() as scope:
            recorder.connections.append(scope)
            async with stream:
                await serve(host, channel_on(stream))

    async with unix_listener(socket) as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, welcome)
        yield
        group.cancel_scope.cancel()


async def test_a_broken_connection_is_restored_and_each_event_arrives_once(tmp_path: Path):
    recorder, root = EventRecorder(), FollowedTask(TASK)
    root.follow_process(1, new_task=True)
    given = HandOver(new_task=True, messages=(UserMessage(text="Do it"),), first=0)
    async with workplace(tmp_path, TALKS) as host, listening(host, tmp_path / "s", recorder):
        conversation = SessionConversation(tmp_path / "s", root, recorder, IMPATIENT, given)
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:

                async def run() -> None:
                    await conversation.run(is_alive=lambda: True)

                group.start_soon(run)
                await recorder.result.wait()
                group.cancel_scope.cancel()
    log = list(TaskStore(find_places({"ROOKERY_HOME": str(tmp_path / "home")})).read(TASK))
    whole = View()
    for event in log:
        whole = see(whole, event)
    assert len(recorder.connections) > 3
    assert recorder.begun == 1
    assert [fact.text for fact in (e.fact for e in log) if isinstance(fact, UserSpoke)] == [
        "also this"
    ]
    assert [row.text for row in root.view.messages] == [row.text for row in whole.messages]
    asked = [event for event in recorder.reported if type(event).__name__ == "AgentAsked"]
    assert len(asked) == len({event.ts for event in asked})


async def test_a_refused_api_key_is_an_error_and_retry_reads_the_key_again(project: Project):
    """With a model behind HTTP, whose flags are given as extra options."""
    held = gate()
    answers = [status(401), [say("At last."), held, call("read_file", path="a")], [finish()]]
    project.environ["ANTHROPIC_API_KEY"] = "sk-of-a-test"
    with LlmServer(*answers) as server:
        options = SessionOptions(
            prompt="Do it",
            workspace=project.path,
            provider="anthropic",
            model="claude-x",
            options=("--base-url", server.url),
        )
        async with project.supervised() as watched:
            supervisor = watched.supervisor
            session_id = await supervisor.start(options)
            shown = await watched.at(session_id, "error")
            assert shown.record.failure
            assert shown.record.failure.kind == "auth"
            assert "rookery auth anthropic" in shown.record.failure.text
            await watched.until(session_id, lambda shown: not shown.record.process_open)
            await supervisor.retry(session_id)  # a new process reads the key again
            await watched.until(session_id, lambda shown: "At last." in _said(shown.view))
            assert watched.state(session_id) == "streaming"
            held.open()
            shown = await watched.at(session_id, "completed")
            assert shown.record.tokens > 0
            assert "sk-of-a-test" not in " ".join(project.processes().values())


def _said(view: View) -> str:
    return "\n".join(row.text or "" for row in view.messages)
