"""Reading `active_intents.yaml`.

The file is read before every change, so it is parsed only if its bytes differ from the last read.
An invalid file may be one that an editor is still saving, so it is read again before anything is
refused.
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
from rookery.governance.intents.intent_checks import IntentEntry, check_across, unmatched_patterns
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
from rookery.governance.scope.scope_patterns import covers_workspace, scope_pattern
from rookery.governance.scope.scope_verdict import always_protected
from rookery.governance.yaml_nodes import yaml_nodes
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
    reader: NodeReader,
    *,
    now: datetime,
) -> IntentFile:
    policy, listed = _top(root, reader)
    if listed is None:
        return IntentFile(policy=policy, problems=tuple(reader.problems))
    read: list[IntentEntry] = []
    for at, node in enumerate(listed.items):
        if not isinstance(node, MapNode):
            reader.note(
                "E207", node, f"active_intents[{at}]", "an intent must have keys", "e.g. id: …"
            )
        elif intent := _intent(node, at, reader, now=now):
            read.append(IntentEntry(intent, node))
    check_across(read, reader, most_in_progress=policy.max_in_progress, listed=listed)
    order = sorted(reader.problems, key=lambda each: (each.line, each.column, each.code))
    return IntentFile(
        intents=tuple(each.intent for each in read), policy=policy, problems=tuple(order)
    )


def _top(root: Node, reader: NodeReader) -> tuple[Policy, ListNode | None]:
    if not isinstance(root, MapNode):
        reader.note("E109", root, "", "the top level must have keys", "begin with: active_intents:")
        return Policy(), None
    reader.unknown_keys(root, "", _TOP_KEYS)
    version = root.get("schema_version")
    if version is not None and not (isinstance(version, TextNode) and version.text == "1"):
        reader.note(
            "E112", version, "schema_version", "this version is not supported", "schema_version: 1"
        )
    policy = read_policy(reader, root.get("policy"))
    return policy, _listed(root, reader)


def _listed(root: MapNode, reader: NodeReader) -> ListNode | None:
    listed = root.get("active_intents")
    if not isinstance(listed, ListNode):
        fix = "active_intents: []" if listed is None else "put a dash in front of each intent"
        what = "is missing" if listed is None else "is not a list"
        reader.note("E110", listed or root, "active_intents", f"active_intents {what}", fix)
        return None
    if len(listed.items) > MOST_INTENTS:
        reader.note(
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
    reader = whole.for_intent(intent_id)
    reader.unknown_keys(node, "", _KEYS)
    status = _status(node, reader)
    intent = Intent(
        id=intent_id,
        name=_name(node, reader),
        status=status,
        description=reader.text(node.get("description"), "description"),
        owned_scope=_scope(node, reader, status),
        constraints=constraints(node, reader),
        acceptance_criteria=criteria(node, reader),
        permissions=permissions(node, reader),
        budget=budget(node, reader),
        depends_on=reader.texts(node.get("depends_on"), "depends_on"),
        parent=reader.text(node.get("parent"), "parent"),
        related=related(node, reader),
        revision=reader.number(node.get("revision"), "revision", least=1) or 1,
        owner=reader.text(node.get("owner"), "owner"),
        reviewers=reader.texts(node.get("reviewers"), "reviewers"),
        tags=reader.texts(node.get("tags"), "tags"),
        priority=reader.number(node.get("priority"), "priority", least=-(10**9)),
        created_at=time_text(node, "created_at", reader),
        updated_at=time_text(node, "updated_at", reader),
        status_history=history(node, reader),
        last_verification=verification(node, reader),
    )
    _add_warnings(intent, node, reader, now)
    return intent


def _id(node: MapNode, at: int, reader: NodeReader) -> str:
    its = node.get("id")
    path = f"active_intents[{at}].id"
    if its is None or (isinstance(its, TextNode) and its.is_null):
        reader.note("E201", its or node, path, "an intent needs an id", "e.g. id: INT-001")
        return ""
    text = reader.text(its, path)
    if text and not _ID.fullmatch(text):
        reader.for_intent(text).note(
            "E201",
            its,
            "id",
            "an id is a letter, then letters, digits, _ . or -; at most 64 characters",
            "e.g. id: INT-001",
        )
    elif text and not _USUAL_ID.fullmatch(text):
        reader.for_intent(text).note(
            "W302", its, "id", f"{text} does not have the usual form PREFIX-NNN"
        )
    return text


def _name(node: MapNode, reader: NodeReader) -> str:
    given, alias = node.get("name"), node.entry("title")
    if alias:
        reader.note("W306", alias.key, "title", "title is the old key for name")
    named = given if given is not None or alias is None else alias.value
    name = reader.one_line(named, "name", longest=LONGEST_NAME)
    if not name and (named is None or isinstance(named, TextNode)):
        reader.note("E203", named or node, "name", "an intent needs a name", "e.g. name: Limits")
    return name


def _status(node: MapNode, reader: NodeReader) -> IntentStatus:
    its = node.get("status")
    if its is None:
        reader.note("E204", node, "status", "an intent needs a status", f"one of {_STATUSES}")
        return IntentStatus.PENDING
    text = reader.text(its, "status")
    canonical = text.strip().upper().replace("-", "_").replace(" ", "_")
    if canonical not in IntentStatus.__members__:
        if isinstance(its, TextNode):
            reader.note("E204", its, "status", "unknown status", f"one of {_STATUSES}")
        return IntentStatus.PENDING
    if canonical != text:
        reader.note("W307", its, "status", f"{text} is read as {canonical}")
    return IntentStatus[canonical]


def _scope(node: MapNode, reader: NodeReader, status: IntentStatus) -> tuple[str, ...]:
    its = node.get("owned_scope")
    patterns: list[str] = []
    for each, path in reader.entries(its, "owned_scope", most=MOST_PATTERNS):
        text = reader.text(each, path)
        if isinstance(each, TextNode) and _is_valid_pattern(text, each, path, reader):
            patterns.append(text)
    positive = [each for each in patterns if not each.startswith("!")]
    empty = its is None or isinstance(its, ListNode | TextNode)
    if its is None or (status is IntentStatus.IN_PROGRESS and not positive and empty):
        what = "is missing" if its is None else "grants nothing"
        reader.note(
            "E205", its or node, "owned_scope", f"owned_scope {what}", 'e.g. - "src/auth/**"'
        )
    return tuple(patterns)


def _is_valid_pattern(text: str, node: TextNode, path: str, reader: NodeReader) -> bool:
    try:
        pattern = scope_pattern(text)
    except PatternError as error:
        reader.note("E206", node, path, str(error), error.fix)
        return False
    if not reader.alternatives.take(len(pattern.variants)):
        reader.note(
            "E208", node, path, "the braces of this file expand to too many patterns", "use fewer"
        )
        return False
    if pattern.negated:
        return True
    if covers_workspace(text):
        reader.note("W303", node, path, f'"{text}" covers the whole workspace')
    elif always_protected(text):
        reader.note("W312", node, path, f'"{text}" has no effect: it is protected')
    return True


def _add_warnings(intent: Intent, node: MapNode, reader: NodeReader, now: datetime) -> None:
    """Warn about what is allowed but probably a mistake."""
    if intent.status not in OPEN:
        return
    if not intent.acceptance_criteria:
        reader.note("W308", node, "acceptance_criteria", "there are no acceptance criteria")
    elif not any(each.verify for each in intent.acceptance_criteria):
        at = node.get("acceptance_criteria") or node
        reader.note("W309", at, "acceptance_criteria", "no criterion is machine-checked")
    if intent.status is IntentStatus.IN_PROGRESS and expired(intent, now):
        reader.note("W310", node.get("budget") or node, "budget.expires_at", "it has expired")


LARGEST = MIB
READ_ATTEMPTS = 3
READ_INTERVAL = 0.1
"""Seconds between reads while an editor may still be saving."""


class IntentText(Struct, frozen=True, kw_only=True):
    """The file as read: missing without `exists`; `data` are the bytes that edits are based on;
    `root` is None if the YAML is invalid."""

    file: IntentFile
    exists: bool = True
    data: bytes = b""
    root: MapNode | None = None

    @property
    def sha256(self) -> str:
        return sha256(self.data).hexdigest()


MISSING = IntentText(file=IntentFile(), exists=False)


class IntentReader:
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
        try:
            data = small_file(self.layout.intent_file, self.layout.workspace, largest=LARGEST)
        except FileNotFoundError:
            return MISSING
        except Unreadable as error:
            problem = Problem(file=self._name, code=error.code, message=str(error))
            return IntentText(file=IntentFile(problems=(problem,)))
        if self._last is None or self._last.data != data:
            self._last = parse_intents(data, self._name, now=self._now())
        return self._last

    async def read_settled(self, active: str = "") -> IntentText:
        """Read the file, repeatedly for a moment if it looks half saved: invalid, truncated, or
        without the active intent. Content that stays like that is accepted the next time."""
        for _ in range(READ_ATTEMPTS):
            found = self.read()
            if found == self._settled or not _looks_incomplete(found, active, self._settled):
                self._settled = found
                return found
            await anyio.sleep(READ_INTERVAL)
        self._settled = self.read()
        return self._settled

    def with_unmatched(self, found: IntentText, matches: Callable[[str], bool]) -> IntentFile:
        """The file with a warning for every pattern that matches no file."""
        if found.root is None:
            return found.file
        reader = NodeReader(self._name, found.data.decode("utf-8-sig").split("\n"))
        more = unmatched_patterns(found.file, found.root, reader, matches)
        order = sorted((*found.file.problems, *more), key=lambda each: (each.line, each.column))
        return replace(found.file, problems=tuple(order))


def parse_intents(data: bytes, name: str, *, now: datetime) -> IntentText:
    """Parse the bytes of an intent file."""
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
    root, problems = yaml_nodes(text, name)
    if root is None:
        return IntentText(file=IntentFile(problems=problems), data=data)
    file = read_intents(root, NodeReader(name, text.split("\n")), now=now)
    return IntentText(file=file, data=data, root=root if isinstance(root, MapNode) else None)


def _looks_incomplete(found: IntentText, active: str, before: IntentText | None) -> bool:
    if not found.exists or not found.file.usable:
        return True
    if active and (found.file.find(active) is None or active in found.file.broken):
        return True
    known = before.data if before else b""
    return known.startswith(found.data) or (
        known.endswith(b"\n") and not found.data.endswith(b"\n")
    )
