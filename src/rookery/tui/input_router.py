"""Where a sent message goes: to a question, to the task at work, or to a new one. Navigation."""

from collections.abc import Coroutine, Sequence
from typing import Any

from rookery.core.asks import AskKind, Reply
from rookery.core.commands import Command, ReopenTask, SwitchMode
from rookery.core.queries import AskModes
from rookery.protocol.codec import chosen, suggestions
from rookery.tui.ask_panel import AskPanel
from rookery.tui.attachments import Attachments
from rookery.tui.interfaces import Controller
from rookery.tui.page import Page
from rookery.tui.picker_control import PickerControl
from rookery.tui.question_page import APPROVALS, TRIES, QuestionStep, answer_letters
from rookery.tui.question_queue import Questions
from rookery.tui.session_view import AT_WORK, RESUMES, OpenQuestion, Said, SessionView, TaskSwitcher
from rookery.tui.status_updates import StatusUpdates


def after(here: str, names: Sequence[str]) -> str:
    """The next of the names, which go round; the first if `here` is none of them."""
    at = names.index(here) if here in names else -1
    return names[(at + 1) % len(names)]


class Navigation:
    def __init__(
        self,
        controller: Controller,
        page: Page,
        session: SessionView,
        status_updates: StatusUpdates,
        picker_control: PickerControl,
        attachments: Attachments,
    ) -> None:
        self._controller = controller
        self._page = page
        self._session = session
        self._status_updates = status_updates
        self._picker_control = picker_control
        self._attachments = attachments

    async def back(self) -> None:
        """Close what is open, stop the work, or clear: the first of them that there is."""
        page = self._page
        if await self._picker_control.give_up() or (page.panel.has_focus and page.panel.back()):
            return
        if page.panel.is_typed_to and page.composer.has_focus:
            page.panel.focus()
            return
        asking = page.panel.asked is not None
        stops = self._session.works or (asking and self._status_updates.is_stopping)
        if stops and (stop := self._session.stop()):
            self._status_updates.stopped()
            await self._controller.send(stop)
        elif asking:
            if page.composer.has_focus:
                page.composer.empty()
            self._status_updates.warn_of_stopping()
        elif page.composer.text:
            page.composer.empty()
        else:
            self._attachments.clear()
        page.composer.focus()

    async def next_place(self) -> None:
        page = self._page
        if self._picker_control.is_picking:
            await self._picker_control.key("tab")
            return
        places = [page.panel] if page.panel.asked else []
        order = [page.composer, *places, page.transcript]
        here = next((at for at, place in enumerate(order) if place.has_focus), -1)
        order[(here + 1) % len(order)].focus()

    async def next_mode(self) -> None:
        modes = [mode.slug for mode in await self._controller.ask(AskModes())]
        if self._session.works:
            self._controller.toast(AT_WORK, "warning")
        elif len(modes) < 2:
            self._controller.toast("There is only one mode.")
        else:
            await self.go_on_in_mode(after(self._status_updates.mode_now, modes))

    async def go_on_in_mode(self, mode: str) -> None:
        """Go on in another mode, or begin in it."""
        if not await self._controller.send(
            SwitchMode(task_id=self._controller.task_id or "", mode=mode)
        ):
            return
        self._controller.toast(f"Mode: {mode}", "success")
        self._status_updates.around()

    def page(self, direction: int) -> None:
        """The conversation, wherever the keys are; a question that does not fit comes first."""
        panel = self._page.panel
        if panel.has_focus and not panel.is_seen_whole:
            panel.action_page(direction)
        else:
            self._page.transcript.action_half_page(direction)

    async def let_run_on(self) -> None:
        if offer := self._session.offer:
            await self._controller.send(offer.answer("yes"))
        else:
            self._controller.toast("No command is running.")


TYPED_AHEAD = "You typed that before the question was visible. Answer it now: y or n."
UNREAD = "Read to the end first: Tab, then ↓."
IS_A_KEY = "To answer with {letter}, press Tab first. Nothing was answered."
STILL_OPEN = "Queued for the model's next step. The question is still open."


