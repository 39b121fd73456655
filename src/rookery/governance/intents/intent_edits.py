"""Edits of `active_intents.yaml` that the user ordered.

An edit changes only the affected lines, so that comments, order and quoting stay. If the file is
saved by someone else between reading and renaming, the edit is refused, never merged or
overwritten.
"""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from rookery.errors import RookeryError
from rookery.faults import kp
from rookery.governance.intents.file_nodes import KeyedNode, ListNode, MapNode, TextNode, text_end
from rookery.governance.intents.intent import (
    Intent,
    IntentFile,
    IntentStatus,
    LastVerification,
    Move,
    StatusChange,
)
from rookery.governance.intents.intent_file import LARGEST, IntentText, parse_intents
from rookery.governance.layout import Layout, note_write
from rookery.platform.descriptors import attributes_at
from rookery.platform.disk import Unreadable, put, small_file
from rookery.platform.locks import file_lock

_BOM = b"\xef\xbb\xbf"


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


class PlannedChange(Struct, frozen=True, kw_only=True):
    """The edits to one intent."""

    intent_id: str
    edits: Sequence[Edit]
    more: dict[str, Any] = {}
    """Further fields for the ledger."""


class WrittenChange(Struct, frozen=True, kw_only=True):
    planned: PlannedChange
    before: IntentText
    after: IntentText


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

    def change(self, plan: Callable[[IntentText], PlannedChange]) -> WrittenChange:
        """Write the change that `plan` returns for the current file. `plan` raises to refuse it.
        Raises `RookeryError` or `LockTimeout`, and changes nothing then."""
        with file_lock(self._layout.own_folder(self._layout.locks) / "intents"):
            before = after = self._read()
            if before.root is None or not before.file.usable:
                raise self._not_written("it has errors; see: rookery intents validate")
            planned = plan(before)
            for edit in planned.edits:
                after = self._apply(after, planned.intent_id, edit)
            self._write(before.data, after.data)
        return WrittenChange(planned=planned, before=before, after=after)

    def _read(self) -> IntentText:
        try:
            data = small_file(self._layout.intent_file, self._layout.workspace, largest=LARGEST)
        except (FileNotFoundError, Unreadable) as error:
            raise self._not_written(f"it cannot be read ({error})") from error
        return parse_intents(data, self._name, now=self._now())

    def _apply(self, text: IntentText, intent_id: str, edit: Edit) -> IntentText:
        """Apply an edit. Checks that it had exactly the expected effect and caused no new error."""
        assert text.root is not None, "the text before was usable"
        bom = _BOM if text.data.startswith(_BOM) else b""
        spelled = apply_edit(text.data.decode("utf-8-sig"), text.root, intent_id, edit)
        result = parse_intents(bom + spelled.encode(), self._name, now=self._now())
        before, after = text.file, result.file
        if (
            not after.usable
            or list(after.intents) != _expected_intents(before, intent_id, edit)
            or after.policy != before.policy
        ):
            raise self._not_written(
                "it is written in a way that only you can change; edit it yourself"
            )
        old = {each.code for each in before.errors if each.intent_id == intent_id}
        for problem in after.errors:
            if problem.intent_id == intent_id and problem.code not in old:
                raise self._not_written(f"{intent_id} would have an error: {problem.message}")
        return result

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

    def _not_written(self, why: str) -> RookeryError:
        return RookeryError(f"{self._name} was not changed: {why}.")


