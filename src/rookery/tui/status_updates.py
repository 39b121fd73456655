"""Updates the header, the status line and the input area.

Without a session they show the options chosen for the next one.
"""

import time
import uuid
from collections.abc import Sequence
from typing import TypeAlias

from msgspec.structs import replace

from rookery.core.asks import APPROVALS, AskKind
from rookery.core.blocks import Image
from rookery.core.commands import OpenTask, SelectIntent, SwitchApproval, SwitchMode, SwitchModel
from rookery.core.facts import Asked, Todo
from rookery.core.folds.run_tallies import Totals
from rookery.core.folds.view import View
from rookery.core.modes import Level
from rookery.core.queries import About, AskIntents, KnownIntent
from rookery.core.text.terminal_text import harmless_line
from rookery.errors import CommandRejected
from rookery.protocol.codec import Host
from rookery.tui.interfaces import ToastKind
from rookery.tui.own_status import StatusFields
from rookery.tui.page import Page
from rookery.tui.question_queue import Questions
from rookery.tui.session_view import SessionView
from rookery.tui.short_texts import short_path
from rookery.tui.status_bars import DEFAULT_WINDOW, BottomLine, HeaderFacts

TOAST_SECONDS = 3.0
LEAVING_SECONDS = 2.0
"""Seconds within which a second Ctrl+C exits, or a second Esc does what was announced."""
STOP_AGAIN = "Press Esc again to stop."
REWIND_AGAIN = "Press Esc again to list the checkpoints."


def placeholder_text(asked: Asked | None, *, task: bool, is_working: bool) -> str:
    """Placeholder of the input area."""
    if not task:
        return "What should I do?"
    match asked.ask if asked else None:
        case None if is_working:
            return "Type a message; the model gets it at its next step"
        case AskKind.COMPLETION_RESULT if asked and asked.plan:
            return "Say what to change in the plan"
        case AskKind.COMPLETION_RESULT:
            return "What next? Or /new"
        case AskKind.RESUME_TASK:
            return "Enter continues; or say what to do instead"
        case AskKind.FOLLOWUP:
            return "Type your answer"
        case AskKind.MISTAKE_LIMIT_REACHED:
            return "A hint for the model"
        case kind if kind in APPROVALS:
            return "No, because …"
        case _:
            return "Say what to do"


def activity_text(view: View | None) -> str:
    """What the agent is doing."""
    if view is None or not view.messages:
        return "Starting"
    last = view.messages[-1]
    match last.say or last.ask:
        case _ if view.silence:
            return harmless_line(view.waiting_for) or "Waiting for the model"
        case "reasoning":
            return "Thinking"
        case "text" | "completion_result" if last.partial:
            return "Answering"
        case "tool" | "use_mcp_server" if last.partial:
            return "Preparing a call"
        case "command" | "command_output":
            return "Running a command"
        case "api_req_retry_delayed":
            return "Waiting to retry"
        case "api_req_rate_limit_wait":
            return "Waiting before the next request"
        case "api_req_started":
            return "Waiting for the model"
        case _:
            return "Working"


def todo_text(todos: Sequence[Todo]) -> str:
    if not todos:
        return ""
    done = sum(todo.status == "completed" for todo in todos)
    now = next((todo.content for todo in todos if todo.status == "in_progress"), "")
    return f"☑ {done}/{len(todos)} {now}".strip()


