"""Checks across intents (duplicate ids, cycles, overlapping scopes) and the output of problems."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from rookery.core.refusals import Problem, Severity
from rookery.core.text.terminal_text import counted
from rookery.governance.intents.file_nodes import ListNode, MapNode, Node, NodeReader, WorkLimit
from rookery.governance.intents.intent import Intent, IntentFile, IntentStatus
from rookery.governance.scope.scope_patterns import (
    literal_folder,
    may_be_within,
    overlaps,
    scope_pattern,
)

MOST_COMPARISONS = 50_000
"""Most comparisons between patterns, so that an untrusted file cannot take up much time."""


class IntentEntry(Struct, frozen=True):
    """An intent and its node in the file."""

    intent: Intent
    node: MapNode

    def at(self, key: str) -> Node:
        return self.node.get(key) or self.node


def check_across(
    entries: Sequence[IntentEntry], reader: NodeReader, *, most_in_progress: int, listed: ListNode
) -> None:
    by_id = _by_id(entries, reader)
    _check_dependencies(entries, by_id, reader)
    _check_parents(entries, by_id, reader)
    running = [each for each in entries if each.intent.status is IntentStatus.IN_PROGRESS]
    for one, other, pattern in _overlapping(running):
        reader.for_intent(one.intent.id).note(
            "W304",
            one.at("owned_scope"),
            "owned_scope",
            f"{one.intent.id} and {other.intent.id} overlap at {pattern}",
        )
    if len(running) > most_in_progress:
        reader.note(
            "W313",
            listed,
            "active_intents",
            f"{len(running)} intents are in progress; the limit is {most_in_progress}",
        )


def unmatched_patterns(
    file: IntentFile, root: MapNode, reader: NodeReader, matches: Callable[[str], bool]
) -> tuple[Problem, ...]:
    """Warn about patterns of intents in progress that match no file. `matches` looks for one."""
    listed = root.get("active_intents")
    nodes = listed.items if isinstance(listed, ListNode) else ()
    for node in nodes:
        its_id = reader.text(node.get("id"), "id") if isinstance(node, MapNode) else ""
        intent = file.find(its_id) if its_id else None
        if intent is None or intent.status is not IntentStatus.IN_PROGRESS:
            continue
        scope = node.get("owned_scope") if isinstance(node, MapNode) else None
        for at, each in enumerate(scope.items if isinstance(scope, ListNode) else ()):
            text = reader.text(each, "owned_scope")
            if text in intent.owned_scope and not text.startswith("!") and not matches(text):
                reader.for_intent(intent.id).note(
                    "W305", each, f"owned_scope[{at}]", f'"{text}" matches no file yet'
                )
    return tuple(reader.problems)


def changed_without_revision(
    file: str, intent: Intent, *, digest: str, last_digest: str, last_revision: int
) -> Problem | None:
    """Warn if an intent's definition changed since its last use but its revision did not."""
    if digest == last_digest or intent.revision > last_revision:
        return None
    return Problem(
        file=file,
        code="W311",
        intent_id=intent.id,
        path="revision",
        message="its definition changed since it was last used, and its revision did not",
        fix=f"write revision: {last_revision + 1}",
    )


def _by_id(entries: Sequence[IntentEntry], reader: NodeReader) -> dict[str, IntentEntry]:
    by_id: dict[str, IntentEntry] = {}
    for each in entries:
        intent_id = each.intent.id
        first = by_id.setdefault(intent_id.lower(), each)
        if first is not each:
            for one in dict.fromkeys((first.intent.id, intent_id)):
                reader.for_intent(one).note(
                    "E202",
                    each.at("id"),
                    "id",
                    f"{intent_id} is also the id of an intent in line {first.node.line}",
                    "give one of them another id",
                )
    return by_id


def _check_dependencies(
    entries: Sequence[IntentEntry], by_id: Mapping[str, IntentEntry], reader: NodeReader
) -> None:
    graph = {
        each.intent.id.lower(): [one.lower() for one in each.intent.depends_on] for each in entries
    }
    for each in entries:
        own_reader = reader.for_intent(each.intent.id)
        listed = each.node.get("depends_on")
        nodes = listed.items if isinstance(listed, ListNode) else ()
        for at, (name, node) in enumerate(zip(each.intent.depends_on, nodes, strict=False)):
            if name and name.lower() not in by_id:
                own_reader.note(
                    "E209", node, f"depends_on[{at}]", f"no such intent: {name}", "name an intent"
                )
    for cycle in _cycles(graph):
        cycle_text = " -> ".join(by_id[one].intent.id for one in (*cycle, cycle[0]))
        for one in cycle:
            its = by_id[one]
            reader.for_intent(its.intent.id).note(
                "E210",
                its.at("depends_on"),
                "depends_on",
                f"these depend on each other: {cycle_text}",
                "remove one of the dependencies",
            )