class _TextEditor:
    """The text of the file, with methods that return an edited copy."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._newline = "\r\n" if "\r\n" in text else "\n"

    def with_field(self, node: MapNode, key: str, spelled: str) -> str:
        entry = node.entry(key)
        if entry is None:
            return self._with_entry(node, f"{key}: {spelled}")
        value = entry.value
        end = text_end(value)
        kept = self._text[value.start : end]
        after = self._newline if kept.endswith("\n") else ""
        before = "" if self._text[value.start - 1 : value.start].isspace() else " "
        return self._replace(value.start, end, f"{before}{spelled}{after}")

    def with_item(self, node: MapNode, key: str, spelled: str) -> str:
        entry = node.entry(key)
        if entry is None:
            return self._with_entry(node, f"{key}: [{spelled}]", f"{key}:", f"- {spelled}")
        value = entry.value
        if isinstance(value, ListNode) and value.items and not value.flow:
            return self._with_lines(text_end(value), value.column, [f"- {spelled}"])
        if isinstance(value, ListNode) and value.items:
            end = value.items[-1].end
            return self._replace(end, end, f", {spelled}")
        if isinstance(value, ListNode) or (isinstance(value, TextNode) and value.is_null):
            before = "" if self._text[value.start - 1 : value.start].isspace() else " "
            return self._replace(value.start, value.end, f"{before}[{spelled}]")
        raise RookeryError(f"{key} is not a list; nothing was changed.")

    def with_intent(self, root: MapNode, intent: Intent) -> str:
        entry = root.entry("active_intents")
        if entry is None:
            raise RookeryError("The file has no active_intents; nothing was changed.")
        listed = entry.value
        if isinstance(listed, ListNode) and listed.items and listed.flow:
            end = listed.items[-1].end
            return self._replace(end, end, f", {_flow(_intent_fields(intent))}")
        lines = _block(_intent_fields(intent))
        if isinstance(listed, ListNode) and listed.items:
            return self._with_lines(text_end(listed), listed.column, lines)
        return self._with_first_intent(entry, lines)

    def _with_first_intent(self, entry: KeyedNode, lines: Sequence[str]) -> str:
        colon = self._text.index(":", entry.key.end)
        bare = _TextEditor(self._text[: colon + 1] + self._text[entry.value.end :])
        return bare._with_lines(colon + 1, entry.key.column + 2, lines)

    def _with_entry(self, node: MapNode, inline: str, *block: str) -> str:
        """Add a key to a mapping. `block` is its form in block style: a line and an indented
        one."""
        if node.flow:
            end = text_end(node.entries[-1].value)
            return self._replace(end, end, f", {inline}")
        lines = [block[0], *(f"  {each}" for each in block[1:])] if block else [inline]
        return self._with_lines(text_end(node), node.column, lines)

    def _with_lines(self, place: int, column: int, lines: Sequence[str]) -> str:
        """Insert whole lines below the line that contains `place`."""
        block = self._newline.join(f"{' ' * (column - 1)}{line}" for line in lines)
        if place and self._text[place - 1] == "\n":
            return self._replace(place, place, block + self._newline)
        end = self._text.find("\n", place)
        if end < 0:
            return f"{self._text}{self._newline}{block}"
        return self._replace(end + 1, end + 1, block + self._newline)

    def _replace(self, start: int, end: int, value: str) -> str:
        return self._text[:start] + value + self._text[end:]


def edits_for(move: Move, intent: Intent, *, at: str, by: str, reason: str) -> Sequence[Edit]:
    """The edits for a change of status."""
    change = StatusChange(status=str(move.after), at=at, by=by, reason=reason)
    raised = [SetField("revision", str(intent.revision + 1))] if move.raises_revision else []
    dated = [SetField("updated_at", at)] if intent.updated_at else []
    return (SetField("status", str(move.after)), *raised, *dated, AddHistory(change))


def scope_edits(intent: Intent, added: Sequence[str], *, at: str) -> Sequence[Edit]:
    dated = [SetField("updated_at", at)] if intent.updated_at else []
    return (*map(AddScope, added), *dated)


def expected_intent(intent: Intent, edit: Edit) -> Intent:
    """The intent as it must be parsed after the edit."""
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


def apply_edit(text: str, root: MapNode, intent_id: str, edit: Edit) -> str:
    """The text after the edit. Raises `RookeryError`."""
    editor = _TextEditor(text)
    if isinstance(edit, AddIntent):
        return editor.with_intent(root, edit.intent)
    node = _find_node(root, intent_id)
    match edit:
        case SetField(key, value):
            spelled = json.dumps(value) if key == "updated_at" else value
            return editor.with_field(node, key, spelled)
        case AddScope(pattern):
            return editor.with_item(node, "owned_scope", _quote(pattern))
        case AddHistory(change):
            return editor.with_item(node, "status_history", _flow(_change_fields(change)))
        case SetVerification(result):
            return editor.with_field(node, "last_verification", _flow(to_builtins(result)))


def _expected_intents(file: IntentFile, intent_id: str, edit: Edit) -> list[Intent]:
    if isinstance(edit, AddIntent):
        return [*file.intents, edit.intent]
    return [expected_intent(each, edit) if each.id == intent_id else each for each in file.intents]


def _find_node(root: MapNode, intent_id: str) -> MapNode:
    listed = root.get("active_intents")
    for node in listed.items if isinstance(listed, ListNode) else ():
        its = node.get("id") if isinstance(node, MapNode) else None
        if isinstance(node, MapNode) and isinstance(its, TextNode) and its.text == intent_id:
            return node
    raise RookeryError(f"No {intent_id} in the intent file; nothing was changed.")


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _flow(value: dict[str, Any]) -> str:
    return "{ " + ", ".join(f"{key}: {_flow_value(each)}" for key, each in value.items()) + " }"


def _flow_value(value: Any) -> str:
    if isinstance(value, dict):
        return _flow(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_flow_value, value))}]"
    return value if isinstance(value, IntentStatus) else json.dumps(value, ensure_ascii=False)


def _block(value: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for key, each in value.items():
        if isinstance(each, list) and each:
            lines += [f"{key}:", *(f"  - {_flow_value(one)}" for one in each)]
        else:
            lines.append(f"{key}: {_flow_value(each)}")
    return [f"{'- ' if not at else '  '}{line}" for at, line in enumerate(lines)]


def _change_fields(change: StatusChange) -> dict[str, Any]:
    fields = {"status": IntentStatus(change.status), "at": change.at, "by": change.by}
    return {**fields, **({"reason": change.reason} if change.reason else {})}


def _intent_fields(intent: Intent) -> dict[str, Any]:
    criteria: list[Any] = []
    for each in intent.acceptance_criteria:
        check = each.verify
        if check is None:
            criteria.append(each.text)
        else:
            run = {"command": check.command, "timeout_s": check.timeout_s}
            criteria.append({"text": each.text, "verify": run})
    fields: dict[str, Any] = {
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
    return {key: each for key, each in fields.items() if each or key in always}
