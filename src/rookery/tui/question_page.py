"""The body of a question: what would be done, and what an approval would allow.

Approvals must show everything that would happen, with invisible characters made visible. Governance
questions also show the reasons, and what a wider approval would add to the scope.
"""

import re
from collections.abc import Collection, Iterator
from enum import Enum

from msgspec import Struct
from rich.text import Text

from rookery.core.asks import (
    APPROVALS,
    FAILED_REQUESTS,
    AskedReason,
    AskedTarget,
    AskKind,
    Choice,
    IntentQuestion,
)
from rookery.core.facts import Asked
from rookery.core.limits import MEANS_BAD_KEY
from rookery.core.plans import PLAN_ANSWERS
from rookery.core.text.terminal_text import approvable, harmless, plainly_visible, visible_line
from rookery.protocol.codec import OfferedAnswer, ceiling, followup, suggestions
from rookery.tui.rows.lines import TAB, Piece, as_pieces, indented, text_pieces, wrapped
from rookery.tui.rows.markdown import GrowingMarkdownLines, highlight
from rookery.tui.rows.tool_calls import diff_pieces, is_edit, parse_payload
from rookery.tui.theme import Theme

TRIES = (
    *FAILED_REQUESTS,
    AskKind.MISTAKE_LIMIT_REACHED,
    AskKind.AUTO_APPROVAL_MAX_REQ_REACHED,
)


class QuestionStep(Enum):
    """What the panel currently asks."""

    ANSWER = "yes or no"
    RULE = "whether the rule, now shown, is to be kept"
    PREFIX = "the same for the rule about commands that begin like this one"
    TASK = "whether what is now shown is to be allowed for the rest of the task"
    EXPAND = "whether what is now shown is to belong to the scope"
    CHOICE = "which of the suggestions"


CHOSEN: dict[QuestionStep, Choice] = {QuestionStep.TASK: "task", QuestionStep.EXPAND: "expand"}
CONFIRMING = (QuestionStep.RULE, QuestionStep.PREFIX, *CHOSEN)
"""Steps that allow more than this call; what they would allow is shown in full first."""


class QuestionPage(Struct, frozen=True, kw_only=True):
    title: str
    keys: tuple[tuple[str, str], ...]
    """Each key with its label."""


EDIT_THE_PLAN = "Open it in my editor first"


def options_of(asked: Asked) -> list[OfferedAnswer]:
    """The answers to choose from: of a plan, or those that the model suggests."""
    if asked.plan:
        return [*map(OfferedAnswer, PLAN_ANSWERS), OfferedAnswer(EDIT_THE_PLAN)]
    return suggestions(asked.text)


def has_panel(asked: Asked) -> bool:
    """Whether the question is shown in a panel. Others are answered by typing."""
    if asked.plan:
        return True
    if asked.ask is AskKind.FOLLOWUP:
        return bool(followup(asked.text)[1])
    return asked.ask in APPROVALS or asked.ask in TRIES


def page_of(asked: Asked, step: QuestionStep) -> QuestionPage:
    if step in (QuestionStep.RULE, QuestionStep.PREFIX):
        rule_keys = (("y", "save it and approve"), ("esc", "back"))
        title = "Always approve this?"
        if step is QuestionStep.PREFIX:
            title = "Always approve commands that start like this?"
        return QuestionPage(title=title, keys=rule_keys)
    if asked.governance and (choice := CHOSEN.get(step)):
        what = "allow" if choice == "task" else "add it and approve"
        title = choice_title(asked.governance, choice)
        return QuestionPage(title=title, keys=(("y", what), ("esc", "back")))
    if asked.plan:
        choosing = (("↑↓ enter", "choose"), ("type", "what to change"))
        return QuestionPage(title="Carry out this plan?", keys=choosing)
    match asked.ask:
        case AskKind.FOLLOWUP:
            choosing = (("↑↓ enter", "choose"), ("type", "something else"))
            by = f"Agent {visible_line(asked.agent)}" if asked.agent else "The model"
            title = visible_line(asked.title) or f"{by} asks"
            return QuestionPage(title=title, keys=choosing)
        case AskKind.COMMAND:
            return QuestionPage(title="Run this command?", keys=_approval_keys(asked))
        case kind if kind in APPROVALS:
            title = visible_line(asked.title or "Allow this?")
            return QuestionPage(
                title=f"{title}?" if not title.endswith("?") else title, keys=_approval_keys(asked)
            )
        case AskKind.AUTO_APPROVAL_MAX_REQ_REACHED:
            return QuestionPage(title="Limit reached", keys=(("y", "continue"), ("n", "stop")))
        case AskKind.MISTAKE_LIMIT_REACHED:
            trying = (("y", "let it try again"), ("r", "give a hint"), ("n", "stop"))
            return QuestionPage(title="The model is stuck", keys=trying)
        case _:
            key = (("/login", "another key"),) if has_key_problem(asked) else ()
            again = (("y", "try again"), ("n", "stop"), *key, ("/model", "another model"))
            return QuestionPage(title="The request failed", keys=again)


