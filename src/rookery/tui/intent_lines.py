"""What is shown of a question that an intent raises: why, about what, and what a yes that goes
beyond this call would allow."""

from collections.abc import Iterator

from rich.text import Text

from rookery.core.intent_questions import AskedReason, AskedTarget, Choice, IntentQuestion
from rookery.core.text.terminal_text import plainly_visible, visible_line
from rookery.tui.rows.lines import TAB, indented, wrapped
from rookery.tui.theme import Look

LETTERS: dict[Choice, str] = {"task": "t", "expand": "e", "halt": "s"}
_KEYS: dict[Choice, str] = {"task": "this task…", "expand": "add to scope…", "halt": "stop"}
_NO_OBJECTION = ("in_scope", "ignored")


def choice_keys(question: IntentQuestion | None) -> tuple[tuple[str, str], ...]:
    """The keys of what can be said besides yes and no, each with what it does."""
    offered = question.choices if question else ()
    return tuple((LETTERS[each], _KEYS[each]) for each in offered)


def target_lines(question: IntentQuestion, width: int, look: Look) -> Iterator[Text]:
    """What would be touched, and what the scope says to each of it."""
    for target in question.targets:
        fine = target.verdict in _NO_OBJECTION
        ink = look.good if fine else look.bad
        words = Text.assemble(
            (f"{visible_line(target.op)} ", look.ink(look.quiet)),
            (visible_line(target.path), look.ink(look.words if fine else look.bad, bold=not fine)),
            (f"  {_verdict(target)}", look.ink(ink)),
        )
        mark = Text("✓ " if fine else "✗ ", look.ink(ink))
        yield from indented(wrapped(words, width - 2), mark, Text("  "))


def _verdict(target: AskedTarget) -> str:
    told = visible_line(target.verdict.replace("_", " "))
    real = f"; it is {visible_line(target.real_path)}" if target.real_path else ""
    nearest = f"; nearest: {visible_line(target.nearest)}" if target.nearest else ""
    return f"{told}{real}{nearest}"


def reason_lines(question: IntentQuestion, width: int, look: Look) -> Iterator[Text]:
    """Why it is asked, each reason with its code, and what the intent owns."""
    for reason in question.reasons:
        yield from indented(_reason(reason, width - 2, look), _bang(look), Text("  "))
    if question.intent_id:
        yield from indented(_owns(question, width - 2, look), Text("  "), Text("  "))


def _bang(look: Look) -> Text:
    return Text("! ", look.ink(look.careful, bold=True))


def _reason(reason: AskedReason, width: int, look: Look) -> list[Text]:
    words = Text.assemble(
        (visible_line(reason.code), look.ink(look.careful, bold=True)),
        (f" {visible_line(reason.text)}", look.ink(look.careful)),
    )
    return wrapped(words, width)


def _owns(question: IntentQuestion, width: int, look: Look) -> list[Text]:
    name = f' "{question.intent_name}"' if question.intent_name else ""
    owns = ", ".join(question.scope) or "nothing"
    told = visible_line(f"{question.intent_id}{name} owns: {owns}")
    return wrapped(Text(told, look.ink(look.quiet)), width)


def choice_title(question: IntentQuestion, choice: Choice) -> str:
    if choice == "expand":
        return f"Add this to the scope of {visible_line(question.intent_id)}?"
    return "Allow this for the rest of the task?"


def choice_lines(
    question: IntentQuestion, choice: Choice, width: int, look: Look
) -> Iterator[Text]:
    """All that the choice would allow beyond this call."""
    what, allowed = _allowance(question, choice)
    yield from wrapped(Text(what, look.ink(look.quiet)), width)
    words = Text(plainly_visible(allowed).expandtabs(TAB), look.ink(look.words, bold=True))
    yield from wrapped(words, width)


def _allowance(question: IntentQuestion, choice: Choice) -> tuple[str, str]:
    if choice == "expand":
        owner = visible_line(question.intent_id)
        return f"From now on {owner} owns this too, in every task:", question.pattern
    if question.grant == question.pattern:
        return "Until the task is over, this counts as within the scope:", question.grant
    return "Until the task is over, this very command counts as known:", question.grant
