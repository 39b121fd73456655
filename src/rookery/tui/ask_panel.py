"""The panel of a question: what keys do to it. One that has just appeared takes none (GATE-4):
what is typed ahead never approves. Nor does a letter inside a word: an answer is a key that stands
alone."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from rookery.core.asks import Choice, Reply, reply_of
from rookery.core.facts import Asked
from rookery.protocol.codec import OfferedAnswer, suggestions
from rookery.tui.question_page import APPROVALS, CHOSEN, CONFIRMING, QuestionStep, answer_letters
from rookery.tui.shown_question import ShownQuestion
from rookery.tui.theme import Theme


class AskPanel(ShownQuestion, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", "Yes", show=False),
        Binding("n", "no", "No", show=False),
        Binding("a", "always", "Always", show=False),
        Binding("t", "for_task", "Yes, for the rest of the task", show=False),
        Binding("e", "expand", "Yes, and add it to the scope", show=False),
        Binding("s", "halt", "No, and stop the task", show=False),
        Binding("r", "reason", "No, with a reason", show=False),
        Binding("enter", "choose", "Choose", show=False),
        Binding("up", "up", "Up", show=False),
        Binding("down", "down", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        *(Binding(str(n), f"pick({n})", f"Suggestion {n}", show=False) for n in range(1, 10)),
    ]

    class Answered(Message):
        """`always` keeps the rule; `choice` is what goes beyond the reply otherwise."""

        def __init__(
            self,
            task_id: str,
            asked: Asked,
            reply: Reply,
            *,
            always: bool = False,
            choice: Choice | None = None,
        ) -> None:
            super().__init__()
            self.task_id = task_id
            self.asked = asked
            self.reply = reply
            self.always = always
            self.choice = choice

    class Chosen(Message):
        """One of the suggestions."""

        def __init__(self, task_id: str, asked: Asked, suggestion: OfferedAnswer) -> None:
            super().__init__()
            self.task_id = task_id
            self.asked = asked
            self.suggestion = suggestion

    class Left(Message):
        """The user does not want to answer now."""

        def __init__(self, asked: Asked) -> None:
            super().__init__()
            self.asked = asked

    def __init__(self, theme: Theme, give_way: Callable[[str], None]) -> None:
        """`give_way` hands a character to the input area, and with it the keys to come."""
        super().__init__(theme)
        self._give_way = give_way

    def _answer(self, reply: Reply, *, always: bool = False, choice: Choice | None = None) -> None:
        asked = self._asked
        if asked is None or not self.live:
            return
        self._live = False
        self.post_message(self.Answered(self._task_id, asked, reply, always=always, choice=choice))

    def action_yes(self) -> None:
        if self.unread:
            return
        if self._step in (QuestionStep.ANSWER, *CONFIRMING):
            self._answer(
                "yes", always=self._step is QuestionStep.RULE, choice=CHOSEN.get(self._step)
            )

    def action_no(self) -> None:
        if self._step in CONFIRMING:
            self.back()
        elif self._asked and self._asked.ask in APPROVALS:
            self._answer("no")
        elif self._asked and self.live:
            self.post_message(self.Left(self._asked))

    def action_always(self) -> None:
        """Show the rule; only a yes to that keeps it, and it has to be seen first."""
        if self._asked and self._asked.rule:
            self._confirm(QuestionStep.RULE)

    def action_for_task(self) -> None:
        """Show what would be allowed until the task is over, likewise."""
        if self._offers("task"):
            self._confirm(QuestionStep.TASK)

    def action_expand(self) -> None:
        """Show what would be added to the scope, likewise."""
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
            self._turn_to(step)

    def action_reason(self) -> None:
        if self._live and self._step is QuestionStep.ANSWER:
            self._gave_way = self._wants_reason = True
            self._give_way("")

    def back(self) -> bool:
        """From what a yes would allow to the question. Whether there was a way back."""
        if self._asked and self._step in CONFIRMING:
            self._letter.drop()
            self._turn_to(QuestionStep.ANSWER)
            return True
        return False

    def action_pick(self, number: int) -> None:
        if self._step is not QuestionStep.CHOICE or self._asked is None or not self.live:
            return
        offered = suggestions(self._asked.text)
        if number <= len(offered):
            self._live = False
            self.post_message(self.Chosen(self._task_id, self._asked, offered[number - 1]))

    def action_choose(self) -> None:
        if self._step is QuestionStep.CHOICE:
            self.action_pick(self._at + 1)

    def action_up(self) -> None:
        self._move(-1)

    def action_down(self) -> None:
        self._move(1)

    def action_page(self, direction: int) -> None:
        scroll_view = self._drawing.scroll_view
        scroll_view.scroll_relative(
            y=direction * max(1, scroll_view.size.height - 1), animate=False
        )
        self._draw_keys()

    def _move(self, by: int) -> None:
        if self._step is QuestionStep.CHOICE and self._asked:
            offered = suggestions(self._asked.text)
            self._at = (self._at + by) % len(offered)
            self._draw(whole=False)
        else:
            self._drawing.scroll_view.scroll_relative(y=by, animate=False)
            self._draw_keys()

    async def on_key(self, event: events.Key) -> None:
        """Once the user has begun to type, what was typed right behind it is text as well."""
        character = event.character or ""
        if len(character) == 1 and character.isprintable():
            event.stop()
            self._take_letter(character, event.time)
        elif self._gave_way and event.key == "enter":
            event.stop()
            self._give_way("\n")
        elif action := _ACTIONS.get(event.key):
            event.stop()
            if event.key != "enter" or self._step is QuestionStep.CHOICE:
                self._letter.drop()
            action(self)

    def _take_letter(self, letter: str, typed_at: float) -> None:
        """An answer if it stands alone, which shows a moment later; text otherwise."""
        if self._asked is None:
            return
        in_a_word = self._letter.is_in_a_word(typed_at, live=self._live)
        if self._gave_way or in_a_word or letter not in answer_letters(self._asked, self._step):
            before = self._letter.drop()
            self._gave_way = True
            self._give_way(before + letter)
        elif letter == "r":
            self.action_reason()  # approves nothing, and words may follow at once
        else:
            act = partial(self._carry_out, _LETTER_ACTIONS[letter], self.live)
            self._letter.hold(letter, act)

    def _carry_out(self, action: Callable[["AskPanel"], None], was_live: bool) -> None:
        if was_live:
            action(self)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The bindings are there to be read; keys are taken where they arrive."""
        return False


_LETTER_ACTIONS: dict[str, Callable[[AskPanel], None]] = {
    "y": AskPanel.action_yes,
    "n": AskPanel.action_no,
    "a": AskPanel.action_always,
    "t": AskPanel.action_for_task,
    "e": AskPanel.action_expand,
    "s": AskPanel.action_halt,
    "r": AskPanel.action_reason,
    **{str(n): partial(AskPanel.action_pick, number=n) for n in range(1, 10)},
}
_ACTIONS: dict[str, Callable[[AskPanel], None]] = {
    "enter": AskPanel.action_choose,
    "up": AskPanel.action_up,
    "down": AskPanel.action_down,
    "pageup": lambda panel: panel.action_page(-1),
    "pagedown": lambda panel: panel.action_page(1),
}
