"""Pickers: lists that open below the input area when a trigger is typed, one class per trigger."""

import time
from collections.abc import Awaitable, Callable, Container, Sequence
from functools import partial
from typing import Any, ClassVar

import anyio
from msgspec import Struct
from rich.text import Text
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.message import Message

from rookery.core.instructions import mention_of
from rookery.core.queries import AskCommands, AskPaths, AskTasks, FoundPath, KnownCommand, KnownTask
from rookery.core.text.characters import best_matches
from rookery.core.text.terminal_text import harmless_line
from rookery.errors import CommandRejected
from rookery.protocol.slash_words import ALIASES, ANSWERS
from rookery.tui.interfaces import Choice, Controller
from rookery.tui.own_commands import COMMANDS
from rookery.tui.pick_list import PickList, run_latest
from rookery.tui.rows.lines import cut
from rookery.tui.screens.side_screen import KeyUse, key_uses, own_bindings
from rookery.tui.short_texts import ago, one_line
from rookery.tui.theme import Theme


class Trigger(Struct, frozen=True):
    char: str
    what: str


TRIGGERS = (
    Trigger("/", "commands"),
    Trigger("@", "completes a file or a folder, anywhere in a line"),
    Trigger("!", "runs a command in your own shell"),
    Trigger("#", "searches earlier sessions"),
    Trigger("?", "keys and what they do"),
)


ROWS = 9
"""Visible rows of a picker."""