def has_key_problem(asked: Asked) -> bool:
    """Whether another key may help."""
    return asked.ask in FAILED_REQUESTS and any(words in asked.text for words in MEANS_BAD_KEY)


def _approval_keys(asked: Asked) -> tuple[tuple[str, str], ...]:
    begin = visible_line(asked.prefix.partition(": ")[0])  # such as `pytest …`
    offered = asked.governance.choices if asked.governance else ()
    return (
        ("y", "yes"),
        ("n", "no"),
        *([("a", "always…")] if asked.rule else []),
        *([("p", f"always {begin}")] if asked.prefix else []),
        *((LETTERS[each], _KEYS[each]) for each in offered),
        ("r", "no, because…"),
    )


def answer_letters(asked: Asked, step: QuestionStep) -> Collection[str]:
    """Letters that answer; any other key is text."""
    match step:
        case QuestionStep.CHOICE:
            count = min(9, len(options_of(asked)))
            return [str(number) for number in range(1, count + 1)]
        case QuestionStep.ANSWER:
            return [key for key, _ in page_of(asked, step).keys if len(key) == 1]
        case _:
            return ("y", "n")


def body_of(asked: Asked, step: QuestionStep, at: int, width: int, theme: Theme) -> list[Piece]:
    """The whole question, the most important part last."""
    return as_pieces(_body(asked, step, at, width, theme))


def _body(
    asked: Asked, step: QuestionStep, at: int, width: int, theme: Theme
) -> list[Text | Piece]:
    muted = theme.fg(theme.muted)
    if step in (QuestionStep.RULE, QuestionStep.PREFIX):
        words = asked.rule if step is QuestionStep.RULE else asked.prefix
        rule = wrapped(Text(_visible(words), theme.fg(theme.text, bold=True)), width)
        return [Text("This will no longer ask:", muted), *rule]
    if asked.governance and (choice := CHOSEN.get(step)):
        return list(choice_lines(asked.governance, choice, width, theme))
    if asked.ask is AskKind.FOLLOWUP or asked.plan:
        return _suggestions(asked, at, width, theme)
    lines = _action(asked, width, theme)
    if asked.governance and asked.governance.targets:
        lines += [*([Text()] if lines else []), *target_lines(asked.governance, width, theme)]
    return lines


def _action(asked: Asked, width: int, theme: Theme) -> list[Text | Piece]:
    muted = theme.fg(theme.muted)
    lines: list[Text | Piece] = []
    if asked.ask is AskKind.COMMAND:
        lines += _command(asked.text, width, theme)
        if asked.cwd:
            lines += wrapped(Text(f"in {visible_line(asked.cwd)}", muted), width)
    elif asked.ask in APPROVALS:
        if asked.diff and _changes_files(asked):
            lines += diff_pieces(approvable(asked.diff), width, theme)
        elif asked.diff:
            words = approvable(asked.diff).expandtabs(TAB)
            lines += text_pieces(words, width, theme.fg(theme.text))
        elif asked.ask is not AskKind.TOOL:
            lines += text_pieces(_visible(asked.text), width, theme.fg(theme.text))
    elif asked.ask is AskKind.AUTO_APPROVAL_MAX_REQ_REACHED:
        lines += text_pieces(harmless(ceiling(asked.text)), width, theme.fg(theme.text))
    elif asked.ask not in FAILED_REQUESTS:  # the conversation ends with the reason
        lines += text_pieces(harmless(asked.text), width, theme.fg(theme.text))
    return lines


def _command(text: str, width: int, theme: Theme) -> Iterator[Text]:
    """Wrapped lines are marked, so that they do not look like separate commands."""
    ink, muted = theme.fg(theme.text, bold=True), theme.fg(theme.muted)
    margin = Text("$ ", muted)
    for line in _visible(_LAST_BLANKS.sub(_mark_blanks, text)).split("\n"):
        yield from indented(wrapped(Text(line, ink), width - 2), margin, Text("↪ ", muted))
        margin = Text("  ")


_LAST_BLANKS = re.compile(r"[ \t]{1,3}$", re.MULTILINE)


def _mark_blanks(found: re.Match[str]) -> str:
    return found[0].replace(" ", "␣").replace("\t", "␉")


def _changes_files(asked: Asked) -> bool:
    """Whether `diff` is a diff: for a sub-task or a mode switch it is plain text."""
    return asked.ask is AskKind.TOOL and is_edit(parse_payload(asked.text))


def _visible(text: str) -> str:
    """Make invisible characters visible."""
    return plainly_visible(text).expandtabs(TAB)


def footing_of(asked: Asked, step: QuestionStep, width: int, theme: Theme) -> list[Text]:
    """Notes that stay visible while the body scrolls."""
    if step in CONFIRMING:
        return []
    lines: list[Text] = []
    if asked.where:
        lines += wrapped(Text(visible_line(asked.where), theme.fg(theme.muted)), width)
    for note in _other_notes(asked):
        words = Text(visible_line(note), theme.fg(theme.warning))
        lines += indented(wrapped(words, width - 2), _bang(theme), Text("  "))
    if asked.governance:
        lines += reason_lines(asked.governance, width, theme)
    return lines