def _check_parents(
    entries: Sequence[IntentEntry], by_id: Mapping[str, IntentEntry], reader: NodeReader
) -> None:
    graph = {
        each.intent.id.lower(): [each.intent.parent.lower()]
        for each in entries
        if each.intent.parent
    }
    cyclic = {one for cycle in _cycles(graph) for one in cycle}
    comparisons = WorkLimit(MOST_COMPARISONS)
    for each in entries:
        if not each.intent.parent:
            continue
        own_reader, at = reader.for_intent(each.intent.id), each.at("parent")
        parent = by_id.get(each.intent.parent.lower())
        if parent is None:
            own_reader.note(
                "E211", at, "parent", f"no such intent: {each.intent.parent}", "name an intent"
            )
        elif each.intent.id.lower() in cyclic:
            what = f"{each.intent.id} is its own ancestor"
            own_reader.note("E211", at, "parent", what, "remove one of the parents")
        else:
            _check_scope_of(each, parent, own_reader, comparisons)


def _check_scope_of(
    child: IntentEntry, parent: IntentEntry, own_reader: NodeReader, comparisons: WorkLimit
) -> None:
    mine, its = child.intent.owned_scope, parent.intent.owned_scope
    if not comparisons.take(_count_variants(mine) * _count_variants(its)):
        what = "there are too many patterns to compare with its parent's"
    elif not may_be_within(mine, its):
        what = f"it goes beyond the scope of {parent.intent.id}"
    else:
        return
    fix = f"stay inside {', '.join(its[:5])}"
    own_reader.note("E212", child.at("owned_scope"), "owned_scope", what, fix)


def _count_variants(patterns: Sequence[str]) -> int:
    return sum(len(scope_pattern(text).variants) for text in patterns)


def _cycles(graph: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """One cycle for each group of names that refer to each other."""
    found: list[list[str]] = []
    done: set[str] = set()
    for start in graph:
        way: dict[str, Iterator[str]] = {}
        name: str | None = start if start not in done else None
        while name is not None or way:
            if name is not None:
                way[name] = iter(graph.get(name, ()))
            at = next(reversed(way))
            name = next(way[at], None)
            if name is None:
                done.add(at)
                del way[at]
            elif name in way:
                names = list(way)
                found.append(names[names.index(name) :])
                name = None
            elif name in done or name not in graph:
                name = None
    return found


def _overlapping(
    running: Sequence[IntentEntry],
) -> Iterator[tuple[IntentEntry, IntentEntry, str]]:
    """Intents that overlap with an earlier one: the first such intent, this one, and the pattern.

    Two patterns can overlap only if the literal folder of one contains that of the other.
    """
    by_folder: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    by_any_above: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    comparisons = WorkLimit(MOST_COMPARISONS)
    for number, each in enumerate(running):
        places = list(_places(each.intent))
        for folder, text in places:
            above = (one for up in _above(folder) for one in by_folder.get(up, ()))
            near = [*by_any_above.get(folder, ()), *above]
            if not comparisons.take(len(near)):
                return
            met = (other for other, its in near if _overlap(running[other], each, its, text))
            if (first := next(met, None)) is not None:
                yield running[first], each, text
                break
        for folder, text in places:
            by_folder.setdefault(folder, []).append((number, text))
            for up in (*_above(folder), folder):
                by_any_above.setdefault(up, []).append((number, text))


def _places(intent: Intent) -> Iterator[tuple[tuple[str, ...], str]]:
    """The literal folders that the granting patterns start with."""
    for text in intent.owned_scope:
        if not text.startswith("!"):
            for folder in {literal_folder(way) for way in scope_pattern(text).variants}:
                yield folder, text


def _above(folder: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [folder[:depth] for depth in range(len(folder))]


def _overlap(one: IntentEntry, other: IntentEntry, mine: str, its: str) -> bool:
    without = [
        text
        for text in (*one.intent.owned_scope, *other.intent.owned_scope)
        if text.startswith("!")
    ]
    return overlaps([mine, *without], [its, *without])


def render(problem: Problem) -> str:
    """The location, the line with a mark below the error, and the fix. Warnings have no mark,
    because their message names the value."""
    place = f"{problem.file}:{problem.line}:{problem.column}" if problem.line else problem.file
    element = " ".join(filter(None, (problem.intent_id, problem.path)))
    head = f"{place}  {problem.severity} {problem.code}  {element}".rstrip()
    if problem.severity is Severity.WARNING or not problem.text:
        lines = [head, f"    {problem.message}"]
    else:
        lines = [head, f"    {problem.text.strip()}", f"    {_mark(problem)} {problem.message}"]
    return "\n".join([*lines, *([f"  fix: {problem.fix}"] if problem.fix else [])])


def summary(file: IntentFile, problems: Sequence[Problem] | None = None) -> str:
    """Count problems and name the usable intents. `problems` may be more than the file's."""
    problems = file.problems if problems is None else problems
    errors = sum(each.severity is Severity.ERROR for each in problems)
    warnings = len(problems) - errors
    if not problems:
        return "No problems."
    found = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}."
    if not file.usable:
        return f"{found} No intent can be selected until the file is fixed."
    broken = [each.id for each in file.intents if each.id in file.broken]
    if not broken:
        return found
    good = [each.id for each in file.intents if each.id not in file.broken]
    stays = f"{_join_names(good)} {'stays' if len(good) == 1 else 'stay'} usable; " if good else ""
    return f"{found} {stays}{_join_names(broken)} cannot be selected."


def _mark(problem: Problem) -> str:
    indent = len(problem.text) - len(problem.text.lstrip())
    at = max(0, problem.column - 1)
    inside_quotes = problem.text[at : at + 1] in ("'", '"')
    return " " * max(0, at - indent + inside_quotes) + "^"


def _join_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
