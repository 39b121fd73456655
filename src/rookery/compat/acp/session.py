"""One session of the client: its task on a host, the running turn, and the questions it asks.

A turn begins with a prompt and ends when the task asks what to do next. Questions about actions are
permission requests. A question whose turn was cancelled can no longer be answered.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Literal

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from rookery.compat.acp.choices import OPTIONS, SessionChoices
from rookery.compat.acp.questions import (
    DECLINED,
    OpenedQuestion,
    PromptTurn,
    chosen_level,
    early_words,
    form,
    form_answer,
    is_cancelled,
    permission_answer,
    permission_options,
    plan_call,
    plan_options,
    question_text,
)
from rookery.compat.acp.requests import ClientCapabilities, PromptContent
from rookery.compat.acp.slash import SlashCommands, asks_again
from rookery.compat.acp.terminals import EditorTerminals
from rookery.compat.acp.tool_calls import Wire
from rookery.compat.acp.updates import PAUSE, TaskUpdates, plan, said, update
from rookery.core.asks import APPROVALS, AskKind, is_non_blocking_ask
from rookery.core.commands import Cancel, OpenTask, ReopenTask
from rookery.core.event_list import EventList, live, of_kind
from rookery.core.facts import (
    Answered,
    Asked,
    ChildBegan,
    Event,
    Rewound,
    StepCancelled,
    TaskClosed,
)
from rookery.core.text.terminal_text import shortened
from rookery.errors import CommandRejected
from rookery.protocol.attend import Say, answer_to, new_message
from rookery.protocol.codec import Host, followup
from rookery.protocol.jsonrpc import INTERNAL_ERROR, Disconnected, Peer, RpcError
from rookery.protocol.late_view import view_before

STOP_SECONDS = 5.0
"""Seconds that a cancelled turn has to end."""
TITLE_LENGTH = 80


class AcpSession:
    """Works while its task group is open."""

    def __init__(
        self,
        session_id: str,
        cwd: str,
        host: Host,
        client: Peer,
        group: TaskGroup,
        choices: SessionChoices,
        shown_by: ClientCapabilities,
    ) -> None:
        self.id = session_id
        self.cwd = cwd
        self.choices = choices
        self._host = host
        self._client = client
        self._group = group
        self._at_start = replace(choices)
        self._shown_by = shown_by
        self._shown = TaskUpdates(cwd, shown_by)
        self._slash = SlashCommands(host, session_id)
        self._terminals = EditorTerminals(
            client, session_id, cwd, group, self._answer, offered=shown_by.terminal
        )
        self._turn: PromptTurn | None = None
        self._questions: dict[str, OpenedQuestion] = {}
        """The open questions by id; agents that run beside each other have several."""
        self._asking: dict[str, anyio.CancelScope] = {}
        self._flushing: list[TaskUpdates] = []
        self._state: Literal["new", "open", "ended"] = "new"
        self._asked = anyio.Event()
        self._note = ""

    async def prompt(self, content: PromptContent) -> str:
        """Send a message and return why the turn ended. Raises `RpcError` if it failed."""
        while (turn := self._turn) and not turn.takes_messages:
            await (turn.ended if turn.cancelled else turn.begun).wait()
        if self._state == "open" and self._slash.knows(content.text):
            return await self._run_command(content.text)
        if turn:
            await self._speak(content)
        else:
            turn = self._turn = PromptTurn()
            try:
                await self._begin(content)
            except BaseException:
                self.end_turn()
                raise
            await self._began(turn)
        return await self._end_of(turn)

    async def _run_command(self, line: str) -> str:
        """Answer a slash command without the model."""
        words, commands = await self._slash.answer(line)
        turn = PromptTurn() if asks_again(commands) and not self._turn else None
        self._turn = self._turn or turn
        try:
            for command in commands:
                await self._host.send(command)
            if turn:
                await self._began(turn)
        except CommandRejected as refusal:
            words = str(refusal)
            if turn:
                self.end_turn(error=RpcError(INTERNAL_ERROR, words))
        if words:
            await self._send_update(said(words))
        return await self._end_of(turn) if turn else "end_turn"

    async def _end_of(self, turn: PromptTurn) -> str:
        try:
            await turn.ended.wait()
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(STOP_SECONDS, shield=True):
                await self.cancel()
                await turn.ended.wait()
            raise
        if turn.error:
            raise turn.error
        return turn.stop

    async def cancel(self) -> None:
        """Cancel the running turn, if there is one."""
        turn = self._turn
        if turn is None or turn.cancelled:
            return
        turn.cancelled = True
        for scope in self._asking.values():
            scope.cancel()
        if turn.begun.is_set():
            await self._cancel_task()

    async def _began(self, turn: PromptTurn) -> None:
        """The task knows of the turn, so it can be cancelled; perhaps it was, meanwhile."""
        turn.begun.set()
        if turn.cancelled:
            await self._cancel_task()

    async def _cancel_task(self) -> None:
        with suppress(CommandRejected):  # it has just ended by itself
            await self._host.send(Cancel(task_id=self.id))

    async def stop(self) -> None:
        """Cancel the running turn and wait for its end, for a while."""
        if turn := self._turn:
            await self.cancel()
            with anyio.move_on_after(STOP_SECONDS):
                await turn.ended.wait()

    async def load(self, stored: EventList, *, replay: bool) -> None:
        """Continue a stored session. With `replay`, the client is sent the conversation."""
        for each in self._shown.load(stored, replay=replay):
            await self._send_update(each)
        for event in of_kind(live(stored), *OPTIONS):
            self.choices.apply(event.fact)
        self._slash = SlashCommands(self._host, self.id, stored)
        self.choices.level = self._at_start.level  # how it was allowed to act ended with that run
        await self._reopen(stored[-1].seq if stored else 0)
        if not replay and self._shown.view.todos:
            await self._send_update(plan(self._shown.view.todos))

    async def _reopen(self, after: int) -> None:
        """Open the stored task, and wait until it asks what to do."""
        self._asked = anyio.Event()
        await self._host.send(ReopenTask(task_id=self.id))
        self._state = "open"
        self._follow_soon(self._shown, self.id, after)
        await self._asked.wait()

    async def choose(self, config_id: str, value: object) -> None:
        """Change an option. Raises `SettingsError`."""
        change = self.choices.command(config_id, value, self.id)
        if self._state == "open":
            await self._host.send(change)
        self.choices.apply(change)

    def introduce_soon(self, note: str) -> None:
        """Send the slash commands, and show the user a note, if any: now, or in the first turn."""
        self._note = "" if self._shown_by.shows_notices else note
        self._group.start_soon(self._introduce, note)

    async def _introduce(self, note: str) -> None:
        if note and self._shown_by.shows_notices:
            await self._send_update(update("notice", severity="warning", title=note))
        listed = await self._slash.listed()
        await self._send_update(update("available_commands_update", availableCommands=listed))

    async def _begin(self, content: PromptContent) -> None:
        text, images = content.text, content.images
        if self._state == "ended":
            await self._reopen(self._shown.view.seq)
        if self._state == "new":
            opening = OpenTask(task_id=self.id, text=text, images=images)
            await self._host.send(self.choices.applied_to(opening, self._at_start))
            self._state = "open"
            title = shortened(" ".join(text.split()), TITLE_LENGTH)
            await self._send_update(update("session_info_update", title=title))
            if self._note:
                await self._send_update(said(f"{self._note}\n\n", thought=True))
            self._follow_soon(self._shown, self.id, 0)
        elif question := self._last_question:
            reply = Say("message", text, images)
            await self._host.send(answer_to(question.task_id, question.asked, reply))
        else:
            await self._speak(content)

    @property
    def _last_question(self) -> OpenedQuestion | None:
        """The newest question that a message answers."""
        found = (each for each in self._questions.values() if each.asked.ask not in APPROVALS)
        return next(reversed([*found]), None)

    async def _speak(self, content: PromptContent) -> None:
        await self._host.send(new_message(self.id, content.text, content.images))

    def _follow_soon(self, shown: TaskUpdates, task_id: str, after: int) -> None:
        self._group.start_soon(self._follow, shown, task_id, after)

    async def _follow(self, shown: TaskUpdates, task_id: str, after: int) -> None:
        try:
            # rejected if a sub-task has already ended; its parent reports the rest
            with suppress(CommandRejected):
                async for event in self._host.follow(task_id, after):
                    await self._terminals.see(shown, task_id, event.fact)
                    shown.view = await view_before(self._host, task_id, shown.view, event)
                    for each in shown.see(event):
                        await self._send_update(each)
                    if shown.holds_output and shown not in self._flushing:
                        self._flushing.append(shown)
                        self._group.start_soon(self._flush_later, shown)
                    await self._react(shown, task_id, event)
        finally:
            if task_id == self.id:
                self._state = "ended"
                self._asked.set()
                self.end_turn()

    async def _flush_later(self, shown: TaskUpdates) -> None:
        """Send held output after a while: the command may print nothing more."""
        await anyio.sleep(PAUSE / 1000)
        self._flushing.remove(shown)
        for each in [*shown.held_output()]:
            await self._send_update(each)

    async def _react(self, shown: TaskUpdates, task_id: str, event: Event) -> None:
        if self._turn:
            self._turn.see(event.fact)
        if task_id == self.id:
            self._slash.show(event)
            if self.choices.apply(event.fact):
                await self._send_choices()
        match event.fact:
            case ChildBegan(task_id=child, after=known):
                child_updates = TaskUpdates(self.cwd, self._shown_by, child=child[:8])
                self._follow_soon(child_updates, child, known)
            case Asked() as asked if not is_non_blocking_ask(asked.ask):
                question = self._questions[asked.ask_id] = OpenedQuestion(task_id, asked)
                self._asked.set()
                await self._ask(shown, question)
            case Answered(ask_id=ask_id):
                self._questions.pop(ask_id, None)
            case StepCancelled() | TaskClosed() | Rewound():
                self._questions = {
                    name: each for name, each in self._questions.items() if each.task_id != task_id
                }
            case _:
                pass

    async def _ask(self, shown: TaskUpdates, question: OpenedQuestion) -> None:
        asked = question.asked
        if asked.ask in APPROVALS:
            self._group.start_soon(self._ask_permission, shown, question)
        elif asked.ask is AskKind.FOLLOWUP and self._shown_by.shows_forms:
            self._group.start_soon(self._ask_form, question)
        elif asked.plan and self._turn:
            self._group.start_soon(self._ask_plan, question)
        elif asked.ask is AskKind.COMPLETION_RESULT and shown.view.queue:
            # a message came just before the end; it is delivered now
            await self._answer(question, Say("message", by="policy"))
        else:
            if words := early_words(asked):
                await self._send_update(said(words))
            self.end_turn(asked)

    async def _ask_permission(self, shown: TaskUpdates, question: OpenedQuestion) -> None:
        asked = question.asked
        request = {
            "sessionId": self.id,
            "toolCall": shown.permission(asked),
            "options": permission_options(asked),
        }
        async with self._open_question(asked):
            try:
                response = await self._client.call("session/request_permission", request)
            except RpcError as error:
                reason = f"The editor could not ask the user: {error}"
                await self._answer(question, Say("no", reason))
                return
            if is_cancelled(response):
                await self.cancel()
            else:
                await self._answer(question, permission_answer(asked, response))

    async def _ask_plan(self, question: OpenedQuestion) -> None:
        """Ask whether to carry out the plan. Without approval the next prompt is a comment."""
        options = plan_options(self.choices.levels)
        call = plan_call(question.asked)
        request = {"sessionId": self.id, "toolCall": call, "options": options}
        async with self._open_question(question.asked):
            level = None
            with suppress(RpcError):
                response = await self._client.call("session/request_permission", request)
                level = chosen_level(response, self.choices.levels)
            if level:
                await self._answer(question, Say("message", level=level))
            else:
                self.end_turn(question.asked)

    async def _ask_form(self, question: OpenedQuestion) -> None:
        words, suggested = followup(question.asked.text)
        request = {
            "mode": "form",
            "sessionId": self.id,
            "message": words,
            "requestedSchema": form(suggested),
        }
        async with self._open_question(question.asked):
            try:
                response = await self._client.call("elicitation/create", request)
            except RpcError as error:
                await self._send_update(said(f"{question_text(question.asked)}\n\n({error})"))
                self.end_turn(question.asked)
                return
            answer = form_answer(response)
            # a server's question has a title: without an answer, the server is declined
            by_user = bool(answer) or not question.asked.title
            reply = Say("message", answer or DECLINED, by="user" if by_user else "policy")
            await self._answer(question, reply)

    @asynccontextmanager
    async def _open_question(self, asked: Asked) -> AsyncIterator[None]:
        """Leave at once if the turn is cancelled: a late answer is worth nothing."""
        with suppress(Disconnected), anyio.CancelScope() as scope:
            self._asking[asked.ask_id] = scope
            try:
                yield
            finally:
                del self._asking[asked.ask_id]

    async def _answer(self, question: OpenedQuestion, reply: Say) -> None:
        if self._turn and self._turn.cancelled:
            return
        with suppress(CommandRejected):  # the question was closed meanwhile
            await self._host.send(answer_to(question.task_id, question.asked, reply))

    def end_turn(self, asked: Asked | None = None, *, error: RpcError | None = None) -> None:
        if turn := self._turn:
            self._turn = None
            turn.end(asked, error)

    async def _send_choices(self) -> None:
        await self._send_update(update("current_mode_update", currentModeId=self.choices.mode))
        options = self.choices.config_options()
        await self._send_update(update("config_option_update", configOptions=options))

    async def _send_update(self, wanted: Wire) -> None:
        with suppress(Disconnected):  # the session ends with the connection
            self._client.notify("session/update", {"sessionId": self.id, "update": wanted})
            await self._client.room()
