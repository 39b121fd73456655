"""What is wrong with intents only together: ids twice, cycles, scopes that do not fit.
And how problems are shown."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from rookery.core.refusals import Problem, Severity
from rookery.governance.intents.file_nodes import Allowance, ListNode, MapNode, Node, NodeReader
from rookery.governance.intents.intent import Intent, IntentFile, IntentStatus
from rookery.governance.scope.scope_patterns import inside, literal_folder, overlaps, scope_pattern

MOST_COMPARISONS = 50_000
"""Of patterns with each other: a stranger's file may ask for more than anybody waits for."""


class Read(Struct, frozen=True):
    """An intent, and where it stands."""

    intent: Intent
    node: MapNode

    def at(self, key: str) -> Node:
        return self.node.get(key) or self.node


def check_together(
    read: Sequence[Read], reading: NodeReader, *, most_in_progress: int, listed: ListNode
) -> None:
    by_id = _by_id(read, reading)
    _check_dependencies(read, by_id, reading)
    _check_parents(read, by_id, reading)
    running = [each for each in read if each.intent.status is IntentStatus.IN_PROGRESS]
    for one, other, pattern in _overlapping(running):
        reading.about(one.intent.id).note(
            "W304",
            one.at("owned_scope"),
            "owned_scope",
            f"{one.intent.id} and {other.intent.id} overlap at {pattern}",
        )
    if len(running) > most_in_progress:
        reading.note(
            "W313",
            listed,
            "active_intents",
            f"{len(running)} intents are in progress; the limit is {most_in_progress}",
        )


def unmatched_patterns(
    file: IntentFile, root: MapNode, reading: NodeReader, matches: Callable[[str], bool]
) -> tuple[Problem, ...]:
    """Patterns of open intents for which there is no file yet. `matches` looks for one."""
    listed = root.get("active_intents")
    nodes = listed.items if isinstance(listed, ListNode) else ()
    for node in nodes:
        its_id = reading.text(node.get("id"), "id") if isinstance(node, MapNode) else ""
        intent = file.find(its_id) if its_id else None
        if intent is None or intent.status is not IntentStatus.IN_PROGRESS:
            continue
        scope = node.get("owned_scope") if isinstance(node, MapNode) else None
        for at, each in enumerate(scope.items if isinstance(scope, ListNode) else ()):
            text = reading.text(each, "owned_scope")
            if text in intent.owned_scope and not text.startswith("!") and not matches(text):
                reading.about(intent.id).note(
                    "W305", each, f"owned_scope[{at}]", f'"{text}" matches no file yet'
                )
    return tuple(reading.problems)


def changed_without_revision(
    file: str, intent: Intent, *, digest: str, last_digest: str, last_revision: int
) -> Problem | None:
    """An intent that means something else than when it was last used, under the same number."""
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


def _by_id(read: Sequence[Read], reading: NodeReader) -> dict[str, Read]:
    by_id: dict[str, Read] = {}
    for each in read:
        intent_id = each.intent.id
        first = by_id.setdefault(intent_id.lower(), each)
        if first is not each:
            for one in dict.fromkeys((first.intent.id, intent_id)):
                reading.about(one).note(
                    "E202",
                    each.at("id"),
                    "id",
                    f"{intent_id} is also the id of an intent in line {first.node.line}",
                    "give one of them another id",
                )
    return by_id


def _check_dependencies(
    read: Sequence[Read], by_id: Mapping[str, Read], reading: NodeReader
) -> None:
    graph = {
        each.intent.id.lower(): [one.lower() for one in each.intent.depends_on] for each in read
    }
    for each in read:
        about = reading.about(each.intent.id)
        listed = each.node.get("depends_on")
        nodes = listed.items if isinstance(listed, ListNode) else ()
        for at, (name, node) in enumerate(zip(each.intent.depends_on, nodes, strict=False)):
            if name and name.lower() not in by_id:
                about.note(
                    "E209", node, f"depends_on[{at}]", f"no such intent: {name}", "name an intent"
                )
    for cycle in _cycles(graph):
        said = " -> ".join(by_id[one].intent.id for one in (*cycle, cycle[0]))
        for one in cycle:
            its = by_id[one]
            reading.about(its.intent.id).note(
                "E210",
                its.at("depends_on"),
                "depends_on",
                f"these depend on each other: {said}",
                "remove one of the dependencies",
            )


