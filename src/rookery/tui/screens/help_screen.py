"""All keys, gathered from the bindings, what else can be typed; the transcript as a file."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from msgspec import Struct
from rich.text import Text
from textual.app import App
from textual.widget import Widget

from rookery.core.folds.view import View
from rookery.core.message import Message
from rookery.core.text.terminal_text import harmless
from rookery.tui.pickers.own_commands import OWN
from rookery.tui.pickers.picker import TRIGGERS
from rookery.tui.rows.lines import indented, wrapped
from rookery.tui.screens.side_screen import KeyUse, ReadingScreen, key_uses, own_bindings
from rookery.tui.theme import Theme, theme_of

_HEADINGS = {
    "user_feedback": "You",
    "text": "Rookery",
    "completion_result": "Result",
    "error": "Error",
}


def export(view: View, task_id: str, workspace: str, wanted: str = "") -> Path:
    """Write it to the file that is wanted, or to a new one in the workspace. Never over another.

    Raises `OSError` if it cannot be written.
    """
    folder = Path(workspace) if os.path.isdir(workspace) else Path.cwd()
    path = folder / os.path.expanduser(wanted) if wanted else _free(folder, task_id)
    with open(path, "x", encoding="utf-8", errors="replace", opener=_privately) as file:
        file.write(as_markdown(view))
    return path


def _privately(path: str, flags: int) -> int:
    """Nobody knows what is in it, so it is for the user alone."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _free(folder: Path, task_id: str) -> Path:
    name = f"rookery-{task_id[:8]}"
    path, number = folder / f"{name}.md", 2
    while os.path.lexists(path):
        path, number = folder / f"{name}-{number}.md", number + 1
    return path


def as_markdown(view: View) -> str:
    return "\n\n".join(_blocks(view)) + "\n"


def _blocks(view: View) -> Iterator[str]:
    for message in view.messages:
        text = harmless(message.text or "").strip()
        if message.type == "say" and message.say == "text" and message.seq == 1:
            yield f"# {text}"
        elif message.type == "say" and (heading := _HEADINGS.get(message.say or "")) and text:
            yield f"## {heading}\n\n{text}"
        elif message.type == "say" and message.say == "command_output" and text:
            yield _fenced(text)
        elif message.type == "ask":
            yield from _asked(message, text)


def _asked(message: Message, text: str) -> Iterator[str]:
    match message.ask:
        case "command":
            yield f"## Command\n\n{_fenced(f'$ {text}')}"
        case "tool" | "use_mcp_server" | "browser_action_launch" if message.title:
            yield f"## {harmless(message.title)}"
            if message.diff:
                yield _fenced(harmless(message.diff), "diff")
        case "followup":
            yield f"## Question\n\n{text}"
        case _:
            pass


def _fenced(text: str, kind: str = "") -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{kind}\n{text}\n{fence}"


_LAST_NUMBER = re.compile(r"\s*\d+$")
_WORDS = re.compile(r"(?<!^)(?=[A-Z])")
_TITLES = {"Composer": "In the input area", "TranscriptView": "In the conversation"}
COLUMN = 60
GAP = 4


class HelpSection(Struct, frozen=True):
    title: str
    rows: tuple[tuple[str, str], ...]


def sections(app: App[object]) -> list[HelpSection]:
    """What holds everywhere, then what holds where the focus is, then what is typed."""
    kinds = dict.fromkeys(type(each) for each in app.screen_stack[0].walk_children(Widget))
    parts = [
        HelpSection("Everywhere", _rows(key_uses(own_bindings(type(app))))),
        *(HelpSection(_title(kind), _rows(key_uses(own_bindings(kind)))) for kind in kinds),
        HelpSection(
            "At the beginning of a line", tuple((each.char, each.what) for each in TRIGGERS)
        ),
        HelpSection("Commands", tuple((_usage(each.name, each.hint), each.what) for each in OWN)),
    ]
    return [part for part in parts if part.rows]


def _usage(name: str, hint: str) -> str:
    return f"/{name} {hint}".strip()


def _title(kind: type[Widget]) -> str:
    """Where the keys of a kind of widget hold."""
    words = _WORDS.sub(" ", kind.__name__).lower()
    return _TITLES.get(kind.__name__, f"In the {words}")


def _rows(uses: Iterable[KeyUse]) -> tuple[tuple[str, str], ...]:
    return tuple(_together(uses))


def _together(uses: Iterable[KeyUse]) -> Iterator[tuple[str, str]]:
    """One row for each thing; keys that differ only in a number are told as a range."""
    for _, group in groupby(uses, key=lambda use: _LAST_NUMBER.sub("", use.what)):
        same = list(group)
        keys = [use.key for use in same]
        if len(same) > 2:
            yield f"{keys[0]} … {keys[-1]}", _LAST_NUMBER.sub("", same[0].what)
        else:
            yield " or ".join(keys), same[0].what


def drawn_help(parts: Sequence[HelpSection], width: int, theme: Theme) -> list[Text]:
    """In two columns where there is room."""
    if width < 2 * COLUMN + GAP:
        return [line for part in parts for line in _drawn(part, width, theme)]
    blocks = [_drawn(part, COLUMN, theme) for part in parts]
    left, right = _halves(blocks)
    lines: list[Text] = []
    for at in range(max(len(left), len(right))):
        line = left[at].copy() if at < len(left) else Text()
        line.pad_right(COLUMN + GAP - line.cell_len)
        lines.append(Text.assemble(line, right[at]) if at < len(right) else line)
    return lines


def _halves(blocks: Sequence[Sequence[Text]]) -> tuple[list[Text], list[Text]]:
    half = sum(map(len, blocks)) / 2
    left: list[Text] = []
    right: list[Text] = []
    for block in blocks:
        if not right and len(left) + len(block) / 2 <= half:
            left += block
        else:
            right += block
    return left, right


def _drawn(part: HelpSection, width: int, theme: Theme) -> list[Text]:
    first = min(width // 2, max(Text(key).cell_len for key, _ in part.rows))
    lines = [Text(part.title, theme.ink(theme.accent, bold=True))]
    for key, what in part.rows:
        keys = Text(key, theme.ink(theme.words))
        keys.pad_right(max(0, first - keys.cell_len) + 2)
        words = wrapped(Text(what, theme.ink(theme.quiet)), max(16, width - keys.cell_len - 2))
        margin = Text.assemble("  ", keys)
        lines += indented(words, margin, Text(" " * margin.cell_len))
    return [*lines, Text()]


class HelpScreen(ReadingScreen[None]):
    TITLE_WORDS = "Help"

    def on_mount(self) -> None:
        super().on_mount()
        parts = sections(self.app)
        self.write(lambda width: drawn_help(parts, width, theme_of(self)))
