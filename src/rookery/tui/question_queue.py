"""When a question is shown, may be answered, answers itself, and draws attention."""

import time
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from rookery.core.asks import AskKind
from rookery.core.commands import Command
from rookery.core.text.terminal_text import harmless_line
from rookery.protocol.codec import suggestions
from rookery.tui.ask_panel import AskPanel
from rookery.tui.composer import Composer
from rookery.tui.interfaces import Controller
from rookery.tui.question_page import APPROVALS, LETTERS, has_panel
from rookery.tui.session_view import RESUMES, OpenQuestion, Said, SessionView
from rookery.tui.shown_question import UNTOUCHABLE_SECONDS
from rookery.tui.texts import needs_you

Notify: TypeAlias = Literal["auto", "bell", "off"]

AWAY_SECONDS = 30.0
"""Without a key for so long, somebody has turned away even if the terminal does not say so."""
LONGEST = 120
BELL = "\a"


def notification(title: str, words: str) -> str:
    """OSC 9 and OSC 777; a terminal that knows neither shows nothing."""
    words = harmless_line(words).replace(";", ",")[:LONGEST]
    return f"\x1b]9;{title}: {words}\x1b\\\x1b]777;notify;{title};{words}\x1b\\"


class AttentionCaller(Struct, frozen=True, kw_only=True):
    """What is written, and with what."""

    write: Callable[[str], None]
    notify: Notify = "auto"


class Attention:
    def __init__(self, caller: AttentionCaller, title: str, now: Callable[[], float]) -> None:
        self._caller = caller
        self._title = title
        self._now = now
        self._looking = True
        self._key_at = now()
        self._called: set[str] = set()

    @property
    def key_at(self) -> float:
        """When a key was pressed last."""
        return self._key_at

    def key(self) -> None:
        self._key_at = self._now()
        self._looking = True

    def focus_changed(self, looking: bool) -> None:
        """The terminal's window got or lost the focus."""
        self._looking = looking

    @property
    def is_away(self) -> bool:
        return not self._looking or self._now() - self._key_at > AWAY_SECONDS

    def call(self, about: str, words: str) -> bool:
        """Call somebody who is away, once about each thing. Whether that was needed."""
        if about in self._called:
            return False
        self._called.add(about)
        if self._caller.notify == "off" or not self.is_away:
            return False
        news = notification(self._title, words) if self._caller.notify == "auto" else ""
        self._caller.write(BELL + news)
        return True


AT_REST = (*RESUMES, AskKind.COMPLETION_RESULT)
"""Whatever is said to a task that rests is what it is to do next."""
_ANSWERS = ("y", "n", "a", "r", *LETTERS.values())


class Questions:
    """Puts the open question into its panel. A panel gets the keys once it was seen for half a
    second, nobody has typed for as long, and nothing stands in the input area."""

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
        self._left_alone: set[str] = set()
        """Those that the user does not want to answer now."""
        self._shown_at: dict[str, float] = {}
        self._counting = False
        self._nothing_typed = True
        """The input area was empty when the question came."""
        self._question: OpenQuestion | None = None

    @property
    def open(self) -> OpenQuestion | None:
        return self._question

    def show(self) -> None:
        """The open question, if there is one, and no other."""
        question = self._question = self._session.question
        if question is None:
            self.close()
            return
        asked = question.asked
        self._attention.call(asked.ask_id, needs_you(asked))
        if asked.ask_id not in self._shown_at:
            self._shown_at[asked.ask_id] = time.monotonic()
            self._counting = asked.ask is AskKind.FOLLOWUP
        if not has_panel(asked) or asked.ask_id in self._left_alone:
            self.close()
        elif self._panel.asked is None or self._panel.asked.ask_id != asked.ask_id:
            self._shown_at[asked.ask_id] = time.monotonic()
            self._nothing_typed = not self._composer.text
            self._panel.put(question.task.task_id, asked)
            self._panel.set_timer(UNTOUCHABLE_SECONDS, self._wake)

    def close(self) -> None:
        panel = self._panel
        if panel.asked is None:
            return
        if panel.has_focus:
            # at once: what is hidden while it has the focus hands it to whoever comes next
            panel.screen.set_focus(self._composer)
        panel.close()

    def forget(self) -> None:
        self._left_alone.clear()
        self._question = None
        self.close()

    def leave_alone(self) -> None:
        if self._question:
            self._left_alone.add(self._question.asked.ask_id)
            self.show()

    def _wake(self) -> None:
        asked = self._panel.asked
        if asked is None:
            return
        since = max(self._shown_at.get(asked.ask_id, 0.0), self._attention.key_at)
        if (wait := since + UNTOUCHABLE_SECONDS - time.monotonic()) > 0.01:
            self._panel.set_timer(wait, self._wake)
            return
        self._panel.come_alive()
        if self._nothing_typed and self._composer.text in _ANSWERS:
            self._composer.empty()  # meant for the question, which could not take it yet
        if not self._composer.text and self._composer.has_focus:
            self._panel.focus()

    def cover(self) -> None:
        """A side screen stands in front: who comes back from it has to see the question first."""
        if asked := self._panel.asked:
            self._shown_at[asked.ask_id] = time.monotonic()
            if self._panel.live:
                self._panel.fall_asleep()
                self._panel.set_timer(UNTOUCHABLE_SECONDS, self._wake)

    def is_ripe(self, question: OpenQuestion) -> bool:
        """Whether words can be meant for it: it was seen before they were typed."""
        if question.asked.ask in APPROVALS:
            return self._panel.live and self._nothing_typed
        if question.asked.ask in AT_REST:
            return True
        since = self._shown_at.get(question.asked.ask_id, time.monotonic())
        return time.monotonic() - since > UNTOUCHABLE_SECONDS

    def was_seen_first(self, question: OpenQuestion) -> bool:
        """It was in sight for long enough when the first letter of what is typed was typed."""
        since = self._shown_at.get(question.asked.ask_id, time.monotonic())
        return self._composer.begun_at - since > UNTOUCHABLE_SECONDS

    def draft_is_sent(self) -> None:
        """What was begun before the question came is out of the way."""
        self._nothing_typed = True

    async def answer(self, question: OpenQuestion, *commands: Command) -> bool:
        """Send what answers it; if that is refused, it is open again, or overtaken."""
        self._session.settle(question)
        self.show()
        for command in commands:
            if not await self._controller.send(command):
                self._session.reopen_question(question)
                self.show()
                return False
        return True

    # answers that nobody gives

    def answers_by_rule(
        self, words: Said | None, *, once: bool
    ) -> tuple[OpenQuestion, Sequence[Command]] | None:
        """What is sent about a question that nobody needs to see. `words` are what a resumed
        task is told first; `once` if everything ends with the task."""
        question = self._question
        if question is None:
            return None
        match question.asked.ask:
            case kind if kind in RESUMES and words:
                return question, question.in_words(words)
            case AskKind.COMPLETION_RESULT if question.task.view.queue:
                return question, question.in_queued_words()
            case AskKind.COMPLETION_RESULT if once:
                return question, [question.answer("yes", by_policy=True)]
            case AskKind.RESUME_COMPLETED_TASK:
                return question, [question.answer("yes", by_policy=True)]
            case _:
                return None

    def stop_counting(self) -> None:
        """Somebody is there: for this question nothing is chosen by itself any more."""
        self._counting = False
        self._panel.count_down("")

    async def count_down(self, seconds: float, *, automatic: bool) -> None:
        """Every moment: tell how long is left, and choose the first once nothing is. Nobody who
        wants to be asked is answered for."""
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
