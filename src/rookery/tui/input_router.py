"""Decides what a sent message is: an answer, a message to the running task, or a new task."""

from collections.abc import Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from rookery.core.asks import APPROVALS, RESUMES, AskKind, Reply
from rookery.core.commands import Command, ReopenTask
from rookery.core.plans import BARE_ANSWERS, comment_on
from rookery.protocol.attend import Say
from rookery.protocol.codec import chosen, suggestions
from rookery.tui.ask_panel import PRESS_A_LETTER, AskPanel
from rookery.tui.interfaces import Controller
from rookery.tui.question_page import TRIES, QuestionStep, answer_letters
from rookery.tui.question_queue import Questions
from rookery.tui.session_view import Draft, OpenQuestion, SessionView, TaskSwitcher
from rookery.tui.status_updates import StatusUpdates

TYPED_AHEAD = "You typed that before the question was visible. Answer it now: y or n."
UNREAD = "Read to the end first: Tab, then End."
KEY_AS_TEXT = "To answer with {letter}, press Tab first. Nothing was answered."
BARE_ANSWER = "Press Tab to choose how to carry the plan out, or say what to change."
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
        first_message: str = "",
    ) -> None:
        self._controller = controller
        self._session = session
        self._switcher = switcher
        self._questions = questions
        self._status_updates = status_updates
        self._panel = panel
        self._resume_with = Draft(text=first_message) if first_message else None
        """First message to a resumed session."""

    async def send(self, message: Draft) -> bool:
        """Send a message. Returns whether it was accepted."""
        return await (self._send_to_task(message) if self._session.root else self._open(message))

    def automatic_answer(self, *, once: bool) -> Coroutine[Any, Any, bool] | None:
        """Answer the open question if that needs no user; `once` if the app exits with the task."""
        answers = self._questions.automatic_answers(self._resume_with, once=once)
        if answers is None:
            return None
        question, commands = answers
        if question.asked.ask in RESUMES:
            self._resume_with = None
        return self._questions.answer(question, *commands)

    async def _open(self, message: Draft) -> bool:
        following = self._status_updates.next
        task_id = following.task_id
        opening = following.opening(message.text, message.images, self._status_updates.mode_now)
        if not await self._controller.send(opening):
            return False
        following.advance()
        self._switcher.switch_to(task_id)
        return True

    async def _send_to_task(self, message: Draft) -> bool:
        """Answer the open question with the message, else queue it for the model's next step."""
        question, root = self._questions.open, self._session.root
        assert root
        if question and not self._panel.wants_reason:
            if word := yes_or_no(message, question):
                return await self._answer_yes_or_no(question, word)
            if is_bare_number(message, question):
                self._controller.toast(PRESS_A_LETTER, "warning")
                self._questions.input_emptied()
                return False
            if hint := unclear(message, question):
                self._controller.toast(hint, "warning")
                return False
        if question and self._questions.can_take_text(question) and can_answer(message, question):
            message = self._with_plan(message, question)
            return await self._questions.answer(question, *text_answer(question, message))
        if root.over:
            self._resume_with = message
            return await self._switcher.resume(ReopenTask(task_id=root.task_id))
        return await self._queue(message)

    async def _answer_yes_or_no(self, question: OpenQuestion, word: Reply) -> bool:
        """Answer like the panel's keys; refused if it was typed before the question was visible."""
        if not (self._panel.live and self._questions.was_seen_first(question)):
            self._controller.toast(TYPED_AHEAD, "warning")
        elif word == "yes" and self._panel.unread:
            self._controller.toast(UNREAD, "warning")
        elif word == "no" and question.asked.ask not in APPROVALS:
            self._questions.skip()
        else:
            return await self._questions.answer(question, question.answer(Say(word)))
        return False

    def _with_plan(self, message: Draft, question: OpenQuestion) -> Draft:
        """The message, with the plan that it comments on if the user edited the plan."""
        shown, proposed = self._panel.asked, question.asked
        if not (shown and proposed.plan and shown.ask_id == proposed.ask_id):
            return message
        text = comment_on(shown.plan, message.text, proposed=proposed.plan)
        return replace(message, text=text)

    async def _queue(self, message: Draft) -> bool:
        question, command = self._questions.open, self._session.speak_command(message)
        if command is None or not await self._controller.send(command):
            return False
        if question:
            self._questions.draft_sent()
            self._controller.toast(STILL_OPEN)
        return True


_YES, _NO = ("y", "yes"), ("n", "no")


def yes_or_no(message: Draft, question: OpenQuestion) -> Reply | None:
    """The reply that a single word means, for questions that take yes or no."""
    word = message.text.strip().lower()
    if message.images or question.asked.ask not in (*APPROVALS, *TRIES):
        return None
    return "yes" if word in _YES else "no" if word in _NO else None


def is_bare_number(message: Draft, question: OpenQuestion) -> bool:
    """Whether it is the number of a choice, as other agents offer them with their questions. It
    must not count as a rejection."""
    word = message.text.strip()
    return len(word) == 1 and word.isdecimal() and question.asked.ask in (*APPROVALS, *TRIES)


def panel_key_in(message: Draft, question: OpenQuestion) -> str:
    """The panel key that was typed as a message, other than yes or no; such a letter is not a
    reason."""
    letter = message.text.strip().lower()
    if message.images or question.asked.ask not in APPROVALS or letter in (*_YES, *_NO):
        return ""
    return letter if letter in answer_letters(question.asked, QuestionStep.ANSWER) else ""


def unclear(message: Draft, question: OpenQuestion) -> str:
    """What to do instead, if the message is a single word that answers nothing."""
    if letter := panel_key_in(message, question):
        return KEY_AS_TEXT.format(letter=letter)
    is_bare = message.text.strip().lower() in BARE_ANSWERS and not message.images
    return BARE_ANSWER if question.asked.plan and is_bare else ""


def can_answer(message: Draft, question: OpenQuestion) -> bool:
    """Images without text do not reject an approval."""
    return bool(message.text) or question.asked.ask not in APPROVALS


def text_answer(question: OpenQuestion, message: Draft) -> Sequence[Command]:
    if question.asked.ask is AskKind.FOLLOWUP:
        suggestion = chosen(message.text, suggestions(question.asked.text))
        return question.chosen(suggestion, message.images)
    return question.text_answer(message)