class StatusUpdates:
    def __init__(self, page: Page, session: SessionView, questions: Questions, home: str) -> None:
        self._page = page
        self._session = session
        self._questions = questions
        self._home = home
        self.about = About()
        self.next = NextTask()
        self._toast: tuple[str, ToastKind, float] = ("", "info", 0.0)
        self._leaving_until = 0.0
        self._escape_warning = ("", 0.0)
        self._busy_since: float | None = None

    @property
    def about_next(self) -> About:
        """The defaults with the options chosen for the next session."""
        return self.next.about(self.about)

    @property
    def mode_now(self) -> str:
        """Mode of the session, or of the next one."""
        view = self._session.view
        return (view.mode if view else "") or self.next.mode or self.about.mode

    @property
    def intent_now(self) -> tuple[str, str]:
        """Id and name of the active intent, or of the next session's."""
        view, chosen = self._session.view, self.next.intent
        if view is None:
            return (chosen.id, chosen.name) if chosen else ("", "")
        return (view.intent.intent_id, view.intent.name) if view.intent else ("", "")

    @property
    def level(self) -> Level:
        """The level of the session, or of the next one."""
        view = self._session.view
        return (view.level if view else self.next.level) or self.about.level

    @property
    def automatic(self) -> bool:
        """Whether auto-approve is on."""
        return self.level is Level.AUTO

    @property
    def is_leaving(self) -> bool:
        return time.monotonic() < self._leaving_until

    def was_warned(self, words: str) -> bool:
        """Whether this warning is visible, so that another Esc means it."""
        return self._escape_warning[0] == words and time.monotonic() < self._escape_warning[1]

    def toast(self, text: str, kind: ToastKind) -> None:
        self._toast = (text, kind, time.monotonic() + TOAST_SECONDS)
        self.update_status()

    def warn_before_exit(self) -> None:
        self._leaving_until = time.monotonic() + LEAVING_SECONDS
        self.update_status()

    def warn_before_escape(self, words: str) -> None:
        """Say what another Esc does."""
        self._escape_warning = (words, time.monotonic() + LEAVING_SECONDS)
        self.update_status()

    def clear_escape_warning(self) -> None:
        self._escape_warning = ("", 0.0)

    def other_key(self) -> None:
        """Forget the warnings: a key was pressed in between."""
        if self._escape_warning[0] or self._leaving_until:
            self.clear_escape_warning()
            self._leaving_until = 0.0
            self.update_status()

    def update_page(self) -> None:
        self._page.show_conversation(self._session.root is not None, self.about)

    def update_all(self) -> None:
        self.update_page()
        self._restore_refused_text()
        views = self._session.views.values()
        self._page.show_queue([message for view in views for message in view.queue])
        self.update_header()
        self._questions.show()
        question = self._questions.open
        asked = question.asked if question else None
        task, is_working = self._session.root is not None, self._session.is_working
        self._page.set_placeholder(placeholder_text(asked, task=task, is_working=is_working))
        self.update_status()

    def _restore_refused_text(self) -> None:
        """Put a message that a hook refused back into the input area."""
        root = self._session.root
        if root is None or not root.refused_text:
            return
        if not self._page.composer.text:
            self._page.composer.set_text(root.refused_text)
        root.refused_text = ""

    def update_header(self) -> None:
        view = self._session.view
        intent_id, intent_name = self.intent_now
        header = HeaderFacts(
            about=self.about,
            home=self._home,
            model=view.model if view else self.next.model,
            window=view.window if view else 0,
            mode=self.mode_now,
            intent=intent_id,
            intent_name=intent_name,
            automatic=self.automatic,
            usage=view.usage if view else Totals(),
        )
        self._page.header.show(header)

    @property
    def fields(self) -> StatusFields:
        """What the user's own status line can show."""
        view, about = self._session.view, self.about_next
        usage = view.usage if view else Totals()
        window = (view.window if view else 0) or about.window or DEFAULT_WINDOW
        return StatusFields(
            model=(view.model if view else "") or about.model,
            mode=self.mode_now,
            level=str(self.level),
            cost=f"${usage.cost:.2f}",
            context=f"{min(100, round(100 * usage.context_tokens / window))}%",
            folder=short_path(about.workspace, self._home),
            intent=self.intent_now[0],
            session=self._session.task_id or "",
        )

    def update_status(self) -> None:
        now = time.monotonic()
        words, kind, until = self._toast
        escape, until_escape = self._escape_warning
        view, is_working = self._session.view, self._session.is_working
        self._busy_since = (self._busy_since or now) if is_working else None
        self._page.status.show(
            BottomLine(
                level=self.level,
                toast=words if now < until else "",
                kind=kind,
                leaving=self.is_leaving,
                escape_warning=escape if now < until_escape else "",
                vim=vim.mode.value if (vim := self._page.composer.vim) else "",
                working=self._work() if is_working else "",
                seconds=int(now - self._busy_since) if self._busy_since else 0,
                place=self._page.transcript.place,
                todo=todo_text(view.todos if view else ()),
            )
        )

    def _work(self) -> str:
        deepest = self._session.task(self._session.working_task_id or "")
        if any(task.condensing for task in self._session.tasks):
            return "Summarising the conversation"
        words = activity_text(deepest.view if deepest else None)
        return f"{words} (Ctrl+B: background)" if self._session.background_question else words


Option: TypeAlias = SwitchMode | SwitchModel | SwitchApproval | SelectIntent


class NextTask:
    """Options of the next session. Mode and model are kept for later sessions; intent and level
    apply to the next one only."""

    def __init__(self) -> None:
        self.task_id = str(uuid.uuid4())
        self.mode = ""
        self._model: SwitchModel | None = None
        self._approval: SwitchApproval | None = None
        self.intent: KnownIntent | None = None

    @property
    def model(self) -> str:
        return self._model.model if self._model else ""

    def about(self, base: About) -> About:
        """The defaults with the chosen options."""
        chosen, base = self._model, replace(base, mode=self.mode or base.mode)
        return replace(base, provider=chosen.provider, model=chosen.model) if chosen else base

    @property
    def level(self) -> Level | None:
        wanted = self._approval
        if wanted is None or wanted.level:
            return wanted.level if wanted else None
        return Level.AUTO if wanted.automatic else Level.ASK

    def remember(self, model: SwitchModel) -> None:
        self._model = model

    async def choose(self, choice: Option, host: Host) -> None:
        """Raises `CommandRejected` if the host does not accept the model or intent."""
        match choice:
            case SwitchMode(mode=mode):
                self.mode = mode
            case SelectIntent(intent_id=intent_id):
                self.intent = await _intent(intent_id, host) if intent_id else None
            case SwitchApproval():
                self._approval = choice
            case SwitchModel(provider=provider, model=model):
                await self._check(
                    SwitchModel(task_id=self.task_id, provider=provider, model=model), host
                )
                self._model = choice

    async def _check(self, switch: SwitchModel, host: Host) -> None:
        # the host checks the model first, then refuses the task id, which does not exist yet
        try:
            await host.send(switch)
        except CommandRejected as refusal:
            if self.task_id not in str(refusal):
                raise

    def opening(self, text: str, images: tuple[Image, ...], mode: str) -> OpenTask:
        """The command that opens the session with all options."""
        model = self._model
        return OpenTask(
            task_id=self.task_id,
            text=text,
            images=images,
            mode=mode,
            provider=model.provider if model else "",
            model=model.model if model else "",
            level=self.level,
            intent=self.intent.id if self.intent else "",
        )

    def advance(self) -> None:
        """Prepare for the session after the one just opened."""
        self.task_id = str(uuid.uuid4())
        self._approval = self.intent = None


async def _intent(intent_id: str, host: Host) -> KnownIntent:
    known = {each.id: each for each in await host.query(AskIntents())}
    if intent_id not in known:
        raise CommandRejected(f"No such intent: {intent_id}. /intent lists all.")
    intent = known[intent_id]
    if intent.problem:
        raise CommandRejected(f"{intent_id} cannot be selected: {intent.problem}.")
    return intent
