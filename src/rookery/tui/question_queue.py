"""When a question is shown, can be answered, answers itself, and notifies the user."""

import time
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from rookery import NAME
from rookery.core.asks import APPROVALS, ASKED_AGAIN, RESUMES, AskKind
from rookery.core.commands import Command
from rookery.core.facts import Asked
from rookery.core.text.terminal_text import harmless_line
from rookery.protocol.attend import Say
from rookery.protocol.codec import suggestions
from rookery.tui.ask_panel import TOO_EARLY, AskPanel
from rookery.tui.composer import Composer
from rookery.tui.interfaces import Controller
from rookery.tui.question_page import LETTERS, has_panel
from rookery.tui.session_view import Draft, OpenQuestion, SessionView
from rookery.tui.shown_question import ANSWER_DELAY_SECONDS

Notify: TypeAlias = Literal["auto", "bell", "off"]

AWAY_SECONDS = 30.0
"""Seconds without a key after which the user counts as away."""
MAX_NOTIFICATION = 120
BELL = "\a"


def notification(title: str, words: str) -> str:
    """OSC 9 and OSC 777 sequences; other terminals ignore them."""
    words = harmless_line(words).replace(";", ",")[:MAX_NOTIFICATION]
    return f"\x1b]9;{title}: {words}\x1b\\\x1b]777;notify;{title};{words}\x1b\\"


def notification_text(asked: Asked) -> str:
    match asked.ask:
        case AskKind.COMPLETION_RESULT if asked.plan:
            return "There is a plan to approve."
        case AskKind.COMPLETION_RESULT:
            return "The task is done."
        case AskKind.FOLLOWUP:
            return "The model has a question."
        case kind if kind in APPROVALS:
            return f"May it? {asked.title or asked.text}"
        case _:
            return "The task has stopped."


class Attention:
    def __init__(self, write: Callable[[str], None], how: Notify, now: Callable[[], float]) -> None:
        self._write = write
        self._how = how
        self._now = now
        self._has_focus = True
        self.key_at = now()
        """Time of the last key."""
        self._notified: set[str] = set()

    def key(self) -> None:
        self.key_at = self._now()
        self._has_focus = True

    def focus_changed(self, has_focus: bool) -> None:
        """Called when the terminal window gains or loses the focus."""
        self._has_focus = has_focus

    @property
    def is_away(self) -> bool:
        return not self._has_focus or self._now() - self.key_at > AWAY_SECONDS

    def notify(self, about: str, words: str) -> bool:
        """Notify a user who is away, once per topic. Returns whether it did."""
        if about in self._notified:
            return False
        self._notified.add(about)
        if self._how == "off" or not self.is_away:
            return False
        self._write(BELL + (notification(NAME, words) if self._how == "auto" else ""))
        return True


_ANSWERS = ("y", "n", "a", "r", *LETTERS.values())


