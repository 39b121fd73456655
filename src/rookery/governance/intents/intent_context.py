"""What a model is told about the intent it works under.

Intents are written by whoever wrote the repository, so every value is escaped: a name cannot end
the block it stands in. What binds the model (specification, scope, constraints, criteria) is never
cut; what merely helps it is cut to the room that is left.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

from msgspec import Struct

from rookery.governance.intents.intent import Constraint, Criterion, Intent

DEFAULT_CHARS = 12_000
REMINDER_CHARS = 600
MOST_LISTED = 20
MOST_RELATED = 5
DIGEST_SHOWN = 12


class ContextTooLarge(ValueError):
    """What must not be cut does not fit by itself."""

    def __init__(self, intent_id: str, size: int, budget: int) -> None:
        super().__init__(
            f"The description of {intent_id} has {size} characters; {budget} are "
            "allowed. Shorten its description, constraints or criteria, or raise "
            "governance.context_chars."
        )
        self.size = size


class TraceLine(Struct, frozen=True, kw_only=True):
    """An earlier change made for the same intent."""

    id: str
    at: str
    tool: str
    files: tuple[str, ...] = ()


class OtherWork(Struct, frozen=True, kw_only=True):
    """A task that runs at the same time."""

    intent_id: str
    scope: tuple[str, ...]


class IntentSurroundings(Struct, frozen=True, kw_only=True):
    """What helps, newest first where there is an order."""

    related: tuple[TraceLine, ...] = ()
    others: tuple[OtherWork, ...] = ()
    files_left: int | None = None


ALONE = IntentSurroundings()


def intent_context(
    intent: Intent,
    *,
    digest: str,
    generated: str,
    around: IntentSurroundings = ALONE,
    budget: int = DEFAULT_CHARS,
) -> str:
    """The block a selection answers with. Raises `ContextTooLarge`."""
    head = _tag(
        "intent_context",
        id=intent.id,
        revision=str(intent.revision),
        digest=digest[:DIGEST_SHOWN],
        generated=generated,
    )
    binding = f"{head}\n{_binding(intent)}"
    tail = f"{_limits(intent, around)}</intent_context>"
    size = len(binding) + len(tail)
    if size > budget:
        raise ContextTooLarge(intent.id, size, budget)
    room = budget - size
    for section in (_concurrent_work, _related_work):
        said = section(around, room)
        binding += said
        room -= len(said)
    return binding + tail


def reminder(intent: Intent) -> str:
    """What every later turn carries: at most 600 characters."""
    start = f'Active intent {_plain(intent.id)} "{_shortened(_plain(intent.name), 120)}". Scope: '
    end = ". Anything else is refused or asked about."
    room = REMINDER_CHARS - len(start) - len(end)
    spelled = [_scope_word(_plain(each)) for each in intent.owned_scope]
    return start + _listed(spelled, room) + end


def selectable_intents(intents: Sequence[Intent]) -> str:
    """The list a model picks from while nothing is selected."""
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
    constraints = map(_constraint, intent.constraints, _ids(intent.constraints, "C"))
    criteria = map(_criterion, intent.acceptance_criteria, _ids(intent.acceptance_criteria, "A"))
    return "".join(
        (
            _section("intent_specification", [_element("name", intent.name), description]),
            _section("owned_scope", [*paths, *excluded]),
            _section("constraints", constraints),
            _section("acceptance_criteria", criteria),
        )
    )


def _ids(entries: Sequence[Constraint | Criterion], letter: str) -> list[str]:
    return [each.id or f"{letter}{number}" for number, each in enumerate(entries, start=1)]


def _constraint(constraint: Constraint, its_id: str) -> str:
    return _element("constraint", constraint.text, id=its_id)


def _criterion(criterion: Criterion, its_id: str) -> str:
    if criterion.verify is None:
        return _element("criterion", criterion.text, id=its_id)
    return _element("criterion", criterion.text, id=its_id, check=criterion.verify.command)


def _limits(intent: Intent, around: IntentSurroundings) -> str:
    said: dict[str, str] = {}
    if around.files_left is not None:
        said["files_left"] = str(around.files_left)
    if intent.budget.expires_at is not None:
        said["expires"] = intent.budget.expires_at.date().isoformat()
    return f"  {_empty('limits', **said)}\n" if said else ""


def _concurrent_work(around: IntentSurroundings, room: int) -> str:
    tasks = [
        _empty("task", intent=each.intent_id, scope=", ".join(each.scope)) for each in around.others
    ]
    return _fitting("concurrent_work", tasks, room)


def _related_work(around: IntentSurroundings, room: int) -> str:
    traces = [
        _empty("trace", id=each.id, at=each.at, tool=each.tool, files=", ".join(each.files))
        for each in around.related[:MOST_RELATED]
    ]
    return _fitting("related_work", traces, room)


def _fitting(name: str, entries: Sequence[str], room: int) -> str:
    """As many of the entries, from the first, as there is room for."""
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
    said = (f' {key}="{_text(each)}"' for key, each in attributes.items())
    return f"<{name}{''.join(said)}>"


def _empty(name: str, **attributes: str) -> str:
    return f"{_tag(name, **attributes)[:-1]}/>"


def _text(text: str) -> str:
    return escape(_plain(text, keep="\n\t"))


def _plain(text: str, keep: str = "") -> str:
    """Without characters that control something, seen or unseen."""
    return "".join(
        sign
        for sign in text
        if sign in keep or unicodedata.category(sign) not in ("Cc", "Cf", "Cs")
    )


def _scope_word(pattern: str) -> str:
    return f"not {pattern[1:]}" if pattern.startswith("!") else pattern


def _listed(words: Sequence[str], room: int) -> str:
    whole = ", ".join(words)
    if len(whole) <= room:
        return whole
    for kept in range(len(words) - 1, 0, -1):
        said = f"{', '.join(words[:kept])} and {len(words) - kept} more"
        if len(said) <= room:
            return said
    return f"{len(words)} patterns"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
