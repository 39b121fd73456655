"""Changes of `active_intents.yaml` that the host makes on a person's order.

An edit knows where the nodes stand and touches no other line: people keep comments, an order and a
way of quoting in the file. Somebody may save the file between reading and renaming. Then the edit
is refused: nothing that a person wrote is ever overwritten.
"""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rookery.errors import RookeryError
from rookery.faults import kp
from rookery.governance.intents.file_nodes import KeyedNode, ListNode, MapNode, TextNode, last_place
from rookery.governance.intents.intent import (
    Intent,
    IntentFile,
    IntentStatus,
    LastVerification,
    Move,
    StatusChange,
)
from rookery.governance.intents.intent_file import LARGEST, IntentText, parsed
from rookery.governance.layout import Layout, note_write
from rookery.platform.descriptors import attributes_at
from rookery.platform.disk import Unreadable, put, small_file
from rookery.platform.locks import file_lock

_BOM = b"\xef\xbb\xbf"


class IntentsNotWritten(RookeryError):
    """The file is as it was."""


class AddHistory(Struct, frozen=True):
    change: StatusChange


class AddIntent(Struct, frozen=True):
    intent: Intent


class AddScope(Struct, frozen=True):
    pattern: str


class SetField(Struct, frozen=True):
    key: Literal["status", "revision", "updated_at"]
    text: str


class SetVerification(Struct, frozen=True):
    result: LastVerification


Edit: TypeAlias = SetField | AddScope | AddHistory | SetVerification | AddIntent


class EditOf(Struct, frozen=True):
    intent_id: str
    edit: Edit


Decide = Callable[[IntentFile], Sequence[EditOf]]
"""What is to be changed in a file as it stands; it raises if nothing may be."""