class Questions:
    """Shows the open question in the panel. The panel gets the focus once it was visible for
    half a second, no key was pressed for as long, and the input area is empty. A harmless edit
    need not wait."""

    def __init__(
        self,
        controller: Controller,
        panel: AskPanel,
        composer: Composer,
        session: SessionView,
        attention: Attention,
    ) -> None:
        self._controller = controller
        self._panel = panel
        self._composer = composer
        self._session = session
        self._attention = attention
        self._skipped: set[str] = set()
        """Ids of the questions the user does not want to answer now."""
        self._shown_at: dict[str, float] = {}
        self._counting = False
        self._input_was_empty = True
        """Whether the input area was empty when the question appeared."""
        self._question: OpenQuestion | None = None

    @property
    def open(self) -> OpenQuestion | None:
        return self._question

    def show(self) -> None:
        """Show the open question, or close the panel."""
        question = self._question = self._session.question
        if question is None:
            self.close()
            return
        asked = question.asked
        self._attention.notify(asked.ask_id, notification_text(asked))
        if asked.ask_id not in self._shown_at:
            self._shown_at[asked.ask_id] = time.monotonic()
            self._counting = asked.ask is AskKind.FOLLOWUP and not asked.title
        if not has_panel(asked) or asked.ask_id in self._skipped:
            self.close()
        elif self._panel.asked is None or self._panel.asked.ask_id != asked.ask_id:
            self._shown_at[asked.ask_id] = time.monotonic()
            self._input_was_empty = not self._composer.text
            self._panel.put(asked)
            if asked.harmless:
                self._panel.call_after_refresh(self._activate_when_ready)
            else:
                self._panel.set_timer(ANSWER_DELAY_SECONDS, self._activate_when_ready)

    def show_again(self, asked: Asked) -> None:
        """Show the open question with another text."""
        self._shown_at[asked.ask_id] = time.monotonic()
        self._panel.put(asked)
        self._panel.set_timer(ANSWER_DELAY_SECONDS, self._activate_when_ready)

    def close(self) -> None:
        panel = self._panel
        if panel.asked is None:
            return
        if panel.has_focus:
            # hiding a focused widget would move the focus to the next one
            panel.screen.set_focus(self._composer)
        panel.close()

    def forget(self) -> None:
        self._skipped.clear()
        self._question = None
        self.close()

    def skip(self) -> None:
        if self._question:
            self._skipped.add(self._question.asked.ask_id)
            self.show()

    def _activate_when_ready(self) -> None:
        asked = self._panel.asked
        if asked is None:
            return
        since = max(self._shown_at.get(asked.ask_id, 0.0), self._attention.key_at)
        wait = since + ANSWER_DELAY_SECONDS - time.monotonic()
        if wait > 0.01 and not asked.harmless:
            self._panel.set_timer(wait, self._activate_when_ready)
            return
        self._panel.activate()
        if self._input_was_empty and self._composer.text in (*_ANSWERS, *self._panel.letters):
            # meant for the question, which was not live yet
            self._controller.toast(TOO_EARLY.format(key=self._composer.text), "warning")
            self._composer.empty()
        if not self._composer.text and self._composer.has_focus:
            self._panel.focus()

    def suspend(self) -> None:
        """Disable the panel while a side screen covers it; it has to be visible again first."""
        if asked := self._panel.asked:
            self._shown_at[asked.ask_id] = time.monotonic()
            if self._panel.live:
                self._panel.deactivate()
                self._panel.set_timer(ANSWER_DELAY_SECONDS, self._activate_when_ready)

    def can_take_text(self, question: OpenQuestion) -> bool:
        """Whether a message can answer the question: it was visible before the message was
        typed."""
        if question.asked.ask in APPROVALS:
            return self._panel.live and self._input_was_empty
        if question.asked.ask in ASKED_AGAIN:
            return True  # any message is the next instruction of an idle task
        since = self._shown_at.get(question.asked.ask_id, time.monotonic())
        return time.monotonic() - since > ANSWER_DELAY_SECONDS

    def was_seen_first(self, question: OpenQuestion) -> bool:
        """Whether the question was visible long enough before the current text was started."""
        since = self._shown_at.get(question.asked.ask_id, time.monotonic())
        return self._composer.started_at - since > ANSWER_DELAY_SECONDS

    def draft_sent(self) -> None:
        """Note that the text started before the question is gone."""
        self._input_was_empty = True

    def input_emptied(self) -> None:
        """Let keys answer again: the text that was typed instead is deleted."""
        if self._panel.live and not self._panel.wants_reason:
            self._input_was_empty = True
            self._panel.take_keys()

    async def answer(self, question: OpenQuestion, *commands: Command) -> bool:
        """Send the answer. If it is refused, the question is open again."""
        self._session.settled.add(question.asked.ask_id)
        self.show()
        for command in commands:
            if not await self._controller.send(command):
                self._session.settled.discard(question.asked.ask_id)
                self.show()
                return False
        return True

    # automatic answers

    def automatic_answers(
        self, message: Draft | None, *, once: bool
    ) -> tuple[OpenQuestion, Sequence[Command]] | None:
        """Commands that answer a question without the user. `message` is the first message to a
        resumed session; `once` if the app exits with the task."""
        question = self._question
        if question is None:
            return None
        match question.asked.ask:
            case kind if kind in RESUMES and message:
                return question, question.text_answer(message)
            case AskKind.COMPLETION_RESULT if question.task.view.queue:
                return question, question.queued_answer()
            case AskKind.COMPLETION_RESULT if once:
                return question, [question.answer(Say("yes", by="policy"))]
            case AskKind.RESUME_COMPLETED_TASK:
                return question, [question.answer(Say("yes", by="policy"))]
            case _:
                return None

    def cancel_countdown(self) -> None:
        """Cancel the automatic answer: the user is present."""
        self._counting = False
        self._panel.count_down("")

    async def count_down(self, seconds: float, *, automatic: bool) -> None:
        """Show the time left, and pick the first suggestion when it is over. Only with
        auto-approve."""
        question = self._question
        if not (automatic and self._counting and question and has_panel(question.asked)):
            return
        offered = suggestions(question.asked.text)
        gone = time.monotonic() - self._shown_at[question.asked.ask_id]
        if gone < seconds:
            self._panel.count_down(f"answers 1 in {seconds - gone:.0f} s")
        elif offered:
            self._counting = False
            await self.answer(question, *question.chosen(offered[0]))
