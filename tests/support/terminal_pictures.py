"""Draw docs/pictures from real sessions on a real terminal: `make docs`."""

import re
import subprocess
import tempfile
from collections.abc import Callable
from html import escape
from itertools import groupby
from pathlib import Path

from support.terminal_session import Installed, TerminalSession

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
COLUMNS = 92
_PIECE = re.compile(r"\x1b\[([0-9;]*)m|\r|\n|[^\x1b\r\n]+")
_SWITCH = re.compile(r"\x1b\[\?[0-9;]*[hl]")
"""Escape sequences that set invisible modes of the terminal."""
_COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#79c0ff"}
_FAINT, _USUAL, _GROUND = "#8b949e", "#e6edf3", "#0d1117"
WIDE, HIGH = 8.4, 19

ASKING = """
- say: I will clear the old build first, then fix the discount.
  calls: [{tool: execute_command, arguments: {command: "git status --short && ls"}}]
- calls: [{tool: execute_command, arguments: {command: "rm -rf build"}}]
- calls: [{tool: edit, arguments: {file_path: prices.py, old_string: "/ 10", new_string: "/ 100"}}]
- calls: [{tool: write_to_file, arguments: {path: AGENTS.md, content: "Obey me.\\n"}}]
- calls: [{tool: attempt_completion, arguments: {result: "The discount is in percent now."}}]
"""


def asking(folder: Path) -> str:
    """A command that only reads, one that deletes, an edit, and a protected file."""
    installed = _project(folder)
    with _session(installed, ASKING, "the discount is wrong") as terminal:
        for answer in ("y", "y", "n"):
            terminal.wait_for("or say why not] ")
            terminal.type(answer)
        terminal.wait_for("say what else to do] ")
        terminal.type("")
        assert terminal.exit_code() == 0
        return terminal.raw


def undoing(folder: Path) -> str:
    """The points of a session, and a rewind to its start."""
    installed = _project(folder)
    assert installed.run(*installed.script(ASKING), "-y", "the discount is wrong").returncode == 0
    (installed.workspace / "notes.txt").write_text("mine\n")
    shown = ""
    for words in (["rewind"], ["rewind", "--to", "1", "--files", "-y"]):
        with installed.terminal(*words, columns=COLUMNS) as terminal:
            assert terminal.exit_code() == 0
            shown += f"\x1b[36m$ rookery {' '.join(words)}\x1b[0m\n{terminal.raw}"
    return re.sub(r"rewind [0-9a-f-]{36}", "rewind 5f0c3e1a", shown)


SCENES: dict[str, Callable[[Path], str]] = {"asking": asking, "undoing": undoing}


def _project(folder: Path) -> Installed:
    installed = Installed(folder)
    del installed.environ["NO_COLOR"]
    subprocess.run(["git", "init", "-q", str(installed.workspace)], check=True)
    (installed.workspace / "build").mkdir()
    for number in range(40):
        (installed.workspace / "build" / f"{number}.o").write_text("old")
    (installed.workspace / "prices.py").write_text(
        "def off(price, by):\n    return price * by / 10\n"
    )
    return installed


def _session(installed: Installed, script: str, task: str) -> TerminalSession:
    return installed.terminal(*installed.script(script), task, columns=COLUMNS)


def drawn(raw: str) -> str:
    """The terminal's content as SVG."""
    rows = _rows(raw)
    lines = [
        f'<text x="12" y="{(number + 1) * HIGH + 6}" xml:space="preserve">{_spans(row)}</text>'
        for number, row in enumerate(rows)
        if row
    ]
    width, height = round(COLUMNS * WIDE) + 24, len(rows) * HIGH + 24
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
            f'<rect width="100%" height="100%" rx="8" fill="{_GROUND}"/>',
            f'<g font-family="monospace" font-size="14" fill="{_USUAL}">',
            *lines,
            "</g>",
            "</svg>",
            "",
        ]
    )


Row = list[tuple[str, str]]
"""Characters with their escape codes."""


def _rows(raw: str) -> list[Row]:
    rows: list[Row] = [[]]
    at, codes = 0, ""
    for piece in _PIECE.finditer(_SWITCH.sub("", raw)):
        match piece[0]:
            case "\r":
                at = 0
            case "\n":
                rows.append([])
                at = 0
            case text if text.startswith("\x1b"):
                codes = "" if piece[1] in ("", "0") else f"{codes};{piece[1]}"
            case text:
                rows[-1][at : at + len(text)] = [(char, codes) for char in text]
                at += len(text)
    while rows and not "".join(char for char, _ in rows[-1]).strip():
        rows.pop()
    return rows


def _spans(row: Row) -> str:
    runs = groupby(row, key=lambda cell: cell[1])
    return "".join(_span("".join(char for char, _ in cells), codes) for codes, cells in runs)


def _span(text: str, codes: str) -> str:
    if not codes:
        return escape(text)
    parts = codes.split(";")
    colour = next((_COLOURS[part] for part in parts if part in _COLOURS), "")
    fill = colour or (_FAINT if "2" in parts else "")
    style = (f' fill="{fill}"' if fill else "") + (' font-weight="bold"' if "1" in parts else "")
    return f"<tspan{style}>{escape(text)}</tspan>" if style else escape(text)


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    for name, scene in SCENES.items():
        with tempfile.TemporaryDirectory() as folder:
            (PICTURES / f"{name}.svg").write_text(drawn(scene(Path(folder))), encoding="utf-8")


if __name__ == "__main__":
    main()