def _other_notes(asked: Asked) -> list[str]:
    """Notes that are not already shown as reasons."""
    coded = {reason.text for reason in asked.governance.reasons} if asked.governance else set()
    return [note for note in asked.notes if note not in coded]


def _suggestions(asked: Asked, at: int, width: int, theme: Theme) -> list[Text | Piece]:
    if asked.plan:
        lines: list[Text | Piece] = [*_plan(asked.plan, width, theme)]
    else:
        lines = [*GrowingMarkdownLines().pieces(followup(asked.text)[0], width, theme)]
    lines.append(Text())
    for number, offered in enumerate(options_of(asked)):
        chosen = number == at
        ink = theme.fg(theme.accent, bold=True) if chosen else theme.fg(theme.text)
        mark = Text(f"{'▸' if chosen else ' '} {number + 1}. ", theme.fg(theme.accent))
        answer = Text(visible_line(offered.answer), ink)
        if offered.mode:
            answer.append(f"  → {visible_line(offered.mode)} mode", theme.fg(theme.warning))
        words = wrapped(answer, width - mark.cell_len)
        lines += indented(words, mark, Text(" " * mark.cell_len))
    return lines


def _plan(plan: str, width: int, theme: Theme) -> Iterator[Text]:
    """The plan as it was written: rendered Markdown hides comments, targets and titles."""
    text = approvable(plan).rstrip("\n").expandtabs(TAB)
    for line in highlight(text, "markdown", theme):
        yield from wrapped(line, width)


LETTERS: dict[Choice, str] = {"task": "t", "expand": "e", "halt": "s"}
_KEYS: dict[Choice, str] = {"task": "this task…", "expand": "add to scope…", "halt": "stop"}
_NO_OBJECTION = ("in_scope", "ignored")


def target_lines(question: IntentQuestion, width: int, theme: Theme) -> Iterator[Text]:
    """The paths an action touches, each with the verdict of the scope."""
    for target in question.targets:
        fine = target.verdict in _NO_OBJECTION
        ink = theme.good if fine else theme.bad
        words = Text.assemble(
            (f"{visible_line(target.op)} ", theme.fg(theme.muted)),
            (
                visible_line(target.path),
                theme.fg(theme.text if fine else theme.bad, bold=not fine),
            ),
            (f"  {_verdict(target)}", theme.fg(ink)),
        )
        mark = Text("✓ " if fine else "✗ ", theme.fg(ink))
        yield from indented(wrapped(words, width - 2), mark, Text("  "))


def _verdict(target: AskedTarget) -> str:
    verdict = visible_line(target.verdict.replace("_", " "))
    real = f"; it is {visible_line(target.real_path)}" if target.real_path else ""
    nearest = f"; nearest: {visible_line(target.nearest)}" if target.nearest else ""
    return f"{verdict}{real}{nearest}"


def reason_lines(question: IntentQuestion, width: int, theme: Theme) -> Iterator[Text]:
    """The reasons with their codes, and the scope of the intent."""
    for reason in question.reasons:
        yield from indented(_reason(reason, width - 2, theme), _bang(theme), Text("  "))
    if question.intent_id:
        yield from indented(_scope_lines(question, width - 2, theme), Text("  "), Text("  "))


def _bang(theme: Theme) -> Text:
    return Text("! ", theme.fg(theme.warning, bold=True))


def _reason(reason: AskedReason, width: int, theme: Theme) -> list[Text]:
    words = Text.assemble(
        (visible_line(reason.code), theme.fg(theme.warning, bold=True)),
        (f" {visible_line(reason.text)}", theme.fg(theme.warning)),
    )
    return wrapped(words, width)


def _scope_lines(question: IntentQuestion, width: int, theme: Theme) -> list[Text]:
    name = f' "{question.intent_name}"' if question.intent_name else ""
    owns = ", ".join(question.scope) or "nothing"
    scope = visible_line(f"Scope of {question.intent_id}{name}: {owns}")
    return wrapped(Text(scope, theme.fg(theme.muted)), width)


def choice_title(question: IntentQuestion, choice: Choice) -> str:
    if choice == "expand":
        return f"Add this to the scope of {visible_line(question.intent_id)}?"
    return "Approve this for the rest of the task?"


def choice_lines(
    question: IntentQuestion, choice: Choice, width: int, theme: Theme
) -> Iterator[Text]:
    """Everything that the choice would allow beyond this call."""
    what, allowed = _allowance(question, choice)
    yield from wrapped(Text(what, theme.fg(theme.muted)), width)
    words = Text(plainly_visible(allowed).expandtabs(TAB), theme.fg(theme.text, bold=True))
    yield from wrapped(words, width)


def _allowance(question: IntentQuestion, choice: Choice) -> tuple[str, str]:
    if choice == "expand":
        owner = visible_line(question.intent_id)
        return f"This is added to the scope of {owner} for every task:", question.pattern
    if question.grant == question.pattern:
        return "Until the task ends, this counts as in scope:", question.grant
    return "Until the task ends, exactly this command is approved:", question.grant
