"""What a model is sent about the active intent.

Intents come from the repository and are untrusted, so every value is escaped and cannot close its
element. Specification, scope, constraints and criteria are never truncated; the rest is cut to the
remaining budget.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

from msgspec import Struct

from rookery.core.text.terminal_text import shortened
from rookery.governance.intents.intent import Criterion, Intent
from rookery.governance.intents.leases import Lease
from rookery.governance.ledger.traced import TracedRecord

DEFAULT_CHARS = 12_000
REMINDER_CHARS = 600
MOST_LISTED = 20
MOST_RELATED = 5
MOST_FILES = 5
DIGEST_SHOWN = 12


class ContextTooLarge(ValueError):
    """Raised if the parts that cannot be truncated exceed the budget."""

    def __init__(self, intent_id: str, size: int, budget: int) -> None:
        super().__init__(
            f"The description of {intent_id} has {size} characters; {budget} are "
            "allowed. Shorten its description, constraints or criteria, or raise "
            "governance.context_chars."
        )
        self.size = size


class IntentBackground(Struct, frozen=True, kw_only=True):
    """Optional context about an intent, newest first: earlier changes for it, and other running
    tasks."""

    related: tuple[TracedRecord, ...] = ()
    others: tuple[Lease, ...] = ()
    files_left: int | None = None


NO_BACKGROUND = IntentBackground()


def intent_context(
    intent: Intent,
    *,
    digest: str,
    generated: str,
    background: IntentBackground = NO_BACKGROUND,
    budget: int = DEFAULT_CHARS,
) -> str:
    """The result of selecting an intent. Raises `ContextTooLarge`."""
    head = _tag(
        "intent_context",
        id=intent.id,
        revision=str(intent.revision),
        digest=digest[:DIGEST_SHOWN],
        generated=generated,
    )
    binding = f"{head}\n{_binding(intent)}"
    tail = f"{_limits(intent, background)}</intent_context>"
    size = len(binding) + len(tail)
    if size > budget:
        raise ContextTooLarge(intent.id, size, budget)
    room = budget - size
    for section in (_concurrent_work, _related_work):
        text = section(background, room)
        binding += text
        room -= len(text)
    return binding + tail


def reminder(intent: Intent) -> str:
    """The reminder in every later request, at most 600 characters."""
    start = f'Active intent {_plain(intent.id)} "{shortened(_plain(intent.name), 120)}". Scope: '
    end = ". Anything else is refused or asked about."
    room = REMINDER_CHARS - len(start) - len(end)
    spelled = [scope_text(_plain(each)) for each in intent.owned_scope]
    return start + _join_within(spelled, room) + end


def selectable_intents(intents: Sequence[Intent]) -> str:
    """The list of choices for a model without an active intent."""
    if not intents:
        return "No intent can be selected. Ask the user; never invent an id."
    lines = [f"- {_plain(each.id)}: {_plain(each.name)}" for each in intents[:MOST_LISTED]]
    more = len(intents) - len(lines)
    return "\n".join(
        ["Intents that can be selected:", *lines, *([f"and {more} more"] if more else [])]
    )


def _binding(intent: Intent) -> str:
    positive = [each for each in intent.owned_scope if not each.startswith("!")]
    negative = [each[1:] for each in intent.owned_scope if each.startswith("!")]
    description = _element("description", intent.description) if intent.description else ""
    paths = [_element("path", each) for each in positive]
    excluded = [_element("exclude", each) for each in negative]
    constraints = [
        _element("constraint", each.text, id=each.id or f"C{number}")
        for number, each in enumerate(intent.constraints, start=1)
    ]
    criteria = [
        _criterion(each, each.id or f"A{number}")
        for number, each in enumerate(intent.acceptance_criteria, start=1)
    ]
    return "".join(
        (
            _section("intent_specification", [_element("name", intent.name), description]),
            _section("owned_scope", [*paths, *excluded]),
            _section("constraints", constraints),
            _section("acceptance_criteria", criteria),
        )
    )


def _criterion(criterion: Criterion, its_id: str) -> str:
    if criterion.verify is None:
        return _element("criterion", criterion.text, id=its_id)
    return _element("criterion", criterion.text, id=its_id, check=criterion.verify.command)


def _limits(intent: Intent, background: IntentBackground) -> str:
    attributes: dict[str, str] = {}
    if background.files_left is not None:
        attributes["files_left"] = str(background.files_left)
    if intent.budget.expires_at is not None:
        attributes["expires"] = intent.budget.expires_at.date().isoformat()
    return f"  {_empty('limits', **attributes)}\n" if attributes else ""


def _concurrent_work(background: IntentBackground, room: int) -> str:
    tasks = [
        _empty("task", intent=each.intent_id, scope=", ".join(each.scope))
        for each in background.others
    ]
    return _fit("concurrent_work", tasks, room)


def _related_work(background: IntentBackground, room: int) -> str:
    traces = [
        _empty("trace", id=each.id, at=each.time, tool=each.tool_name, files=_files(each))
        for each in background.related[:MOST_RELATED]
    ]
    return _fit("related_work", traces, room)


def _files(record: TracedRecord) -> str:
    return ", ".join(each.path for each in record.files[:MOST_FILES])


def _fit(name: str, entries: Sequence[str], room: int) -> str:
    """A section with as many of the first entries as fit."""
    while entries:
        section = _section(name, entries)
        if len(section) <= room:
            return section
        entries = entries[:-1]
    return ""


def _section(name: str, entries: Iterable[str]) -> str:
    return f"  <{name}>{''.join(entries)}</{name}>\n"


def _element(name: str, text: str, **attributes: str) -> str:
    return f"{_tag(name, **attributes)}{_text(text)}</{name}>"


def _tag(name: str, **attributes: str) -> str:
    pairs = (f' {key}="{_text(each)}"' for key, each in attributes.items())
    return f"<{name}{''.join(pairs)}>"


def _empty(name: str, **attributes: str) -> str:
    return f"{_tag(name, **attributes)[:-1]}/>"


def _text(text: str) -> str:
    return escape(_plain(text, keep="\n\t"))


def _plain(text: str, keep: str = "") -> str:
    """Remove control and format characters, except those in `keep`."""
    return "".join(
        char
        for char in text
        if char in keep or unicodedata.category(char) not in ("Cc", "Cf", "Cs")
    )


def scope_text(pattern: str) -> str:
    return f"not {pattern[1:]}" if pattern.startswith("!") else pattern


def _join_within(words: Sequence[str], room: int) -> str:
    whole = ", ".join(words)
    if len(whole) <= room:
        return whole
    for kept in range(len(words) - 1, 0, -1):
        text = f"{', '.join(words[:kept])} and {len(words) - kept} more"
        if len(text) <= room:
            return text
    return f"{len(words)} patterns"
