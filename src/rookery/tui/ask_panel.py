"""The question panel: handles its keys.

A question takes no keys in its first half second, so that text typed ahead never approves anything.
A letter answers only if no other letter precedes or follows it closely. Harmless edits, which can
be undone, are answered by one key at once.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import ClassVar

from textual import events
from textual.actions import parse
from textual.binding import BindingType
from textual.message import Message

from rookery.core.asks import APPROVALS, Choice, Reply, reply_of
from rookery.core.facts import Asked
from rookery.protocol.attend import Say
from rookery.protocol.codec import OfferedAnswer
from rookery.tui.keys import PANEL_KEYS
from rookery.tui.question_page import (
    CHOSEN,
    CONFIRMING,
    QuestionStep,
    answer_letters,
    options_of,
)
from rookery.tui.shown_question import ShownQuestion

TOO_EARLY = "Ignored {key}: the question had just appeared. Press it again to answer."
UNREAD = "Read to the end first: press End, or scroll with ↓."
PRESS_A_LETTER = "Nothing was answered. Press y for yes or n for no."
_ACTIONS = {binding.key: parse(binding.action) for binding in PANEL_KEYS}


class AskPanel(ShownQuestion, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [*PANEL_KEYS]

    class Answered(Message):
        """Posted for an answer."""

        def __init__(self, asked: Asked, said: Say) -> None:
            super().__init__()
            self.asked = asked
            self.said = said

    class Chosen(Message):
        """Posted when a suggestion is picked."""

        def __init__(self, asked: Asked, suggestion: OfferedAnswer) -> None:
            super().__init__()
            self.asked = asked
            self.suggestion = suggestion

    class Left(Message):
        """Posted when the user does not want to answer now."""

    class Ignored(Message):
        """Posted for a key that did not answer, with the reason."""

        def __init__(self, why: str) -> None:
            super().__init__()
            self.why = why

    def __init__(self, hand_over: Callable[[str], None]) -> None:
        """`hand_over` passes text, and the focus, to the input area."""
        super().__init__()
        self._hand_over = hand_over

    def _answer(self, reply: Reply, *, choice: Choice | None = None) -> None:
        if self._asked and self.live:
            self._live = False
            always, prefix = self._step is QuestionStep.RULE, self._step is QuestionStep.PREFIX
            said = Say(reply, always=always, prefix=prefix, choice=choice)
            self.post_message(self.Answered(self._asked, said))

    def action_yes(self) -> None:
        if self.unread:
            self.post_message(self.Ignored(UNREAD))
        elif self._step in (QuestionStep.ANSWER, *CONFIRMING):
            self._answer("yes", choice=CHOSEN.get(self._step))

    def action_no(self) -> None:
        if self._step in CONFIRMING:
            self.back()
        elif self._asked and self._asked.ask in APPROVALS:
            self._answer("no")
        elif self._asked and self.live:
            self.post_message(self.Left())

    def action_always(self) -> None:
        """Show the rule; it has to be confirmed before it is saved."""
        if self._asked and self._asked.rule:
            self._confirm(QuestionStep.RULE)

    def action_always_prefix(self) -> None:
        """Show the rule for commands that begin like this; it has to be confirmed."""
        if self._asked and self._asked.prefix:
            self._confirm(QuestionStep.PREFIX)

    def action_for_task(self) -> None:
        """Show what would be allowed for the rest of the task; it has to be confirmed."""
        if self._offers("task"):
            self._confirm(QuestionStep.TASK)

    def action_expand(self) -> None:
        """Show what would be added to the scope; it has to be confirmed."""
        if self._offers("expand"):
            self._confirm(QuestionStep.EXPAND)

    def action_halt(self) -> None:
        if self._offers("halt") and self._step is QuestionStep.ANSWER:
            self._answer(reply_of("halt"), choice="halt")

    def _offers(self, choice: Choice) -> bool:
        question = self._asked.governance if self._asked else None
        return question is not None and choice in question.choices

    def _confirm(self, step: QuestionStep) -> None:
        if self.live and self._step is QuestionStep.ANSWER and not self.unread:
            self._show_step(step)

    def action_reason(self) -> None:
        if self._live and self._step is QuestionStep.ANSWER:
            self._handed_over = self._wants_reason = True
            self._hand_over("")

    def back(self) -> bool:
        """Return from a confirmation to the question. Returns whether there was one."""
        if self._asked and self._step in CONFIRMING:
            self._held_letter.drop()
            self._show_step(QuestionStep.ANSWER)
            return True
        return False

    def action_pick(self, number: int) -> None:
        if self._step is not QuestionStep.CHOICE or self._asked is None or not self.live:
            return
        if self.unread:
            self.post_message(self.Ignored(UNREAD))
            return
        offered = options_of(self._asked)
        if number <= len(offered):
            self._live = False
            self.post_message(self.Chosen(self._asked, offered[number - 1]))

    def action_choose(self) -> None:
        if self._step is QuestionStep.CHOICE:
            self.action_pick(self._at + 1)
        else:
            self.post_message(self.Ignored(PRESS_A_LETTER))

    def action_move(self, by: int) -> None:
        if self._step is QuestionStep.CHOICE and self._asked and not self.unread:
            offered = options_of(self._asked)
            self._at = (self._at + by) % len(offered)
            self.redraw(keeps_place=True)
        else:
            self._scroll(by)

    def action_page(self, direction: int) -> None:
        self._scroll(direction * max(1, self.body.size.height - 1))

    def action_far(self, direction: int) -> None:
        self.body.scroll_far(direction)
        self._draw_keys()

    def _scroll(self, lines: int) -> None:
        self.body.scroll_relative(y=lines, animate=False)
        self._draw_keys()

    async def on_key(self, event: events.Key) -> None:
        """Once the user has started to type text, all further keys are text."""
        character = event.character or ""
        if len(character) == 1 and character.isprintable():
            event.stop()
            self._on_letter(character, event.time)
        elif self._handed_over and event.key == "enter":
            event.stop()
            self._hand_over("\n")
        elif event.key in _ACTIONS:
            event.stop()
            if event.key != "enter" or self._step is QuestionStep.CHOICE:
                self._held_letter.drop()
            self._run(event.key)

    @property
    def letters(self) -> Collection[str]:
        """Letters and digits that answer; any other key is text."""
        return answer_letters(self._asked, self._step) if self._asked else ()

    def _on_letter(self, letter: str, typed_at: float) -> None:
        """Hold the letter for a moment: it is an answer if no other follows, else text."""
        if self._asked is None:
            return
        in_a_word = self._held_letter.is_part_of_word(typed_at, live=self._live)
        if self._handed_over or in_a_word or letter not in self.letters:
            before = self._held_letter.drop()
            self._handed_over = True
            self._hand_over(before + letter)
        elif letter == "r":
            self.action_reason()  # approves nothing, so no need to wait for more letters
        elif self._answers_at_once and self.live:
            self._run(letter)
        else:
            act = partial(self._run, letter) if self.live else partial(self._ignore_early, letter)
            self._held_letter.hold(letter, act)

    def _ignore_early(self, letter: str) -> None:
        self.post_message(self.Ignored(TOO_EARLY.format(key=letter)))

    def _run(self, key: str) -> None:
        _, name, arguments = _ACTIONS[key]
        getattr(self, f"action_{name}")(*arguments)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The bindings only document the keys: `on_key` handles them."""
        return False