class Picker(Vertical):
    """Base class of pickers. Subclasses define the rows, and how long typing must
    pause before they are searched."""

    DEFAULT_CSS = "Picker { height: auto; width: 1fr; }"
    PAUSE: ClassVar[float] = 0.15
    """Seconds."""
    MOST: ClassVar[int] = 20
    NOTHING: ClassVar[str] = "No matches."

    class Picked(Message):
        """Posted when a row is clicked."""

        def __init__(self, choice: Choice) -> None:
            super().__init__()
            self.choice = choice

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._query = ""
        self._found_for: str | None = None
        self._list = PickList[Choice](self._draw, _row_name, most=ROWS)

    def compose(self) -> ComposeResult:
        yield self._list

    async def candidates(self, text: str) -> Sequence[Choice]:
        """Matches for the text, best first."""
        return self.instant_matches(text) or ()

    def instant_matches(self, text: str) -> Sequence[Choice] | None:
        """The same as `candidates`, if available at once; then Enter need not wait for the
        search."""
        return None

    async def search(self, text: str) -> None:
        self._query = text
        run_latest(self, partial(self._search_later, text))

    def move(self, by: int) -> None:
        self._list.move(by)

    @property
    def chosen(self) -> Choice | None:
        """The choice for the current text; the visible rows may belong to an older one."""
        if self._found_for == self._query:
            return self._list.marked
        known = self.instant_matches(self._query)
        return known[0] if known else None

    async def settle(self) -> Choice | None:
        """Search at once for the current text, and return the choice."""
        if self._found_for != self._query:
            self.workers.cancel_node(self)
            await self._find(self._query)
        return self.chosen

    @property
    def choices(self) -> Sequence[Choice]:
        return self._list.items

    async def _search_later(self, text: str) -> None:
        if self._found_for is not None:
            await anyio.sleep(self.PAUSE)
        await self._find(text)

    async def _find(self, text: str) -> None:
        try:
            found, nothing = await self.candidates(text), self.NOTHING
        except CommandRejected as refusal:
            found, nothing = (), harmless_line(str(refusal))
        fresh = self._found_for != text
        self._found_for = text
        self._list.show(found, nothing=nothing, best_first=fresh)

    def _draw(self, choice: Choice, width: int, theme: Theme) -> Text:
        widest = max(Text(harmless_line(each.label)).cell_len for each in self._list.items)
        return two_columns(choice.label, choice.detail, min(widest, width * 3 // 5), width, theme)

    def on_pick_list_picked(self, message: PickList.Picked) -> None:
        message.stop()
        if choice := self.chosen:
            self.post_message(self.Picked(choice))


def _row_name(choice: Choice) -> str:
    return f"{choice.label}\n{choice.insert}"


def two_columns(label: str, detail: str, first: int, width: int, theme: Theme) -> Text:
    """A label padded to `first` columns, followed by its detail."""
    line = cut(Text(harmless_line(label), theme.fg(theme.text)), first)
    if detail:
        line.pad_right(max(0, first - line.cell_len) + 2)
        line.append(harmless_line(detail), theme.fg(theme.muted))
    return cut(line, width)


_MENTION_WORDS = tuple(
    Choice(label=name, detail=what, insert=f"@{name} ")
    for name, what in (
        ("git-changes", "uncommitted changes"),
        ("problems", "problems reported by the workspace's tools"),
        ("terminal", "output of the last command"),
    )
)


class PathPicker(Picker):
    NOTHING = "No matching file."

    async def candidates(self, text: str) -> Sequence[Choice]:
        letters = text.removeprefix("/").replace("\\", "")
        found = await self._controller.ask(AskPaths(letters=letters, most=self.MOST))
        paths = [_path_choice(each) for each in found]
        words = [each for each in _MENTION_WORDS if each.label.startswith(text)]
        seen = ROWS - len(words)  # keeps the special mentions visible
        return [*paths[:seen], *words, *paths[seen:]]


def _path_choice(found: FoundPath) -> Choice:
    path = found.path.rstrip("/") + ("/" if found.folder else "")
    return Choice(
        label=path, detail="folder" if found.folder else "", insert=f"{mention_of(path)} "
    )


class ShellPicker(Picker):
    """Has one row: the command line that would run."""

    PAUSE = 0.0
    NOTHING = "Type a command for your own shell. The model sees only output you keep."

    def instant_matches(self, text: str) -> Sequence[Choice]:
        if not text.strip():
            return ()
        run = partial(run_in_shell, self.app, self._controller, text.strip())
        return [Choice(label=f"$ {text.strip()}", detail="Enter runs it as you", action=run)]


def shell_line(text: str) -> str:
    """The command of a line that starts with `!`. Such a line is never sent to the model."""
    line = text.strip()
    return line[1:].strip() if line.startswith("!") and "\n" not in line else ""


async def run_in_shell(app: App[Any], controller: Controller, command: str) -> None:
    from rookery.tui.screens.shell_screen import ShellScreen

    app.push_screen(ShellScreen(controller, command))


class HistoryPicker(Picker):
    """Sessions that contain all of the words, newest first. Picking one opens it."""

    PAUSE = 0.1
    MOST = 15
    NOTHING = "No matching session."

    async def candidates(self, text: str) -> Sequence[Choice]:
        found = await self._controller.ask(AskTasks(words=text.strip(), most=4 * self.MOST))
        now = time.time_ns() // 1_000_000
        own = [task for task in found if task.parent is None]
        return [self._choice(task, now) for task in own[: self.MOST]]

    def _choice(self, task: KnownTask, now: int) -> Choice:
        title = one_line(task.title) or "(untitled)"
        about = [ago(task.updated, now), task.status, one_line(task.excerpt)]
        return Choice(
            label=title,
            detail=" · ".join(filter(None, about)),
            action=partial(self._controller.open_task, task.task_id),
        )


class ShortcutPicker(Picker):
    """Picking a trigger types it; picking a key runs its action."""

    PAUSE = 0.0

    def instant_matches(self, text: str) -> Sequence[Choice]:
        others = [each for each in TRIGGERS if each.char != "?"]
        triggers = [Choice(label=each.char, detail=each.what, insert=each.char) for each in others]
        uses = [use for use in key_uses(own_bindings(type(self.app))) if use.shown]
        keys = [Choice(label=use.key, detail=use.what, action=self._do(use)) for use in uses]
        return best_matches([*triggers, *keys], text, self.MOST, _label_and_detail)

    def _do(self, use: KeyUse) -> Callable[[], Awaitable[None]]:
        async def do() -> None:
            self._controller.press(use.action)

        return do


def _label_and_detail(choice: Choice) -> str:
    return f"{choice.label} {choice.detail}"


class CommandPicker(Picker):
    """Picking a command of the client runs it; other commands are typed, as they may take
    arguments."""

    NOTHING = "No such command."

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self._others: Sequence[KnownCommand] | None = None

    async def candidates(self, text: str) -> Sequence[Choice]:
        if self._others is None:
            self._others = await self._controller.ask(AskCommands())
        return self.instant_matches(text) or ()

    def instant_matches(self, text: str) -> Sequence[Choice] | None:
        own = [
            Choice(
                label=f"/{each.name}",
                detail=each.what,
                action=partial(each.run, self.app, self._controller),
            )
            for each in COMMANDS
        ]
        taken = {each.name for each in COMMANDS}
        others = [_command_choice(each) for each in self._others or () if each.name not in taken]
        if self._others is None:
            exact = [each for each in own if each.label == f"/{text}"]
            return exact or None
        ours = best_matches(own, text, len(own), _command_name)
        begun = [each for each in ours if _command_name(each).startswith(text)]
        loose = [each for each in ours if each not in begun]
        other_words = self._other_words(text, {each.name for each in self._others})
        return [*begun, *other_words, *loose, *best_matches(others, text, self.MOST, _command_name)]

    def _other_words(self, text: str, taken: Container[str]) -> list[Choice]:
        """Other agents' words for our commands, once the user has begun to type one. Words for
        commands that we do not have are listed only once they are complete."""
        if text in ANSWERS and text not in taken:
            tell = partial(self._tell, ANSWERS[text])
            return [Choice(label=f"/{text}", detail=ANSWERS[text], action=tell)]
        ours = {each.name: each for each in COMMANDS}
        return [
            Choice(
                label=f"/{word}",
                detail=f"/{name}: {ours[name].what}",
                action=partial(ours[name].run, self.app, self._controller),
            )
            for word, name in ALIASES.items()
            if text and word.startswith(text) and word not in taken
        ]

    async def _tell(self, answer: str) -> None:
        self._controller.toast(answer)


def _command_name(choice: Choice) -> str:
    return choice.label.removeprefix("/")


def _command_choice(command: KnownCommand) -> Choice:
    about = [command.description, command.argument_hint]
    if command.source != "built-in":
        about.append(f"({command.source})")
    return Choice(
        label=f"/{command.name}",
        detail="  ".join(filter(None, about)),
        insert=f"/{command.name} ",
    )


PICKERS: dict[str, type[Picker]] = {
    "/": CommandPicker,
    "@": PathPicker,
    "!": ShellPicker,
    "#": HistoryPicker,
    "?": ShortcutPicker,
}
