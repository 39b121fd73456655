"""The input area: multi-line text, the input history, and triggers that open pickers."""

import re
import time
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from rich.text import Text
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import TextArea

from rookery.core.text.terminal_text import visible_characters
from rookery.tui.attachments import Attachments
from rookery.tui.input_files import InputHistory
from rookery.tui.keys import COMPOSER_KEYS
from rookery.tui.pick_list import run_binding
from rookery.tui.vim_keys import VimMode, VimState, leave_insert, press

SAVE_SECONDS = 0.3
"""Seconds until a changed draft is on disk."""
_AT_START = re.compile(r"\s*([/!#?])(.*)", re.DOTALL)
_MENTION = re.compile(r"(?:^|.*\s)@(\S*)", re.DOTALL)


class TriggerText(Struct, frozen=True, kw_only=True):
    """A trigger, and the text between it and the cursor."""

    trigger: str
    text: str
    begin: int
    """Index of the trigger in the text before the cursor."""


def find_trigger(before: str) -> TriggerText | None:
    """The trigger at the cursor: `/ ! # ?` at the start of the first line, `@` at the start of a
    word. A blank ends it, except for session searches (`#`) and shell lines (`!`)."""
    line = before.rpartition("\n")[2]
    found = _AT_START.fullmatch(before) if line == before else None
    if found and (found[1] in "#!" or " " not in found[2]):
        return TriggerText(trigger=found[1], text=found[2], begin=found.start(1))
    if mention := _MENTION.fullmatch(line):
        return TriggerText(trigger="@", text=mention[1], begin=len(before) - len(mention[1]) - 1)
    return None


