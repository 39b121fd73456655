"""What is shown of a question: exactly what would happen, and the keys that answer it."""

import re
from collections.abc import Collection, Iterator
from enum import Enum

from msgspec import Struct
from rich.text import Text

from rookery.core.asks import AskKind
from rookery.core.facts import Asked
from rookery.core.intent_questions import Choice
from rookery.core.text.terminal_text import approvable, harmless, plainly_visible, visible_line
from rookery.protocol.client.question_text import ceiling, followup, suggestions
from rookery.tui.intent_lines import (
    choice_keys,
    choice_lines,
    choice_title,
    reason_lines,
    target_lines,
)
from rookery.tui.rows.diffs import diff_pieces
from rookery.tui.rows.lines import TAB, indented, wrapped
from rookery.tui.rows.markdown import GrowingMarkdown
from rookery.tui.rows.pieces import Piece, text_pieces, together
from rookery.tui.rows.tool_calls import is_edit, payload_in
from rookery.tui.theme import Look

APPROVALS = (
    AskKind.TOOL,
    AskKind.COMMAND,
    AskKind.USE_MCP_SERVER,
    AskKind.BROWSER_ACTION_LAUNCH,
)
TRIES = (
    AskKind.API_REQ_FAILED,
    AskKind.MISTAKE_LIMIT_REACHED,
    AskKind.AUTO_APPROVAL_MAX_REQ_REACHED,
    AskKind.PAYMENT_REQUIRED_PROMPT,
    AskKind.INVALID_MODEL,
)


class Step(Enum):
    """What the keys are about."""

    ANSWER = "yes or no"
    RULE = "whether the rule, now shown, is to be kept"
    TASK = "whether what is now shown is to be allowed for the rest of the task"
    EXPAND = "whether what is now shown is to belong to the scope"
    CHOICE = "which of the suggestions"


CHOSEN: dict[Step, Choice] = {Step.TASK: "task", Step.EXPAND: "expand"}
CONFIRMING = (Step.RULE, *CHOSEN)
"""A yes to more than this call, of which all is shown before another yes makes it so."""


class Page(Struct, frozen=True, kw_only=True):
    """What is shown of a question."""

    title: str
    keys: tuple[tuple[str, str], ...]
    """Each key with what it does."""


def has_panel(asked: Asked) -> bool:
    """Whether the question needs keys of its own. The others are answered by typing."""
    if asked.ask is AskKind.FOLLOWUP:
        return bool(followup(asked.text)[1])
    return asked.ask in APPROVALS or asked.ask in TRIES


def page_of(asked: Asked, step: Step) -> Page:
    if step is Step.RULE:
        rule_keys = (("y", "keep it and allow"), ("esc", "back"))
        return Page(title="Allow this from now on?", keys=rule_keys)
    if asked.governance and (choice := CHOSEN.get(step)):
        what = "allow" if choice == "task" else "add it and allow"
        title = choice_title(asked.governance, choice)
        return Page(title=title, keys=(("y", what), ("esc", "back")))
    match asked.ask:
        case AskKind.FOLLOWUP:
            choosing = (("↑↓ enter", "choose"), ("type", "something else"))
            return Page(title="The model asks", keys=choosing)
        case AskKind.COMMAND:
            return Page(title="Run this command?", keys=_approval_keys(asked))
        case kind if kind in APPROVALS:
            title = visible_line(asked.title or "Allow this?")
            return Page(
                title=f"{title}?" if not title.endswith("?") else title, keys=_approval_keys(asked)
            )
        case AskKind.AUTO_APPROVAL_MAX_REQ_REACHED:
            return Page(title="A limit is reached", keys=(("y", "go on"), ("n", "leave it")))
        case AskKind.MISTAKE_LIMIT_REACHED:
            trying = (("y", "let it try again"), ("r", "give a hint"), ("n", "leave it"))
            return Page(title="The model is stuck", keys=trying)
        case _:
            return Page(title="The request failed", keys=(("y", "try again"), ("n", "leave it")))


def _approval_keys(asked: Asked) -> tuple[tuple[str, str], ...]:
    always = (("a", "always…"),) if asked.rule else ()
    return (
        ("y", "yes"),
        ("n", "no"),
        *always,
        *choice_keys(asked.governance),
        ("r", "no, because…"),
    )


def answer_letters(asked: Asked, step: Step) -> Collection[str]:
    """The keys that answer, each a single letter. Whatever else is typed is text."""
    match step:
        case Step.CHOICE:
            count = min(9, len(suggestions(asked.text)))
            return [str(number) for number in range(1, count + 1)]
        case Step.ANSWER:
            return [key for key, _ in page_of(asked, step).keys]
        case _:
            return ("y", "n")