class InputRouter:
    def __init__(
        self,
        controller: Controller,
        session: SessionView,
        switcher: TaskSwitcher,
        questions: Questions,
        status_updates: StatusUpdates,
        panel: AskPanel,
        first_words: str = "",
    ) -> None:
        self._controller = controller
        self._session = session
        self._switcher = switcher
        self._questions = questions
        self._status_updates = status_updates
        self._panel = panel
        self._resume_with = Said(text=first_words) if first_words else None
        """What a resumed task is told first."""

    async def say(self, said: Said) -> bool:
        """To whoever listens. Whether it was accepted."""
        return await (self._tell(said) if self._session.root else self._open(said))

    def answered_by_rule(self, *, once: bool) -> Coroutine[Any, Any, bool] | None:
        """What answers the open question, if nobody needs to see it; `once` if everything ends
        with the task."""
        answers = self._questions.answers_by_rule(self._resume_with, once=once)
        if answers is None:
            return None
        question, commands = answers
        if question.asked.ask in RESUMES:
            self._resume_with = None
        return self._questions.answer(question, *commands)

    async def _open(self, said: Said) -> bool:
        following = self._status_updates.next
        task_id = following.task_id
        opening = following.opening(said.text, said.images, self._status_updates.mode_now)
        if not await self._controller.send(opening):
            return False
        following.begun()
        self._switcher.turn_to(task_id)
        return True

    async def _tell(self, said: Said) -> bool:
        """Words are the answer to what is asked, or else wait for the model's next step."""
        question, root = self._questions.open, self._session.root
        assert root
        if question and not self._panel.wants_reason:
            if word := yes_or_no(said, question):
                return await self._say_yes_or_no(question, word)
            if letter := key_alone(said, question):
                self._controller.toast(IS_A_KEY.format(letter=letter), "warning")
                return False
        if question and self._questions.is_ripe(question) and can_answer(said, question):
            return await self._questions.answer(question, *in_words(question, said))
        if root.over:
            self._resume_with = said
            return await self._switcher.take_up(ReopenTask(task_id=root.task_id))
        return await self._queue(said)

    async def _say_yes_or_no(self, question: OpenQuestion, word: Reply) -> bool:
        """As the keys of the panel do, and only what was begun when it was in sight (GATE-4)."""
        if not (self._panel.live and self._questions.was_seen_first(question)):
            self._controller.toast(TYPED_AHEAD, "warning")
        elif word == "yes" and self._panel.unread:
            self._controller.toast(UNREAD, "warning")
        elif word == "no" and question.asked.ask not in APPROVALS:
            self._questions.leave_alone()
        else:
            return await self._questions.answer(question, question.answer(word))
        return False

    async def _queue(self, said: Said) -> bool:
        question, words = self._questions.open, self._session.words(said)
        if words is None or not await self._controller.send(words):
            return False
        if question:
            self._questions.draft_is_sent()
            self._controller.toast(STILL_OPEN)
        return True


_YES, _NO = ("y", "yes"), ("n", "no")


def yes_or_no(said: Said, question: OpenQuestion) -> Reply | None:
    """What a word alone answers, where yes and no are answers."""
    word = said.text.strip().lower()
    if said.images or question.asked.ask not in (*APPROVALS, *TRIES):
        return None
    return "yes" if word in _YES else "no" if word in _NO else None


def key_alone(said: Said, question: OpenQuestion) -> str:
    """The key of the question's panel, other than yes or no, that was typed where words go: such
    a letter is no reason. Empty if it is none."""
    letter = said.text.strip().lower()
    if said.images or question.asked.ask not in APPROVALS or letter in (*_YES, *_NO):
        return ""
    return letter if letter in answer_letters(question.asked, QuestionStep.ANSWER) else ""


def can_answer(said: Said, question: OpenQuestion) -> bool:
    """Pictures alone refuse nothing."""
    return bool(said.text) or question.asked.ask not in APPROVALS


def in_words(question: OpenQuestion, said: Said) -> Sequence[Command]:
    if question.asked.ask is AskKind.FOLLOWUP:
        suggestion = chosen(said.text, suggestions(question.asked.text))
        return question.chosen(suggestion, said.images)
    return question.in_words(said)
