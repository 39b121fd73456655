"""The rows of a task as messages of the driver, and back."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from rookery.compat.structured_output.call_rows import compact, output, readable
from rookery.core.asks import AskKind, as_json
from rookery.core.blocks import Image
from rookery.core.folds.rows import PACED
from rookery.core.message import Message
from rookery.core.tool_traits import known_tools, traits_of

Wire: TypeAlias = dict[str, Any]
CHECKPOINT = "checkpoint_saved"


class _Fields(Struct, omit_defaults=True):
    ts: int
    type: str
    say: str | None = None
    ask: str | None = None
    text: str | None = None
    images: list[str] | None = None
    partial: bool | None = None
    isAnswered: bool | None = None
    isProtected: bool | None = None
    checkpoint: dict[str, Any] | None = None
    title: str | None = None
    where: str | None = None
    notes: tuple[str, ...] | None = None
    rule: str | None = None


def as_message(row: Message, extra: Mapping[str, Any] | None = None) -> Wire:
    """Return the row as a message. `extra` holds further fields."""
    more = output(governance=_governance(row), **(extra or {}))
    return {**msgspec.to_builtins(_fields_of(row)), **more}


def as_line(row: Message, extra: Mapping[str, Any] | None = None) -> bytes:
    """Return the same as JSON, without a line end."""
    if extra is None and row.governance is None:
        with suppress(UnicodeEncodeError):
            return _encode(_fields_of(row))
    return readable(compact(as_message(row, extra))).encode()


_encode = msgspec.json.Encoder().encode


def _fields_of(row: Message) -> _Fields:
    return _Fields(
        ts=row.ts,
        type=row.type,
        say=row.say,
        ask=row.ask,
        text=None if row.say == "condense_context" else _text(row),
        images=[data_uri(image) for image in row.images] or None,
        partial=row.partial or None,
        isAnswered=row.answered or None,
        isProtected=_is_protected(row) or None,
        checkpoint={"from": "", "to": row.text} if row.say == CHECKPOINT else None,
        title=row.title or None,
        where=row.where or None,
        notes=row.notes or None,
        rule=row.rule or None,
    )


def _governance(row: Message) -> Wire | None:
    if row.governance is None:
        return None
    fields = as_json(row.governance, approval_id=row.ask_id, binding=row.digest, diff=row.diff)
    return cast(Wire, fields)


def read_row(given: object) -> Message | None:
    """Parse a message into a row, as far as the state depends on it; None if it is invalid."""
    if not isinstance(given, Mapping):
        return None
    ts, type = given.get("ts"), given.get("type")
    if isinstance(ts, bool) or not isinstance(ts, int | float) or type not in ("ask", "say"):
        return None
    return Message(
        ts=cast(int, ts),  # other engines may send fractions
        type=type,
        say=_words(given.get("say")),
        ask=_words(given.get("ask")),
        content=_words(given.get("text")),
        partial=given.get("partial") is True,
        answered=given.get("isAnswered") is True,
    )


def data_uri(image: Image) -> str:
    return f"data:{image.media_type};base64,{image.data}"


def fields_in(text: str | None) -> Wire:
    """Parse a JSON object; empty if the text is not one."""
    try:
        fields = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def tool_name(name: str, payload: Mapping[str, Any] | None) -> str:
    """Return the webview's name for a tool: from its payload, or a default while it is streamed."""
    known = payload or {}
    tool = known.get("tool")
    return tool if isinstance(tool, str) else _arriving_name(name, known)


def _arriving_name(name: str, known: Mapping[str, Any]) -> str:
    if name not in known_tools():
        return name
    arriving = traits_of(name).arriving_name
    return arriving.replace("TopLevel", "Recursive") if known.get("recursive") else arriving


def _words(given: object) -> str | None:
    return given if isinstance(given, str) else None


def _text(row: Message) -> str | None:
    """Return the text of a row. While a call is streamed, its tool name is translated."""
    text = row.text
    if row.say == "browser_action_result":
        return _page(row)
    if row.say == PACED and (seconds := re.search(r"\d+", text or "")):
        return json.dumps({"seconds": int(seconds[0])})
    called = _CALLED.match(text) if text and row.ask == AskKind.TOOL else None
    if called is None or called[1] not in known_tools():
        return text
    fields = fields_in(text)
    name = _arriving_name(called[1], fields)
    return json.dumps({**fields, "tool": name}, ensure_ascii=False)


def _page(row: Message) -> str:
    """Return the browser's state in the fields that webviews read."""
    url = _AT.match(row.text or "")
    page = output(
        currentUrl=url[1] if url else None,
        logs=row.text,
        screenshot=data_uri(row.images[0]) if row.images else None,
    )
    return json.dumps(page, ensure_ascii=False)


_PROTECTED = "isProtected"
_AT = re.compile(r"The browser is at (\S+)\.(?:\n|$)")
_CALLED = re.compile(r'\{"tool": "(\w+)"')


def _is_protected(row: Message) -> bool:
    if row.ask != AskKind.TOOL or row.partial or _PROTECTED not in (row.text or ""):
        return False
    return fields_in(row.text).get(_PROTECTED) is True