class IntentWriter:
    def __init__(
        self,
        layout: Layout,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._layout = layout
        self._name = layout.shown(layout.intent_file)
        self._now = now

    def change(self, seen: IntentText, edits: Sequence[EditOf], decide: Decide) -> IntentText:
        """Writes the edits that were decided on what was `seen`. If the file is another by now it
        is decided once more. Raises `IntentsNotWritten` or `LockTimeout`; then nothing changed."""
        with file_lock(self._layout.own_folder(self._layout.locks) / "intents"):
            current = self._read()
            if current.data != seen.data:
                edits = decide(current.file)
            result = self._edited(current, edits)
            self._write(current.data, result.data)
        return result

    def _read(self) -> IntentText:
        try:
            data = small_file(self._layout.intent_file, self._layout.workspace, largest=LARGEST)
        except (FileNotFoundError, Unreadable) as error:
            raise self._not_written(f"it cannot be read ({error})") from error
        return parsed(data, self._name, now=self._now())

    def _edited(self, current: IntentText, edits: Sequence[EditOf]) -> IntentText:
        text = current
        for each in edits:
            if text.root is None or not text.file.usable:
                raise self._not_written("it has errors; see: rookery intents validate")
            after = edited(text.data.decode("utf-8-sig"), text.root, each.intent_id, each.edit)
            bom = _BOM if current.data.startswith(_BOM) else b""
            result = parsed(bom + after.encode(), self._name, now=self._now())
            self._check(text.file, result.file, each)
            text = result
        return text

    def _check(self, before: IntentFile, after: IntentFile, made: EditOf) -> None:
        """The edit did what it was to do, and nothing else. A status is read with care, so the
        spelling of other intents never changes either."""
        wanted = [_after(intent, made) for intent in before.intents]
        if isinstance(made.edit, AddIntent):
            wanted.append(made.edit.intent)
        if not after.usable or list(after.intents) != wanted or after.policy != before.policy:
            raise self._not_written(
                "it is written in a way that only you can change; edit it yourself"
            )
        new = [each for each in after.errors if each.intent_id == made.intent_id]
        old = {each.code for each in before.errors if each.intent_id == made.intent_id}
        for problem in new:
            if problem.code not in old:
                raise self._not_written(
                    f"{problem.intent_id} would have an error: {problem.message}"
                )

    def _write(self, before: bytes, after: bytes) -> None:
        path = self._layout.intent_file.resolve(strict=True)

        def check() -> None:
            kp("intents.written")
            if path.read_bytes() != before:
                raise self._not_written("another process is changing it")
            note_write(self._layout.written, path, after)

        try:
            put(path, [after], like=attributes_at(path), check=check)
        except OSError as error:
            raise self._not_written(f"it cannot be written ({error.strerror})") from error
        kp("intents.renamed")

    def _not_written(self, why: str) -> IntentsNotWritten:
        return IntentsNotWritten(f"{self._name} was not changed: {why}.")


class CannotEdit(RookeryError):
    """The file is written in a way in which the edit has no place."""


class _EditedText:
    """A text, and what is put into it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._newline = "\r\n" if "\r\n" in text else "\n"

    def with_field(self, node: MapNode, key: str, spelled: str) -> str:
        entry = node.entry(key)
        if entry is None:
            return self._with_entry(node, f"{key}: {spelled}")
        value = entry.value
        end = last_place(value)
        kept = self._text[value.start : end]
        after = self._newline if kept.endswith("\n") else ""
        before = "" if self._text[value.start - 1 : value.start].isspace() else " "
        return self._replaced(value.start, end, f"{before}{spelled}{after}")

    def with_item(self, node: MapNode, key: str, spelled: str) -> str:
        entry = node.entry(key)
        if entry is None:
            return self._with_entry(node, f"{key}: [{spelled}]", f"{key}:", f"- {spelled}")
        value = entry.value
        if isinstance(value, ListNode) and value.items and not value.flow:
            return self._with_lines(last_place(value), value.column, [f"- {spelled}"])
        if isinstance(value, ListNode) and value.items:
            end = value.items[-1].end
            return self._replaced(end, end, f", {spelled}")
        if isinstance(value, ListNode) or (isinstance(value, TextNode) and value.is_nothing):
            before = "" if self._text[value.start - 1 : value.start].isspace() else " "
            return self._replaced(value.start, value.end, f"{before}[{spelled}]")
        raise CannotEdit(f"{key} is not a list; nothing was changed.")

    def with_intent(self, root: MapNode, intent: Intent) -> str:
        entry = root.entry("active_intents")
        if entry is None:
            raise CannotEdit("The file has no active_intents; nothing was changed.")
        listed = entry.value
        if isinstance(listed, ListNode) and listed.items and listed.flow:
            end = listed.items[-1].end
            return self._replaced(end, end, f", {_flow(_said_of_intent(intent))}")
        lines = _block(_said_of_intent(intent))
        if isinstance(listed, ListNode) and listed.items:
            return self._with_lines(last_place(listed), listed.column, lines)
        return self._with_first_intent(entry, lines)

    def _with_first_intent(self, entry: KeyedNode, lines: Sequence[str]) -> str:
        colon = self._text.index(":", entry.key.end)
        bare = _EditedText(self._text[: colon + 1] + self._text[entry.value.end :])
        return bare._with_lines(colon + 1, entry.key.column + 2, lines)

    def _with_entry(self, node: MapNode, inline: str, *block: str) -> str:
        """One more key of a mapping. `block` are a line and one below it, where there is room."""
        if node.flow:
            end = last_place(node.entries[-1].value)
            return self._replaced(end, end, f", {inline}")
        lines = [block[0], *(f"  {each}" for each in block[1:])] if block else [inline]
        return self._with_lines(last_place(node), node.column, lines)

    def _with_lines(self, place: int, column: int, lines: Sequence[str]) -> str:
        """Whole lines below the one in which the place is."""
        block = self._newline.join(f"{' ' * (column - 1)}{line}" for line in lines)
        if place and self._text[place - 1] == "\n":
            return self._replaced(place, place, block + self._newline)
        end = self._text.find("\n", place)
        if end < 0:
            return f"{self._text}{self._newline}{block}"
        return self._replaced(end + 1, end + 1, block + self._newline)

    def _replaced(self, start: int, end: int, said: str) -> str:
        return self._text[:start] + said + self._text[end:]


def edits_for(move: Move, intent: Intent, *, at: str, by: str, reason: str) -> Sequence[Edit]:
    """What a change of status writes into the file."""
    change = StatusChange(status=str(move.after), at=at, by=by, reason=reason)
    raised = [SetField("revision", str(intent.revision + 1))] if move.raises_revision else []
    dated = [SetField("updated_at", at)] if intent.updated_at else []
    return (SetField("status", str(move.after)), *raised, *dated, AddHistory(change))


def expected(intent: Intent, edit: Edit) -> Intent:
    """The intent as it must be read after the edit."""
    match edit:
        case SetField("status", text):
            return replace(intent, status=IntentStatus(text))
        case SetField("revision", text):
            return replace(intent, revision=int(text))
        case SetField(_, text):
            return replace(intent, updated_at=text)
        case AddScope(pattern):
            return replace(intent, owned_scope=(*intent.owned_scope, pattern))
        case AddHistory(change):
            return replace(intent, status_history=(*intent.status_history, change))
        case SetVerification(result):
            return replace(intent, last_verification=result)
        case AddIntent(added):
            return added


def edited(text: str, root: MapNode, intent_id: str, edit: Edit) -> str:
    """The text after the edit. Raises `CannotEdit`."""
    page = _EditedText(text)
    if isinstance(edit, AddIntent):
        return page.with_intent(root, edit.intent)
    node = _found(root, intent_id)
    match edit:
        case SetField(key, said):
            spelled = json.dumps(said) if key == "updated_at" else said
            return page.with_field(node, key, spelled)
        case AddScope(pattern):
            return page.with_item(node, "owned_scope", _spelled(pattern))
        case AddHistory(change):
            return page.with_item(node, "status_history", _flow(_said_of_change(change)))
        case SetVerification(result):
            return page.with_field(node, "last_verification", _flow(_said_of_check(result)))


def _after(intent: Intent, made: EditOf) -> Intent:
    if isinstance(made.edit, AddIntent) or intent.id != made.intent_id:
        return intent
    return expected(intent, made.edit)


def _found(root: MapNode, intent_id: str) -> MapNode:
    listed = root.get("active_intents")
    for node in listed.items if isinstance(listed, ListNode) else ():
        its = node.get("id") if isinstance(node, MapNode) else None
        if isinstance(node, MapNode) and isinstance(its, TextNode) and its.text == intent_id:
            return node
    raise CannotEdit(f"No {intent_id} in the intent file; nothing was changed.")


def _spelled(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _flow(said: dict[str, Any]) -> str:
    return "{ " + ", ".join(f"{key}: {_flow_value(each)}" for key, each in said.items()) + " }"


def _flow_value(said: Any) -> str:
    if isinstance(said, dict):
        return _flow(said)
    if isinstance(said, list | tuple):
        return f"[{', '.join(map(_flow_value, said))}]"
    return said if isinstance(said, IntentStatus) else json.dumps(said, ensure_ascii=False)


def _block(said: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for key, each in said.items():
        if isinstance(each, list) and each:
            lines += [f"{key}:", *(f"  - {_flow_value(one)}" for one in each)]
        else:
            lines.append(f"{key}: {_flow_value(each)}")
    return [f"{'- ' if not at else '  '}{line}" for at, line in enumerate(lines)]


def _said_of_change(change: StatusChange) -> dict[str, Any]:
    said = {"status": IntentStatus(change.status), "at": change.at, "by": change.by}
    return {**said, **({"reason": change.reason} if change.reason else {})}


def _said_of_check(result: LastVerification) -> dict[str, Any]:
    return {
        "at": result.at,
        "ok": result.ok,
        "criteria": list(result.criteria),
        "trace_id": result.trace_id,
    }


def _said_of_intent(intent: Intent) -> dict[str, Any]:
    criteria: list[Any] = []
    for each in intent.acceptance_criteria:
        check = each.verify
        if check is None:
            criteria.append(each.text)
        else:
            run = {"command": check.command, "timeout_s": check.timeout_s}
            criteria.append({"text": each.text, "verify": run})
    said: dict[str, Any] = {
        "id": intent.id,
        "name": intent.name,
        "description": intent.description,
        "status": intent.status,
        "owned_scope": list(intent.owned_scope),
        "constraints": [each.text for each in intent.constraints],
        "acceptance_criteria": criteria,
        "depends_on": list(intent.depends_on),
        "parent": intent.parent,
        "created_at": intent.created_at,
    }
    always = ("id", "name", "status", "owned_scope")
    return {key: each for key, each in said.items() if each or key in always}