def _check_parents(read: Sequence[Read], by_id: Mapping[str, Read], reading: NodeReader) -> None:
    graph = {
        each.intent.id.lower(): [each.intent.parent.lower()] for each in read if each.intent.parent
    }
    cyclic = {one for cycle in _cycles(graph) for one in cycle}
    comparisons = Allowance(MOST_COMPARISONS)
    for each in read:
        if not each.intent.parent:
            continue
        about, at = reading.about(each.intent.id), each.at("parent")
        parent = by_id.get(each.intent.parent.lower())
        if parent is None:
            about.note(
                "E211", at, "parent", f"no such intent: {each.intent.parent}", "name an intent"
            )
        elif each.intent.id.lower() in cyclic:
            what = f"{each.intent.id} is its own ancestor"
            about.note("E211", at, "parent", what, "remove one of the parents")
        else:
            _check_scope_of(each, parent, about, comparisons)


def _check_scope_of(child: Read, parent: Read, about: NodeReader, comparisons: Allowance) -> None:
    mine, its = child.intent.owned_scope, parent.intent.owned_scope
    if not comparisons.take(_ways(mine) * _ways(its)):
        what = "there are too many patterns to compare with its parent's"
    elif not inside(mine, its):
        what = f"it goes beyond the scope of {parent.intent.id}"
    else:
        return
    fix = f"stay inside {', '.join(its[:5])}"
    about.note("E212", child.at("owned_scope"), "owned_scope", what, fix)


def _ways(patterns: Sequence[str]) -> int:
    return sum(len(scope_pattern(text).ways) for text in patterns)


def _cycles(graph: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """One cycle for each group of names that lead to each other."""
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


def _overlapping(running: Sequence[Read]) -> Iterator[tuple[Read, Read, str]]:
    """Each intent that shares something with an earlier one, with the first such, and where.

    Patterns can meet only if of the folders they begin with one lies in the other."""
    by_folder: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    by_any_above: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    comparisons = Allowance(MOST_COMPARISONS)
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
    """The folder that each granting pattern begins with."""
    for text in intent.owned_scope:
        if not text.startswith("!"):
            for folder in {literal_folder(way) for way in scope_pattern(text).ways}:
                yield folder, text


def _above(folder: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [folder[:depth] for depth in range(len(folder))]


def _overlap(one: Read, other: Read, mine: str, its: str) -> bool:
    without = [
        text
        for text in (*one.intent.owned_scope, *other.intent.owned_scope)
        if text.startswith("!")
    ]
    return overlaps([mine, *without], [its, *without])


def rendered(problem: Problem) -> str:
    """The place, the line with a mark under what is meant, and a way out. A warning needs no
    mark: its message names what it is about."""
    place = f"{problem.file}:{problem.line}:{problem.column}" if problem.line else problem.file
    element = " ".join(filter(None, (problem.intent_id, problem.path)))
    head = f"{place}  {problem.severity} {problem.code}  {element}".rstrip()
    if problem.severity is Severity.WARNING or not problem.text:
        lines = [head, f"    {problem.message}"]
    else:
        lines = [head, f"    {problem.text.strip()}", f"    {_mark(problem)} {problem.message}"]
    return "\n".join([*lines, *([f"  fix: {problem.fix}"] if problem.fix else [])])


def summary(file: IntentFile, problems: Sequence[Problem] | None = None) -> str:
    """How many problems there are, and which intents they leave usable. `problems` if more is
    known than reading the file told."""
    problems = file.problems if problems is None else problems
    errors = sum(each.severity is Severity.ERROR for each in problems)
    warnings = len(problems) - errors
    if not problems:
        return "No problems."
    counted = f"{_count(errors, 'error')}, {_count(warnings, 'warning')}."
    if not file.usable:
        return f"{counted} No intent can be selected until the file is fixed."
    broken = [each.id for each in file.intents if each.id in file.broken]
    if not broken:
        return counted
    good = [each.id for each in file.intents if each.id not in file.broken]
    stays = f"{_in_words(good)} {'stays' if len(good) == 1 else 'stay'} usable; " if good else ""
    return f"{counted} {stays}{_in_words(broken)} cannot be selected."


def _mark(problem: Problem) -> str:
    indent = len(problem.text) - len(problem.text.lstrip())
    at = max(0, problem.column - 1)
    inside_quotes = problem.text[at : at + 1] in ("'", '"')
    return " " * max(0, at - indent + inside_quotes) + "^"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _in_words(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
