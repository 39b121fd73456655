"""The panel of a question. One that has just appeared takes no key (GATE-4): what is typed ahead
never approves. Nor does a letter inside a word: an answer is a key that stands alone."""

import time
from collections.abc import Callable, Collection
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.errors import NoWidget
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from rookery.clients.questions import Suggestion, suggestions
from rookery.clients.tui.asking import APPROVALS, Step, body_of, footing_of, page_of
from rookery.clients.tui.counted import counted
from rookery.clients.tui.look import Look
from rookery.clients.tui.paper import Paper
from rookery.clients.tui.rows.lines import WHOLE, cut, wrapped
from rookery.core.asks import AskKind, Reply
from rookery.core.facts import Asked

UNTOUCHABLE_SECONDS = 0.5
"""How long a question must have been on the screen before a key can answer it, and how long no
letter must have been typed."""
ALONE_SECONDS = 0.3
"""How long a key waits for another one, with which it would be a word."""
_LEAST_BODY = 3
_FRAME = 3
"""Lines of a panel beside title, text and notes: its rule, an empty one, and the keys."""
_TITLE_LINES = 2
_LEAST_WIDTH = 20
"""Columns in which the keys can be told."""
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
        self._wants_reason = False
        self._waiting: Timer | None = None
        """For the letter that may be an answer: carries it out."""
        self._letter = ""
        self._letter_at = 0.0
        self._asked: Asked | None = None
        self._task_id = ""
        self._step = Step.ANSWER
        self._at = 0
        self._live = False
        self._counting = ""
        self._is_cramped = False
        self._turns = 0
        """How often it turned to something else."""
        self._is_read = False
        """The end of what is asked about was in sight."""

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
        """It can be answered: it has been seen for long enough, and is in sight."""
        return self._live and self.is_in_sight

    @property
    def is_in_sight(self) -> bool:
        """Its title, something of its text and its keys are on the screen."""
        return self.size.width >= _LEAST_WIDTH and all(map(_is_on_screen, self.children))

    @property
    def is_typed_to(self) -> bool:
        """It handed the keys to the input area, for an answer in words."""
        return self._asked is not None and self._gave_way

    @property
    def wants_reason(self) -> bool:
        """What is typed now is why it is refused, even if that is a yes."""
        return self.is_typed_to and self._wants_reason

    @property
    def unread(self) -> int:
        """Lines of an action that nobody can have read yet; it is not approved before."""
        if self._asked is None or self._asked.ask not in APPROVALS:
            return 0
        _, last, count = self._paper.position
        self._is_read = self._is_read or (self._live and last >= count)
        return 0 if self._is_read else count - last

    @property
    def is_seen_whole(self) -> bool:
        return self._paper.is_seen_whole

    def put(self, task_id: str, asked: Asked) -> None:
        """Show a question that nobody has seen yet."""
        self._task_id, self._asked = task_id, asked
        self._step = Step.CHOICE if asked.ask is AskKind.FOLLOWUP else Step.ANSWER
        self._at, self._live, self._counting, self._gave_way = 0, False, "", False
        self._is_read = self._wants_reason = False
        self._drop_letter()
        self.display = True
        self._draw(whole=True)

    def close(self) -> None:
        self._asked = None
        self._live = False
        self._drop_letter()
        self.display = False

    def come_alive(self) -> None:
        self._live = self._asked is not None
        self._draw_keys()

    def fall_asleep(self) -> None:
        """Nobody sees it any more."""
        self._live = False
        self._drop_letter()
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
        """The screen has another size, and what is seen of the question now was not seen before."""
        if self._asked:
            self._fit()
            if self._live:
                self.fall_asleep()
                self._wake_later()

    def on_resize(self, event: events.Resize) -> None:
        if self._asked:
            self._fit()

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
            body = [*_long_title(asked, step, width), *body_of(asked, step, at, width, look)]
            return [*body, *footing_of(asked, step, width, look)] if cramped else body

        self._paper.show(write)

    def _fit(self) -> None:
        """As high as it needs to be, but never so high that nothing else is seen, unless it is an
        action, of which as much as can be is to be read at once. Where there is no room for both,
        the notes scroll with the rest: all of it can be read in any case."""
        assert self._asked
        paper, height = self._paper, self.app.size.height
        width = paper.room if paper.size.width else max(16, self.app.size.width - 6)
        title = _short_title(self._asked, self._step, width)
        fixed = _FRAME + len(wrapped(Text(f"{title}  ↑↓ 100-100 of 1000"), width))
        footing = footing_of(self._asked, self._step, width, self._look)
        room = height - _AROUND - fixed
        below = len(footing) + 1 if footing else 0
        if (cramped := below + _LEAST_BODY > room) != self._is_cramped:
            self._is_cramped = cramped
            self._write()
        below = 0 if cramped else below
        enough = room if self._asked.ask in APPROVALS else height * 3 // 5 - fixed
        most = min(room, max(_LEAST_BODY + below, enough)) - below
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
        words = _short_title(self._asked, self._step, self._paper.room)
        title = Text(words, look.ink(look.accent, bold=True))
        first, last, count = self._paper.position
        if count > last or first > 1:
            title.append(f"  ↑↓ {first}-{last} of {count}", look.ink(look.careful))
        self.query_one("#ask-title", Static).update(title)
        keys = Text()
        ink = look.ink(look.accent if self.has_focus else look.quiet, bold=True)
        if not self._live:
            keys.append("…   ", look.ink(look.quiet))
        elif not self.is_in_sight:
            keys.append("too small a window to answer   ", look.ink(look.careful))
        elif self.is_typed_to:
            ink = look.ink(look.accent, bold=True)
        elif not self.has_focus:
            keys.append("tab", look.ink(look.accent, bold=True)).append(" to answer   ")
        elif unread := self.unread:
            more = counted(unread, "more line")
            keys.append(f"↓ {more}, then ", look.ink(look.careful))
        offered = (("enter", "sends"), ("esc", "back")) if self.is_typed_to else page.keys
        for key, what in offered if self.live else ():
            keys.append(key, ink).append(f" {what}   ", look.ink(look.quiet))
        keys.append(self._counting, look.ink(look.careful))
        self.query_one("#ask-keys", Static).update(cut(keys, max(16, self.size.width - 4)))

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._gave_way = self._gave_way and not has_focus
        self._wants_reason = self._wants_reason and not has_focus
        self._drop_letter()
        self._draw_keys()

    # answering

    def _answer(self, reply: Reply, *, always: bool = False) -> None:
        asked = self._asked
        if asked is None or not self.live:
            return
        self._live = False
        self.post_message(self.Answered(self._task_id, asked, reply, always))

    def action_yes(self) -> None:
        if self.unread:
            return
        if self._step is Step.RULE:
            self._answer("yes", always=True)
        elif self._step is Step.ANSWER:
            self._answer("yes")

    def action_no(self) -> None:
        if self._step is Step.RULE:
            self.back()
        elif self._asked and self._asked.ask in APPROVALS:
            self._answer("no")
        elif self._asked and self.live:
            self.post_message(self.Left(self._asked))

    def action_always(self) -> None:
        """Show the rule; only a yes to that keeps it, and it has to be seen first."""
        can = self.live and self._step is Step.ANSWER and not self.unread
        if can and self._asked and self._asked.rule:
            self._turn_to(Step.RULE)

    def _turn_to(self, step: Step) -> None:
        """Show something else of the question, which has to be seen first as well."""
        self._step, self._live, self._is_read = step, False, False
        self._draw(whole=True)
        self._wake_later()

    def _wake_later(self) -> None:
        self._turns += 1
        self.set_timer(UNTOUCHABLE_SECONDS, partial(self._wake_turn, self._asked, self._turns))

    def _wake_turn(self, asked: Asked | None, turns: int) -> None:
        if self._asked is not asked or self._turns != turns:
            return
        if (wait := self._letter_at + UNTOUCHABLE_SECONDS - time.monotonic()) > 0:
            self.set_timer(wait + 0.01, partial(self._wake_turn, asked, turns))
        else:
            self.come_alive()

    def action_reason(self) -> None:
        if self._live and self._step is Step.ANSWER:
            self._gave_way = self._wants_reason = True
            self._give_way("")

    def back(self) -> bool:
        """From the rule to the question. Whether there was a way back."""
        if self._asked and self._step is Step.RULE:
            self._drop_letter()
            self._turn_to(Step.ANSWER)
            return True
        return False

    def action_pick(self, number: int) -> None:
        if self._step is not Step.CHOICE or self._asked is None or not self.live:
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
            if event.key != "enter" or self._step is Step.CHOICE:
                self._drop_letter()
            action(self)

    def _take_letter(self, letter: str, typed_at: float) -> None:
        """An answer if it stands alone, which shows a moment later; text otherwise."""
        if self._asked is None:
            return
        soon = typed_at - self._letter_at < UNTOUCHABLE_SECONDS
        self._letter_at = typed_at
        in_a_word = self._letter or (self._live and soon)
        if self._gave_way or in_a_word or letter not in self._answer_keys:
            before = self._drop_letter()
            self._gave_way = True
            self._give_way(before + letter)
        elif letter == "r":
            self.action_reason()  # approves nothing, and words may follow at once
        else:
            self._letter = letter
            act = partial(self._carry_out, _LETTER_ACTIONS[letter], self.live)
            self._waiting = self.set_timer(ALONE_SECONDS, act)

    def _carry_out(self, action: Callable[["AskPanel"], None], was_live: bool) -> None:
        self._drop_letter()
        if was_live:
            action(self)

    def _drop_letter(self) -> str:
        """The letter that waited, which is no answer now."""
        if self._waiting:
            self._waiting.stop()
        letter, self._letter, self._waiting = self._letter, "", None
        return letter

    @property
    def _answer_keys(self) -> Collection[str]:
        assert self._asked
        match self._step:
            case Step.CHOICE:
                count = min(9, len(suggestions(self._asked.text)))
                return [str(number) for number in range(1, count + 1)]
            case Step.RULE:
                return ("y", "n")
            case Step.ANSWER:
                return [key for key, _ in page_of(self._asked, self._step).keys]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The bindings are there to be read; keys are taken where they arrive."""
        return False


def _is_on_screen(part: Widget) -> bool:
    if not part.display:
        return True
    try:
        place = part.screen.find_widget(part)
    except NoWidget:
        return False
    return place.region.height > 0 and place.visible_region == place.region


def _is_short(title: str, width: int) -> bool:
    return len(wrapped(Text(title), width)) <= _TITLE_LINES


def _short_title(asked: Asked, step: Step, width: int) -> str:
    title = page_of(asked, step).title
    return title if _is_short(title, width) else "Allow this?"


def _long_title(asked: Asked, step: Step, width: int) -> list[Text]:
    """A title that is too long to stay in sight is read with the rest."""
    title = page_of(asked, step).title
    return [] if _is_short(title, width) else [*wrapped(Text(title), width, WHOLE), Text()]


_LETTER_ACTIONS: dict[str, Callable[[AskPanel], None]] = {
    "y": AskPanel.action_yes,
    "n": AskPanel.action_no,
    "a": AskPanel.action_always,
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
