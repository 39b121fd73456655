"""`active_intents.yaml`: read whenever something is about to be changed, so read cheaply.

The bytes are compared with those last read; only others are parsed. A file that cannot be used
may be one that an editor is just saving, so it is read again before anything is refused. `rendered`
and `summary` show its problems in a terminal.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256

import anyio
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.limits import MIB
from rookery.core.refusals import Problem
from rookery.governance.intents.file_nodes import ListNode, MapNode, Node, NodeReader, TextNode
from rookery.governance.intents.intent import (
    OPEN,
    Intent,
    IntentFile,
    IntentStatus,
    Policy,
    expired,
)
from rookery.governance.intents.intent_checks import Read, check_together, unmatched_patterns
from rookery.governance.intents.intent_parts import (
    budget,
    constraints,
    criteria,
    history,
    permissions,
    read_policy,
    related,
    time_text,
    verification,
)
from rookery.governance.layout import Layout
from rookery.governance.scope.name_patterns import PatternError
from rookery.governance.scope.scope_patterns import scope_pattern, whole_workspace
from rookery.governance.scope.scope_verdict import always_protected
from rookery.governance.yaml_nodes import problems_of, yaml_nodes
from rookery.platform.disk import Unreadable, small_file

MOST_INTENTS = 2000
MOST_PATTERNS = 500
LONGEST_NAME = 200

_ID = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)
_USUAL_ID = re.compile(r"[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)*-\d+", re.ASCII)
_TOP_KEYS = ("schema_version", "policy", "active_intents")
_KEYS = {
    *("id", "name", "title", "description", "status", "owned_scope", "constraints"),
    *("acceptance_criteria", "permissions", "budget", "depends_on", "parent", "related"),
    *("revision", "owner", "reviewers", "tags", "priority", "created_at", "updated_at"),
    *("status_history", "last_verification"),
}
_STATUSES = ", ".join(IntentStatus)


def read_intents(
    root: Node,
    reading: NodeReader,
    *,
    now: datetime,
) -> IntentFile:
    policy, listed = _top(root, reading)
    if listed is None:
        return IntentFile(policy=policy, problems=tuple(reading.problems))
    read: list[Read] = []
    for at, node in enumerate(listed.items):
        if not isinstance(node, MapNode):
            reading.note(
                "E207", node, f"active_intents[{at}]", "an intent must have keys", "e.g. id: …"
            )
        elif intent := _intent(node, at, reading, now=now):
            read.append(Read(intent, node))
    check_together(read, reading, most_in_progress=policy.max_in_progress, listed=listed)
    order = sorted(reading.problems, key=lambda each: (each.line, each.column, each.code))
    return IntentFile(
        intents=tuple(each.intent for each in read), policy=policy, problems=tuple(order)
    )


def _top(root: Node, reading: NodeReader) -> tuple[Policy, ListNode | None]:
    if not isinstance(root, MapNode):
        reading.note(
            "E109", root, "", "the top level must have keys", "begin with: active_intents:"
        )
        return Policy(), None
    reading.unknown_keys(root, "", _TOP_KEYS)
    version = root.get("schema_version")
    if version is not None and not (isinstance(version, TextNode) and version.text == "1"):
        reading.note(
            "E112", version, "schema_version", "this version is not supported", "schema_version: 1"
        )
    policy = read_policy(reading, root.get("policy"))
    return policy, _listed(root, reading)


def _listed(root: MapNode, reading: NodeReader) -> ListNode | None:
    listed = root.get("active_intents")
    if not isinstance(listed, ListNode):
        fix = "active_intents: []" if listed is None else "put a dash in front of each intent"
        what = "is missing" if listed is None else "is not a list"
        reading.note("E110", listed or root, "active_intents", f"active_intents {what}", fix)
        return None
    if len(listed.items) > MOST_INTENTS:
        reading.note(
            "E111",
            listed,
            "active_intents",
            f"there are {len(listed.items)} intents",
            f"keep at most {MOST_INTENTS}; move closed ones elsewhere",
        )
        return None
    return listed


def _intent(node: MapNode, at: int, whole: NodeReader, *, now: datetime) -> Intent | None:
    intent_id = _id(node, at, whole)
    if not intent_id:
        return None
    reading = whole.about(intent_id)
    reading.unknown_keys(node, "", _KEYS)
    status = _status(node, reading)
    intent = Intent(
        id=intent_id,
        name=_name(node, reading),
        status=status,
        description=reading.text(node.get("description"), "description"),
        owned_scope=_scope(node, reading, status),
        constraints=constraints(node, reading),
        acceptance_criteria=criteria(node, reading),
        permissions=permissions(node, reading),
        budget=budget(node, reading),
        depends_on=reading.texts(node.get("depends_on"), "depends_on"),
        parent=reading.text(node.get("parent"), "parent"),
        related=related(node, reading),
        revision=reading.number(node.get("revision"), "revision", least=1) or 1,
        owner=reading.text(node.get("owner"), "owner"),
        reviewers=reading.texts(node.get("reviewers"), "reviewers"),
        tags=reading.texts(node.get("tags"), "tags"),
        priority=reading.number(node.get("priority"), "priority", least=-(10**9)),
        created_at=time_text(node, "created_at", reading),
        updated_at=time_text(node, "updated_at", reading),
        status_history=history(node, reading),
        last_verification=verification(node, reading),
    )
    _advise(intent, node, reading, now)
    return intent


def _id(node: MapNode, at: int, reading: NodeReader) -> str:
    its = node.get("id")
    path = f"active_intents[{at}].id"
    if its is None or (isinstance(its, TextNode) and its.is_nothing):
        reading.note("E201", its or node, path, "an intent needs an id", "e.g. id: INT-001")
        return ""
    text = reading.text(its, path)
    if text and not _ID.fullmatch(text):
        reading.about(text).note(
            "E201",
            its,
            "id",
            "an id is a letter, then letters, digits, _ . or -; at most 64 characters",
            "e.g. id: INT-001",
        )
    elif text and not _USUAL_ID.fullmatch(text):
        reading.about(text).note(
            "W302", its, "id", f"{text} does not have the usual form PREFIX-NNN"
        )
    return text


def _name(node: MapNode, reading: NodeReader) -> str:
    given, alias = node.get("name"), node.entry("title")
    if alias:
        reading.note("W306", alias.key, "title", "title is the old key for name")
    named = given if given is not None or alias is None else alias.value
    name = reading.line_of_text(named, "name", longest=LONGEST_NAME)
    if not name and (named is None or isinstance(named, TextNode)):
        reading.note("E203", named or node, "name", "an intent needs a name", "e.g. name: Limits")
    return name


def _status(node: MapNode, reading: NodeReader) -> IntentStatus:
    its = node.get("status")
    if its is None:
        reading.note("E204", node, "status", "an intent needs a status", f"one of {_STATUSES}")
        return IntentStatus.PENDING
    text = reading.text(its, "status")
    canonical = text.strip().upper().replace("-", "_").replace(" ", "_")
    if canonical not in IntentStatus.__members__:
        if isinstance(its, TextNode):
            reading.note("E204", its, "status", "unknown status", f"one of {_STATUSES}")
        return IntentStatus.PENDING
    if canonical != text:
        reading.note("W307", its, "status", f"{text} is read as {canonical}")
    return IntentStatus[canonical]


def _scope(node: MapNode, reading: NodeReader, status: IntentStatus) -> tuple[str, ...]:
    its = node.get("owned_scope")
    patterns: list[str] = []
    for at, each in enumerate(reading.items(its, "owned_scope", most=MOST_PATTERNS)):
        path = f"owned_scope[{at}]"
        text = reading.text(each, path)
        if isinstance(each, TextNode) and _pattern_is_good(text, each, path, reading):
            patterns.append(text)
    positive = [each for each in patterns if not each.startswith("!")]
    empty = its is None or isinstance(its, ListNode | TextNode)
    if its is None or (status is IntentStatus.IN_PROGRESS and not positive and empty):
        what = "is missing" if its is None else "grants nothing"
        reading.note(
            "E205", its or node, "owned_scope", f"owned_scope {what}", 'e.g. - "src/auth/**"'
        )
    return tuple(patterns)


def _pattern_is_good(text: str, node: TextNode, path: str, reading: NodeReader) -> bool:
    try:
        pattern = scope_pattern(text)
    except PatternError as error:
        reading.note("E206", node, path, str(error), error.fix)
        return False
    if not reading.alternatives.take(len(pattern.ways)):
        reading.note(
            "E208", node, path, "the braces of this file expand to too many patterns", "use fewer"
        )
        return False
    if pattern.negated:
        return True
    if whole_workspace(text):
        reading.note("W303", node, path, f'"{text}" covers the whole workspace')
    elif always_protected(text):
        reading.note("W312", node, path, f'"{text}" has no effect: it is protected')
    return True


def _advise(intent: Intent, node: MapNode, reading: NodeReader, now: datetime) -> None:
    """What is allowed, and probably not meant."""
    if intent.status not in OPEN:
        return
    if not intent.acceptance_criteria:
        reading.note("W308", node, "acceptance_criteria", "there are no acceptance criteria")
    elif not any(each.verify for each in intent.acceptance_criteria):
        at = node.get("acceptance_criteria") or node
        reading.note("W309", at, "acceptance_criteria", "no criterion is machine-checked")
    if intent.status is IntentStatus.IN_PROGRESS and expired(intent, now):
        reading.note("W310", node.get("budget") or node, "budget.expires_at", "it has expired")


LARGEST = MIB
LOOKS = 3
LOOK_EVERY = 0.1
"""Seconds. Three of them are the time an editor has to finish saving."""


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


def _like_half(found: IntentText, active: str, before: IntentText | None) -> bool:
    if not found.there or not found.file.usable:
        return True
    if active and (found.file.find(active) is None or active in found.file.broken):
        return True
    known = before.data if before else b""
    return known.startswith(found.data) or (
        known.endswith(b"\n") and not found.data.endswith(b"\n")
    )
