"""Keeps the header, the status line and the input area in step with the task.

While there is no task, it shows what was chosen for the next one.
"""

import time
import uuid

from msgspec.structs import replace

from rookery.core.blocks import Image
from rookery.core.commands import OpenTask, SelectIntent, SwitchApproval, SwitchModel
from rookery.core.folds.run_tallies import Totals
from rookery.core.queries import About, AskIntents, KnownIntent
from rookery.errors import CommandRejected
from rookery.protocol.codec import Host
from rookery.tui.interfaces import ToastKind
from rookery.tui.page import Page
from rookery.tui.question_queue import Questions
from rookery.tui.session_view import SessionView
from rookery.tui.status import BottomLine, HeaderFacts
from rookery.tui.texts import SUMMARISING, invitation, todos_in_words, work_in_words

TOAST_SECONDS = 3.0
LEAVING_SECONDS = 2.0
"""Within which a second Ctrl+C leaves, or a second Esc stops what asks."""


class StatusUpdates:
    def __init__(self, page: Page, session: SessionView, questions: Questions, home: str) -> None:
        self._page = page
        self._session = session
        self._questions = questions
        self._home = home
        self.about = About()
        self.mode = ""
        """What the next task begins in, if somebody said so."""
        self.next = NextTask()
        self._toast: tuple[str, ToastKind, float] = ("", "info", 0.0)
        self._leaving_until = 0.0
        self._stopping_until = 0.0
        self._busy_since: float | None = None

    @property
    def about_next(self) -> About:
        """With what was chosen for the next task."""
        about = replace(self.about, mode=self.mode or self.about.mode)
        return self.next.about(about)

    @property
    def mode_now(self) -> str:
        """Of the task, or of the next one."""
        view = self._session.view
        return (view.mode if view else "") or self.mode or self.about.mode

    @property
    def intent_now(self) -> tuple[str, str]:
        """What the task works for, or the next one: its id and its name."""
        view, chosen = self._session.view, self.next.intent
        if view is None:
            return (chosen.id, chosen.name) if chosen else ("", "")
        return (view.intent.intent_id, view.intent.name) if view.intent else ("", "")

    @property
    def automatic(self) -> bool:
        """Actions need no yes."""
        view = self._session.view
        switched = view.automatic if view else self.next.automatic
        return self.about.automatic if switched is None else switched

    @property
    def is_leaving(self) -> bool:
        return time.monotonic() < self._leaving_until

    @property
    def is_stopping(self) -> bool:
        return time.monotonic() < self._stopping_until

    def toast(self, text: str, kind: ToastKind) -> None:
        self._toast = (text, kind, time.monotonic() + TOAST_SECONDS)
        self.status()

    def warn_of_leaving(self) -> None:
        self._leaving_until = time.monotonic() + LEAVING_SECONDS
        self.status()

    def warn_of_stopping(self) -> None:
        self._stopping_until = time.monotonic() + LEAVING_SECONDS
        self.status()

    def stopped(self) -> None:
        self._stopping_until = 0.0

    def conversation(self) -> None:
        self._page.show_conversation(self._session.root is not None, self.about)

    def all(self) -> None:
        self.conversation()
        self._give_back_refused_words()
        views = self._session.views.values()
        self._page.show_queue([said for view in views for said in view.queue])
        self.around()
        self._questions.show()
        question = self._questions.open
        there_is_one = self._session.root is not None
        asked = question.asked if question else None
        self._page.invite(invitation(asked, task=there_is_one, works=self._session.works))
        self.status()

    def _give_back_refused_words(self) -> None:
        """What a hook refused can be changed and sent again."""
        root = self._session.root
        if root is None or not root.refused_words:
            return
        if not self._page.composer.text:
            self._page.composer.put(root.refused_words)
        root.refused_words = ""

    def around(self) -> None:
        view = self._session.view
        intent_id, intent_name = self.intent_now
        around = HeaderFacts(
            about=self.about,
            home=self._home,
            model=view.model if view else self.next.model,
            mode=self.mode_now,
            intent=intent_id,
            intent_name=intent_name,
            automatic=self.automatic,
            usage=view.usage if view else Totals(),
        )
        self._page.header.show(around)

    def status(self) -> None:
        now = time.monotonic()
        words, kind, until = self._toast
        view, works = self._session.view, self._session.works
        self._busy_since = (self._busy_since or now) if works else None
        self._page.status.show(
            BottomLine(
                toast=words if now < until else "",
                kind=kind,
                leaving=self.is_leaving,
                stopping=self.is_stopping,
                working=self._work() if works else "",
                seconds=int(now - self._busy_since) if self._busy_since else 0,
                place=self._page.transcript.place,
                todo=todos_in_words(view.todos if view else ()),
            )
        )

    def _work(self) -> str:
        deepest = self._session.following.task(self._session.listener or "")
        if any(task.condensing for task in self._session.following.tasks):
            return SUMMARISING
        words = work_in_words(deepest.view if deepest else None)
        return f"{words} (Ctrl+B: background)" if self._session.offer else words


class NextTask:
    """The next task, before it is opened. A model that was chosen holds for those after it too;
    what it works for, and that it acts unasked, holds for this one only."""

    def __init__(self) -> None:
        self.task_id = str(uuid.uuid4())
        self._model: SwitchModel | None = None
        self._approval: SwitchApproval | None = None
        self.intent: KnownIntent | None = None

    @property
    def model(self) -> str:
        return self._model.model if self._model else ""

    def about(self, usual: About) -> About:
        chosen = self._model
        return replace(usual, provider=chosen.provider, model=chosen.model) if chosen else usual

    @property
    def automatic(self) -> bool | None:
        return self._approval.automatic if self._approval else None

    def remember(self, model: SwitchModel) -> None:
        self._model = model

    async def choose(self, choice: SwitchModel | SwitchApproval | SelectIntent, host: Host) -> None:
        """Raises `CommandRejected` if the host would not have that model, or that intent."""
        match choice:
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
        # a host looks at the model first: what it says of the task is only that there is none yet
        try:
            await host.send(switch)
        except CommandRejected as refusal:
            if self.task_id not in str(refusal):
                raise

    def opening(self, text: str, images: tuple[Image, ...], mode: str) -> OpenTask:
        """What opens it, so that all choices hold for its very first request."""
        model = self._model
        return OpenTask(
            task_id=self.task_id,
            text=text,
            images=images,
            mode=mode,
            provider=model.provider if model else "",
            model=model.model if model else "",
            automatic=self.automatic,
            intent=self.intent.id if self.intent else "",
        )

    def begun(self) -> None:
        """It was opened; another one is next."""
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
