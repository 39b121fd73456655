"""`active_intents.yaml`: read whenever something is about to be changed, so read cheaply.

The bytes are compared with those last read; only others are parsed. A file that cannot be used
may be one that an editor is just saving, so it is read again before anything is refused. `rendered`
and `summary` show its problems in a terminal.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256

import anyio
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.findings import Problem, Severity
from rookery.core.limits import MIB
from rookery.governance.intents.file_nodes import MapNode, NodeReader
from rookery.governance.intents.intent import IntentFile
from rookery.governance.intents.intent_checks import unmatched_patterns
from rookery.governance.intents.intent_reader import read_intents
from rookery.governance.layout import Layout
from rookery.governance.yaml_nodes import problems_of, yaml_nodes
from rookery.platform.disk import Unreadable, small_file

LARGEST = MIB
LOOKS = 3
LOOK_EVERY = 0.1
"""Seconds. Three of them are the time an editor has to finish saving."""
_QUOTES = ("'", '"')


class IntentText(Struct, frozen=True, kw_only=True):
    """A file as it was read. Without `there` it is missing; `data` is what decisions are based on;
    `root` is None where the text could not be taken apart."""

    file: IntentFile
    there: bool = True
    data: bytes = b""
    root: MapNode | None = None

    @property
    def sha256(self) -> str:
        return sha256(self.data).hexdigest()


MISSING = IntentText(file=IntentFile(), there=False)


class IntentReader:
    """Of one governance root."""

    def __init__(
        self,
        layout: Layout,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.layout = layout
        self._name = layout.shown(layout.intent_file)
        self._now = now
        self._last: IntentText | None = None
        self._settled: IntentText | None = None

    def read(self) -> IntentText:
        """What is there at this moment."""
        try:
            data = small_file(self.layout.intent_file, self.layout.workspace, largest=LARGEST)
        except FileNotFoundError:
            return MISSING
        except Unreadable as error:
            problem = Problem(file=self._name, code=error.code, message=str(error))
            return IntentText(file=IntentFile(problems=(problem,)))
        if self._last is None or self._last.data != data:
            self._last = parsed(data, self._name, now=self._now())
        return self._last

    async def settled(self, active: str = "") -> IntentText:
        """The same, but a file that looks like half of one is looked at again for as long as an
        editor saves: it cannot be used, has lost the active intent, or ends too soon. What stayed
        so is not waited for a second time."""
        for _ in range(LOOKS):
            found = self.read()
            if found == self._settled or not _like_half(found, active, self._settled):
                self._settled = found
                return found
            await anyio.sleep(LOOK_EVERY)
        self._settled = self.read()
        return self._settled

    def with_unmatched(self, found: IntentText, matches: Callable[[str], bool]) -> IntentFile:
        """The same file, with a warning for every pattern that no file matches."""
        if found.root is None:
            return found.file
        reading = NodeReader(self._name, found.data.decode("utf-8-sig").split("\n"))
        more = unmatched_patterns(found.file, found.root, reading, matches)
        order = sorted((*found.file.problems, *more), key=lambda each: (each.line, each.column))
        return replace(found.file, problems=tuple(order))


def parsed(data: bytes, name: str, *, now: datetime) -> IntentText:
    """What the bytes of an intent file say."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = Problem(
            file=name,
            code="E101",
            line=data.count(b"\n", 0, error.start) + 1,
            column=error.start - data.rfind(b"\n", 0, error.start),
            message="it is not UTF-8",
            fix="save it as UTF-8",
        )
        return IntentText(file=IntentFile(problems=(problem,)), data=data)
    root, faults = yaml_nodes(text)
    if root is None:
        problems = problems_of(name, text, faults)
        return IntentText(file=IntentFile(problems=problems), data=data)
    file = read_intents(root, NodeReader(name, text.split("\n")), now=now)
    return IntentText(file=file, data=data, root=root if isinstance(root, MapNode) else None)


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
        return f"{counted} No intent can be selected until the file is mended."
    broken = [each.id for each in file.intents if each.id in file.broken]
    if not broken:
        return counted
    good = [each.id for each in file.intents if each.id not in file.broken]
    stays = f"{_listed(good)} {'stays' if len(good) == 1 else 'stay'} usable; " if good else ""
    return f"{counted} {stays}{_listed(broken)} cannot be selected."


def _like_half(found: IntentText, active: str, before: IntentText | None) -> bool:
    if not found.there or not found.file.usable:
        return True
    if active and (found.file.find(active) is None or active in found.file.broken):
        return True
    known = before.data if before else b""
    return known.startswith(found.data) or (
        known.endswith(b"\n") and not found.data.endswith(b"\n")
    )


def _mark(problem: Problem) -> str:
    indent = len(problem.text) - len(problem.text.lstrip())
    at = max(0, problem.column - 1)
    inside_quotes = problem.text[at : at + 1] in _QUOTES
    return " " * max(0, at - indent + inside_quotes) + "^"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