def body_of(asked: Asked, step: Step, at: int, width: int, look: Look) -> list[Piece]:
    """All there is to know, what matters most at the end."""
    return together(_body(asked, step, at, width, look))


def _body(asked: Asked, step: Step, at: int, width: int, look: Look) -> list[Text | Piece]:
    quiet = look.ink(look.quiet)
    if step is Step.RULE:
        rule = wrapped(Text(_visible(asked.rule), look.ink(look.words, bold=True)), width)
        return [Text("It will no longer be asked about:", quiet), *rule]
    if asked.governance and (choice := CHOSEN.get(step)):
        return list(choice_lines(asked.governance, choice, width, look))
    if asked.ask is AskKind.FOLLOWUP:
        return _suggestions(asked, at, width, look)
    lines = _action(asked, width, look)
    if asked.governance and asked.governance.targets:
        lines += [*([Text()] if lines else []), *target_lines(asked.governance, width, look)]
    return lines


def _action(asked: Asked, width: int, look: Look) -> list[Text | Piece]:
    quiet = look.ink(look.quiet)
    lines: list[Text | Piece] = []
    if asked.ask is AskKind.COMMAND:
        lines += _command(asked.text, width, look)
        if asked.cwd:
            lines += wrapped(Text(f"in {visible_line(asked.cwd)}", quiet), width)
    elif asked.ask in APPROVALS:
        if asked.diff and _changes_files(asked):
            lines += diff_pieces(approvable(asked.diff), width, look)
        elif asked.diff:
            words = approvable(asked.diff).expandtabs(TAB)
            lines += text_pieces(words, width, look.ink(look.words))
        elif asked.ask is not AskKind.TOOL:
            lines += text_pieces(_visible(asked.text), width, look.ink(look.words))
    else:
        words = (
            ceiling(asked.text)
            if asked.ask is AskKind.AUTO_APPROVAL_MAX_REQ_REACHED
            else (asked.text)
        )
        lines += text_pieces(harmless(words), width, look.ink(look.words))
    return lines


def _command(text: str, width: int, look: Look) -> Iterator[Text]:
    """A line that goes on below is marked there: it is no second command."""
    ink, quiet = look.ink(look.words, bold=True), look.ink(look.quiet)
    margin = Text("$ ", quiet)
    for line in _visible(_LAST_BLANKS.sub(_drawn_blanks, text)).split("\n"):
        yield from indented(wrapped(Text(line, ink), width - 2), margin, Text("↪ ", quiet))
        margin = Text("  ")


_LAST_BLANKS = re.compile(r"[ \t]{1,3}$", re.MULTILINE)


def _drawn_blanks(found: re.Match[str]) -> str:
    return found[0].replace(" ", "␣").replace("\t", "␉")


def _changes_files(asked: Asked) -> bool:
    """Only then is its `diff` one: a sub-task or another mode is told there in plain words."""
    return asked.ask is AskKind.TOOL and is_edit(payload_in(asked.text))


def _visible(text: str) -> str:
    """With nothing in it that one would not see."""
    return plainly_visible(text).expandtabs(TAB)


def footing_of(asked: Asked, step: Step, width: int, look: Look) -> list[Text]:
    """What one must know to answer, which stays in sight while the rest scrolls."""
    if step in CONFIRMING:
        return []
    lines: list[Text] = []
    if asked.where:
        lines += wrapped(Text(visible_line(asked.where), look.ink(look.quiet)), width)
    for note in _other_notes(asked):
        words = Text(visible_line(note), look.ink(look.careful))
        mark = Text("! ", look.ink(look.careful, bold=True))
        lines += indented(wrapped(words, width - 2), mark, Text("  "))
    if asked.governance:
        lines += reason_lines(asked.governance, width, look)
    return lines


def _other_notes(asked: Asked) -> list[str]:
    """Those that are not told with their code already."""
    coded = {reason.text for reason in asked.governance.reasons} if asked.governance else set()
    return [note for note in asked.notes if note not in coded]


def _suggestions(asked: Asked, at: int, width: int, look: Look) -> list[Text | Piece]:
    question = GrowingMarkdown().pieces(followup(asked.text)[0], width, look)
    lines: list[Text | Piece] = [*question, Text()]
    for number, offered in enumerate(suggestions(asked.text)):
        chosen = number == at
        ink = look.ink(look.accent, bold=True) if chosen else look.ink(look.words)
        mark = Text(f"{'▸' if chosen else ' '} {number + 1}. ", look.ink(look.accent))
        answer = Text(visible_line(offered.answer), ink)
        if offered.mode:
            answer.append(f"  → {visible_line(offered.mode)} mode", look.ink(look.careful))
        words = wrapped(answer, width - mark.cell_len)
        lines += indented(words, mark, Text(" " * mark.cell_len))
    return lines
