"""The input area: several lines, the input history, and triggers that open pickers."""

import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from msgspec import Struct
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from rookery.core.text.terminal_text import seen_letters
from rookery.platform.disk import put
from rookery.tui.pickers.pick_list import is_done

_AT_START = re.compile(r"\s*([/!#?])(.*)", re.DOTALL)
_MENTION = re.compile(r"(?:^|.*\s)@(\S*)", re.DOTALL)


class Remembered(Protocol):
    """What was said earlier, newest last."""

    @property
    def entries(self) -> Sequence[str]: ...

    def add(self, text: str) -> None: ...


class Attaching(Protocol):
    """Who takes pictures that are pasted."""

    async def from_text(self, text: str) -> bool:
        """Whether the text was the path of a picture, which is attached instead."""
        ...

    async def from_clipboard(self, otherwise: Callable[[], bool]) -> None: ...


class InputMemory:
    """Remembers until the process ends."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def add(self, text: str) -> None:
        if text.strip() and self.entries[-1:] != [text]:
            self.entries.append(text)


class Typed(Struct, frozen=True, kw_only=True):
    """A trigger, and what was typed behind it up to the cursor."""

    trigger: str
    text: str
    begin: int
    """Where the trigger stands, in the text before the cursor."""


def typed(before: str) -> Typed | None:
    """The trigger that is being typed behind, in the text before the cursor: one begins the
    first line, the other a word. A blank ends it, except in what is looked for among the tasks
    and in a shell line."""
    line = before.rpartition("\n")[2]
    found = _AT_START.fullmatch(before) if line == before else None
    if found and (found[1] in "#!" or " " not in found[2]):
        return Typed(trigger=found[1], text=found[2], begin=found.start(1))
    if mention := _MENTION.fullmatch(line):
        return Typed(trigger="@", text=mention[1], begin=len(before) - len(mention[1]) - 1)
    return None


class Composer(TextArea):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Send", show=False, priority=False),
        Binding("shift+enter,alt+enter,ctrl+j", "break_line", "New line", show=False),
        Binding("ctrl+v", "attach", "Attach the image in the clipboard", show=False),
        Binding("backspace", "erase", "In an empty input: remove the last image", show=False),
    ]

    class Submitted(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Triggered(Message):
        """What is typed behind a trigger changed; None when there is none."""

        def __init__(self, typed: Typed | None) -> None:
            super().__init__()
            self.typed = typed

    class Listed(Message):
        """A key for the picker that is open."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Unused(Message):
        """Enter, with nothing to send."""

    class Erased(Message):
        """Backspace, with nothing to erase."""

    def __init__(self, remembered: Remembered) -> None:
        super().__init__(
            soft_wrap=True,
            show_line_numbers=False,
            highlight_cursor_line=False,
            compact=True,
            tab_behavior="focus",
        )
        self.cursor_blink = False
        self._remembered = remembered
        self._place: int | None = None
        """Which of what was said earlier is shown instead of the draft."""
        self._draft = ""
        self._typed: Typed | None = None
        self.picking = False
        """A picker is open, which takes some keys."""
        self.attaching: Attaching | None = None
        self._begun_at = time.monotonic()

    @property
    def begun_at(self) -> float:
        """When the first letter of what stands here was typed."""
        return self._begun_at

    def _note_beginning(self, event: events.Event) -> None:
        if not self.text:
            self._begun_at = event.time

    def take(self, letters: str) -> None:
        """What was typed elsewhere and is meant for here."""
        if not self.text:
            self._begun_at = time.monotonic()
        self.insert(letters)

    @property
    def typed(self) -> Typed | None:
        return self._typed

    async def _on_key(self, event: events.Key) -> None:
        self._note_beginning(event)
        if self._used(event.key):
            event.stop()
            event.prevent_default()
        elif not await is_done(self, event):
            await super()._on_key(event)

    def _used(self, key: str) -> bool:
        """Whether the key means something else here than in any text."""
        if self.picking and key in ("up", "down", "enter", "tab"):
            self.post_message(self.Listed(key))
            return True
        match key:
            case "shift+enter" | "alt+enter" | "ctrl+j":
                self.insert("\n")
            case "enter":
                self.action_submit()
            case "up" if self.cursor_at_first_line:
                return self._recall(-1)
            case "down" if self.cursor_at_last_line:
                return self._recall(1)
            case _:
                return False
        return True

    async def _on_paste(self, event: events.Paste) -> None:
        self._note_beginning(event)
        # keys that come meanwhile wait here, so that Enter sends what was pasted before it
        if self.attaching and await self.attaching.from_text(event.text):
            event.prevent_default()

    async def action_attach(self) -> None:
        if self.attaching:
            await self.attaching.from_clipboard(self._paste_own)

    def _paste_own(self) -> bool:
        """Put in what was cut or copied here. Whether there is something."""
        self.action_paste()
        return bool(self.app.clipboard)

    def action_erase(self) -> None:
        if self.text:
            self.action_delete_left()
        else:
            self.post_message(self.Erased())

    def action_submit(self) -> None:
        text = self.text
        if not text.strip():
            self.post_message(self.Unused())
            return
        self._remembered.add(text)
        self.post_message(self.Submitted(text))
        self.empty()

    def action_break_line(self) -> None:
        self.insert("\n")

    def empty(self) -> None:
        self._place, self._draft = None, ""
        self.load_text("")

    def put(self, text: str) -> None:
        """Instead of everything that is there."""
        self.load_text(text)
        self.move_cursor(self.document.end)

    def complete(self, insert: str) -> None:
        """Put a choice in the place of what was typed since the trigger, trigger included."""
        if (typed := self._typed) is None:
            self.insert(insert)
            return
        end = self.cursor_location
        begin = self._location(typed.begin)
        self.replace(insert, begin, end)

    def _location(self, index: int) -> tuple[int, int]:
        before = self.text[:index]
        return before.count("\n"), index - (before.rfind("\n") + 1)

    def _recall(self, by: int) -> bool:
        """Show what was said before or after; the draft stands at the end."""
        entries = self._remembered.entries
        here = len(entries) if self._place is None else self._place
        there = here + by
        if not 0 <= there <= len(entries) or there == here:
            return False
        if self._place is None:
            self._draft = self.text
        self._place = None if there == len(entries) else there
        self.put(self._draft if self._place is None else entries[there])
        return True

    def get_line(self, line_index: int) -> Text:
        """As it is drawn: a name or what is pasted may hold anything."""
        return Text(seen_letters(self.document.get_line(line_index)), end="", no_wrap=True)

    def render_line(self, y: int) -> Strip:
        if self.content_size.width < 1:
            return Strip.blank(self.size.width)
        return super().render_line(y)

    def on_text_area_changed(self) -> None:
        self._look_for_trigger()

    def on_text_area_selection_changed(self) -> None:
        self._look_for_trigger()

    def _look_for_trigger(self) -> None:
        row, column = self.cursor_location
        lines = self.text.split("\n")
        before = "\n".join([*lines[:row], lines[row][:column]]) if row < len(lines) else ""
        now = None if self._place is not None else typed(before)
        if now != self._typed:
            self._typed = now
            self.post_message(self.Triggered(now))


MOST = 500
VERSION = 1


class InputHistory:
    """Newest last. Blanks and immediate repeats are not added. What another session has added
    meanwhile is kept. `warn` is told in a sentence why something could not be written."""

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self._path = path
        self._warn = warn
        self._entries = _read(path)

    @property
    def entries(self) -> Sequence[str]:
        return self._entries

    def add(self, text: str) -> None:
        if not text.strip():
            return
        known = _read(self._path) or self._entries
        if known[-1:] != [text]:
            known = [*known, text][-MOST:]
        self._entries = known
        try:
            _write(self._path, known)
        except OSError as error:
            self._warn(f"Your input history cannot be saved: {self._path}: {error.strerror}.")


def _read(path: Path) -> list[str]:
    """A file that is missing or broken holds nothing."""
    try:
        kept: Any = json.loads(path.read_text(encoding="utf-8"))
        entries = kept["entries"]
        return [str(each) for each in entries if isinstance(each, str)][-MOST:]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def _write(path: Path, entries: Sequence[str]) -> None:
    """All of it or nothing, and readable for nobody else: people type secrets."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = json.dumps({"version": VERSION, "entries": list(entries)}, ensure_ascii=False)
    put(path, [text.encode(errors="replace")], durable=False)