class Composer(TextArea):
    BINDINGS: ClassVar[list[BindingType]] = COMPOSER_KEYS

    class Submitted(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Triggered(Message):
        """Posted when the text after a trigger changes; None if there is no trigger."""

        def __init__(self, typed: TriggerText | None) -> None:
            super().__init__()
            self.typed = typed

    class Listed(Message):
        """Posted for a key that belongs to the open picker."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Unused(Message):
        """Posted for Enter in an empty input area."""

    class LeaveWanted(Message):
        """Posted for Ctrl+D in an empty input area."""

    class EditorWanted(Message):
        """Posted for Ctrl+X Ctrl+E."""

    class Erased(Message):
        """Posted for Backspace in an empty input area."""

    class Emptied(Message):
        """Posted when a key deletes the last of the text."""

    def __init__(self, inputs: InputHistory) -> None:
        super().__init__(
            soft_wrap=True,
            show_line_numbers=False,
            highlight_cursor_line=False,
            compact=True,
            tab_behavior="focus",
        )
        self.cursor_blink = False
        self._inputs = inputs
        self._place: int | None = None
        """Index of the history entry that is shown instead of the draft."""
        self._draft = ""
        self._cleared = ""
        """The text that was cleared last: the newest entry when you walk back."""
        self._saving: Timer | None = None
        self._typed: TriggerText | None = None
        self.picking = False
        """Whether a picker is open, which takes some keys."""
        self.attachments: Attachments | None = None
        self.started_at = time.monotonic()
        """When the first character of the current text was typed."""
        self.vim: VimState | None = None
        """With vim's keys: the mode and the register."""
        self._is_chord = False
        """Whether the last key was Ctrl+X."""

    def _note_start(self, event: events.Event) -> None:
        if not self.text:
            self.started_at = event.time

    def type_text(self, letters: str) -> None:
        """Insert text that was typed while another widget had the focus."""
        self._begin_insert_mode()
        if not self.text:
            self.started_at = time.monotonic()
        self.insert(letters)

    async def _on_key(self, event: events.Key) -> None:
        self._note_start(event)
        had_text = bool(self.text)
        if self._handle_vim_key(event) or self._handle_key(event.key):
            event.stop()
            event.prevent_default()
        elif not await run_binding(self, event):
            await super()._on_key(event)
        if had_text and not self.text and event.key != "enter":
            self.post_message(self.Emptied())

    def _handle_key(self, key: str) -> bool:
        """Handle keys that differ from those of a plain text area. Returns whether it was one."""
        if self.picking and key in ("up", "down", "enter", "tab"):
            self._look_for_trigger()  # keys that were just typed count before this one
            self.post_message(self.Listed(key))
            return True
        is_chord, self._is_chord = self._is_chord, key == "ctrl+x"
        match key:
            case "ctrl+x" if not self.selected_text:
                pass  # the first half of Ctrl+X Ctrl+E
            case "ctrl+e" if is_chord:
                self.post_message(self.EditorWanted())
            case "shift+enter" | "alt+enter" | "ctrl+j":
                self.insert("\n")
            case "enter" if self._ends_with_backslash:
                self.action_delete_left()
                self.insert("\n")
            case "enter":
                self.action_submit()
            case "ctrl+d" if not self.text:
                self.post_message(self.LeaveWanted())
            case "ctrl+underscore":
                self.undo()
            case "ctrl+p":
                return self._recall(-1)
            case "ctrl+n":
                return self._recall(1)
            case "up" if self.cursor_at_first_line:
                return self._recall(-1)
            case "down" if self.cursor_at_last_line:
                return self._recall(1)
            case _:
                return False
        return True

    def _handle_vim_key(self, event: events.Key) -> bool:
        """Handle a letter in vim's normal mode. Returns whether it was one."""
        state, letter = self.vim, event.character or ""
        if state is None or state.mode is VimMode.INSERT or self.picking:
            return False
        if not event.is_printable or len(letter) != 1:
            self.vim = replace(state, pending="")
            return False
        if state.pending or letter not in ("j", "k", "u"):
            self._apply(press(replace(state, text=self.text, at=self._index), letter))
        elif letter == "u":
            self.undo()
        elif not self._handle_key("down" if letter == "j" else "up"):
            move = self.action_cursor_down if letter == "j" else self.action_cursor_up
            move()
        return True

    @property
    def _index(self) -> int:
        """The cursor's place in the text."""
        row, column = self.cursor_location
        return sum(len(line) + 1 for line in self.text.split("\n")[:row]) + column

    def _apply(self, after: VimState) -> None:
        """Change the text as one step that can be undone."""
        if after.text != self.text:
            self.history.checkpoint()
            self.replace(after.text, (0, 0), self.document.end)
        self.move_cursor(self._location(after.at))
        self.vim = after

    def leave_insert_mode(self) -> bool:
        """Esc with vim's keys. Returns whether there was a mode to leave."""
        state = self.vim
        if state is None or state.mode is VimMode.NORMAL:
            return False
        self._apply(leave_insert(replace(state, text=self.text, at=self._index)))
        return True

    def _begin_insert_mode(self) -> None:
        if self.vim:
            self.vim = replace(self.vim, mode=VimMode.INSERT, pending="")

    @property
    def _ends_with_backslash(self) -> bool:
        """Whether a backslash stands before the cursor, at the end of its line."""
        row, column = self.cursor_location
        line = self.document.get_line(row)
        return line.endswith("\\") and column == len(line)

    async def _on_paste(self, event: events.Paste) -> None:
        self._note_start(event)
        # keys wait meanwhile, so that Enter sends what was pasted before it
        if self.attachments and await self.attachments.from_text(event.text):
            event.prevent_default()

    async def action_attach(self) -> None:
        if self.attachments:
            await self.attachments.from_clipboard(self._paste_internal)

    def _paste_internal(self) -> bool:
        """Paste from the app's own clipboard. Returns whether it holds anything."""
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
        self._inputs.add(text)
        self._cleared = ""
        self.post_message(self.Submitted(text))
        self.empty()

    def action_break_line(self) -> None:
        self.insert("\n")

    def clear_draft(self) -> None:
        """Empty the input area; Up brings the text back."""
        self._cleared = self.text if self.text.strip() else self._cleared
        self.empty()

    def offer(self, text: str) -> None:
        """Keep a text that Up brings back."""
        self._cleared = text

    def empty(self) -> None:
        self._begin_insert_mode()
        self._place, self._draft = None, ""
        self.load_text("")

    def set_text(self, text: str) -> None:
        """Replace the whole text."""
        self.load_text(text)
        self.move_cursor(self.document.end)

    def complete(self, insert: str) -> None:
        """Replace the trigger and what was typed after it."""
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
        """Show the previous or next history entry; the draft comes last."""
        entries = [*self._inputs.entries, *filter(None, [self._cleared])]
        here = len(entries) if self._place is None else self._place
        there = here + by
        if not 0 <= there <= len(entries) or there == here:
            return False
        if self._place is None:
            self._draft = self.text
        self._place = None if there == len(entries) else there
        self.set_text(self._draft if self._place is None else entries[there])
        return True

    def get_line(self, line_index: int) -> Text:
        """Make control characters visible: pasted text may contain anything."""
        return Text(visible_characters(self.document.get_line(line_index)), end="", no_wrap=True)

    def render_line(self, y: int) -> Strip:
        if self.content_size.width < 1:
            return Strip.blank(self.size.width)
        return super().render_line(y)

    def on_text_area_changed(self) -> None:
        self._look_for_trigger()
        if self._inputs.draft and self._saving is None:
            self._saving = self.set_timer(SAVE_SECONDS, self._save_draft)

    def _save_draft(self) -> None:
        self._saving = None
        if self._inputs.draft:
            self._inputs.draft.save(self._draft if self._shows_earlier_message else self.text)

    @property
    def _shows_earlier_message(self) -> bool:
        """Whether the text is an unchanged entry of the history."""
        return self._place is not None and self.text in self._inputs.entries[self._place :][:1]

    def on_unmount(self) -> None:
        self._save_draft()

    def on_text_area_selection_changed(self) -> None:
        self._look_for_trigger()

    def _look_for_trigger(self) -> None:
        row, column = self.cursor_location
        lines = self.text.split("\n")
        before = "\n".join([*lines[:row], lines[row][:column]]) if row < len(lines) else ""
        now = None if self._place is not None else find_trigger(before)
        if now != self._typed:
            self._typed = now
            self.post_message(self.Triggered(now))
