"""The panel of a question. One that has just appeared takes no key (GATE-4): what is typed ahead
never approves."""

import time
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Static

from rookery.clients.questions import Suggestion, suggestions
from rookery.clients.tui.asking import APPROVALS, Step, body_of, footing_of, page_of
from rookery.clients.tui.look import Look
from rookery.clients.tui.paper import Paper
from rookery.clients.tui.rows.lines import cut, wrapped
from rookery.core.asks import AskKind, Reply
from rookery.core.facts import Asked

UNTOUCHABLE_SECONDS = 0.5
"""How long a question must have been on the screen before a key can answer it."""
_LEAST_BODY = 3
_FRAME = 3
"""Lines of a panel beside title, text and notes: its rule, an empty one, and the keys."""
_AROUND = 5
"""Lines of the screen that a panel must leave: header, input area, status."""


class AskPanel(Vertical, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", "Yes", show=False),
        Binding("n", "no", "No", show=False),
        Binding("a", "always", "Always", show=False),
        Binding("r", "reason", "No, with a reason", show=False),
        Binding("enter", "choose", "Choose", show=False),
        Binding("up", "up", "Up", show=False),
        Binding("down", "down", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        *(Binding(str(n), f"pick({n})", f"Suggestion {n}", show=False) for n in range(1, 10)),
    ]

    class Answered(Message):
        def __init__(self, task_id: str, asked: Asked, reply: Reply, always: bool = False) -> None:
            super().__init__()
            self.task_id = task_id
            self.asked = asked
            self.reply = reply
            self.always = always

    class Chosen(Message):
        """One of the suggestions."""

        def __init__(self, task_id: str, asked: Asked, suggestion: Suggestion) -> None:
            super().__init__()
            self.task_id = task_id
            self.asked = asked
            self.suggestion = suggestion

    class Left(Message):
        """The user does not want to answer now."""

        def __init__(self, asked: Asked) -> None:
            super().__init__()
            self.asked = asked

    def __init__(self, look: Look, give_way: Callable[[str], None]) -> None:
        """`give_way` hands a character to the input area, and with it the keys to come."""
        super().__init__()
        self._look = look
        self._give_way = give_way
        self._gave_way = False
        self._asked: Asked | None = None
        self._task_id = ""
        self._step = Step.ANSWER
        self._at = 0
        self._live = False
        self._counting = ""
        self._is_cramped = False
        self._rule_at = 0.0

    def compose(self) -> ComposeResult:
        yield Static(id="ask-title")
        yield Paper(id="ask-body")
        yield Static(id="ask-footing")
        yield Static(id="ask-keys")

    @property
    def asked(self) -> Asked | None:
        return self._asked

    @property
    def live(self) -> bool:
        """It can be answered: it has been seen for long enough."""
        return self._live

    def put(self, task_id: str, asked: Asked) -> None:
        """Show a question that nobody has seen yet."""
        self._task_id, self._asked = task_id, asked
        self._step = Step.CHOICE if asked.ask is AskKind.FOLLOWUP else Step.ANSWER
        self._at, self._live, self._counting, self._gave_way = 0, False, "", False
        self.display = True
        self._draw(whole=True)

    def close(self) -> None:
        self._asked = None
        self._live = False
        self.display = False

    def come_alive(self) -> None:
        self._live = self._asked is not None
        self._draw_keys()

    def fall_asleep(self) -> None:
        """Nobody sees it any more."""
        self._live = False
        self._draw_keys()

    def count_down(self, words: str) -> None:
        """What is told beside the keys while a suggestion is about to be taken by itself."""
        if words != self._counting:
            self._counting = words
            self._draw_keys()

    def wear(self, look: Look) -> None:
        self._look = look
        if self._asked:
            self._draw(whole=True)

    def refit(self) -> None:
        """The screen has another size."""
        if self._asked:
            self._fit()

    def on_resize(self, event: events.Resize) -> None:
        self.refit()

    # drawing

    def _draw(self, *, whole: bool) -> None:
        where = self._paper.scroll_y
        self._write()
        if not whole:
            self._paper.scroll_to(0, where, animate=False)
        self._fit()

    @property
    def _paper(self) -> Paper:
        return self.query_one(Paper)

    def _write(self) -> None:
        assert self._asked
        asked, step, at, look, cramped = (
            self._asked,
            self._step,
            self._at,
            self._look,
            self._is_cramped,
        )

        def write(width: int) -> list[Text]:
            body = body_of(asked, step, at, width, look)
            return [*body, *footing_of(asked, step, width, look)] if cramped else body

        self._paper.show(write)

    def _fit(self) -> None:
        """As high as it needs to be, but never so high that nothing else is seen. Where there is
        no room for both, the notes scroll with the rest: all of it can be read in any case."""
        assert self._asked
        paper, height = self._paper, self.app.size.height
        width = paper.room if paper.size.width else max(16, self.app.size.width - 6)
        title = page_of(self._asked, self._step).title
        fixed = _FRAME + len(wrapped(Text(f"{title}  ↑↓ 100-100 of 1000"), width))
        footing = footing_of(self._asked, self._step, width, self._look)
        room = height - _AROUND - fixed
        below = len(footing) + 1 if footing else 0
        if (cramped := below + _LEAST_BODY > room) != self._is_cramped:
            self._is_cramped = cramped
            self._write()
        below = 0 if cramped else below
        most = min(room, max(_LEAST_BODY + below, height * 3 // 5 - fixed)) - below
        paper.styles.height = max(1, min(most, paper.lines_at(width)))
        notes = self.query_one("#ask-footing", Static)
        notes.update(Text("\n").join(footing))
        notes.display = bool(footing) and not cramped
        self.call_after_refresh(self._draw_keys)
        self._draw_keys()

    def _draw_keys(self) -> None:
        """The lines that change: what is scrolled to, and the keys that work now."""
        if self._asked is None or not self.is_mounted:
            return
        look, page = self._look, page_of(self._asked, self._step)
        title = Text(page.title, look.ink(look.accent, bold=True))
        first, last, count = self._paper.position
        if count > last or first > 1:
            title.append(f"  ↑↓ {first}-{last} of {count}", look.ink(look.careful))
        self.query_one("#ask-title", Static).update(title)
        keys = Text()
        ink = look.ink(look.accent if self.has_focus else look.quiet, bold=True)
        if not self._live:
            keys.append("…   ", look.ink(look.quiet))
        elif not self.has_focus:
            keys.append("tab", look.ink(look.accent, bold=True)).append(" to answer   ")
        for key, what in page.keys if self._live else ():
            keys.append(key, ink).append(f" {what}   ", look.ink(look.quiet))
        keys.append(self._counting, look.ink(look.careful))
        self.query_one("#ask-keys", Static).update(cut(keys, max(16, self.size.width - 4)))

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._gave_way = self._gave_way and not has_focus
        self._draw_keys()

    # answering

    def _answer(self, reply: Reply, *, always: bool = False) -> None:
        asked = self._asked
        if asked is None or not self._live:
            return
        self._live = False
        self.post_message(self.Answered(self._task_id, asked, reply, always))

    def action_yes(self) -> None:
        if self._step is Step.RULE:
            self._answer("yes", always=True)
        elif self._step is Step.ANSWER:
            self._answer("yes")

    def action_no(self) -> None:
        if self._step is Step.RULE:
            self.back()
        elif self._asked and self._asked.ask in APPROVALS:
            self._answer("no")
        elif self._asked and self._live:
            self.post_message(self.Left(self._asked))

    def action_always(self) -> None:
        """Show the rule; only a yes to that keeps it, and it has to be seen first."""
        if self._live and self._step is Step.ANSWER and self._asked and self._asked.rule:
            self._step, self._live = Step.RULE, False
            self._draw(whole=True)
            self._rule_at = time.monotonic()
            self.set_timer(UNTOUCHABLE_SECONDS, self._wake_rule)

    def _wake_rule(self) -> None:
        seen_for = time.monotonic() - self._rule_at
        if self._step is Step.RULE and seen_for > UNTOUCHABLE_SECONDS - 0.01:
            self.come_alive()

    def action_reason(self) -> None:
        if self._live and self._step is Step.ANSWER:
            self._gave_way = True
            self._give_way("")

    def back(self) -> bool:
        """From the rule to the question. Whether there was a way back."""
        if self._asked and self._step is Step.RULE:
            self._step, self._live = Step.ANSWER, True
            self._draw(whole=True)
            return True
        return False

    def action_pick(self, number: int) -> None:
        if self._step is not Step.CHOICE or self._asked is None or not self._live:
            return
        offered = suggestions(self._asked.text)
        if number <= len(offered):
            self._live = False
            self.post_message(self.Chosen(self._task_id, self._asked, offered[number - 1]))

    def action_choose(self) -> None:
        if self._step is Step.CHOICE:
            self.action_pick(self._at + 1)

    def action_up(self) -> None:
        self._move(-1)

    def action_down(self) -> None:
        self._move(1)

    def action_page(self, direction: int) -> None:
        paper = self._paper
        paper.scroll_relative(y=direction * max(1, paper.size.height - 1), animate=False)
        self._draw_keys()

    def _move(self, by: int) -> None:
        if self._step is Step.CHOICE and self._asked:
            offered = suggestions(self._asked.text)
            self._at = (self._at + by) % len(offered)
            self._draw(whole=False)
        else:
            self._paper.scroll_relative(y=by, animate=False)
            self._draw_keys()

    async def on_key(self, event: events.Key) -> None:
        """Keys count when they arrive here, and not later, when something else may be asked. Once
        the user has begun to type, what was typed right behind it is text as well."""
        character = event.character or ""
        letter = len(character) == 1 and character.isprintable()
        if self._step is Step.CHOICE and letter and not character.isdigit():
            self._gave_way = True
        if self._gave_way and (letter or event.key == "enter"):
            event.stop()
            self._give_way(character if letter else "\n")
        elif action := _ACTIONS.get(event.key):
            event.stop()
            action(self)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The bindings are there to be read; keys are taken where they arrive."""
        return False


_ACTIONS: dict[str, Callable[[AskPanel], None]] = {
    "y": AskPanel.action_yes,
    "n": AskPanel.action_no,
    "a": AskPanel.action_always,
    "r": AskPanel.action_reason,
    "enter": AskPanel.action_choose,
    "up": AskPanel.action_up,
    "down": AskPanel.action_down,
    "pageup": lambda panel: panel.action_page(-1),
    "pagedown": lambda panel: panel.action_page(1),
    **{str(n): partial(AskPanel.action_pick, number=n) for n in range(1, 10)},
}
