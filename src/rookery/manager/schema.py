"""The Agent Manager's protocol as a JSON Schema, generated from the classes that are sent.

Requests may leave out fields with a default; replies have all fields. The types of the page are
generated from this schema.
"""

from typing import Any

from rookery.manager.handlers.router import KINDS
from rookery.manager.handlers.terminals import TerminalSize
from rookery.manager.requests import REQUESTS
from rookery.manager.shown_rows import InboxRow, Overview, SessionRow
from rookery.protocol.codec import PROTOCOL
from rookery.protocol.schema import (
    NUMBER,
    Definitions,
    Schema,
    answer_type,
    call,
    define_messages,
    define_view,
    initialize,
    notification,
    object_of,
    protocol_document,
    ref,
)

_ROWS = ("row", "row_change", "view_change")
_TEXT: Schema = {"type": "string"}
_BASE64: Schema = {"type": "string", "contentEncoding": "base64"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_IN_ROWS: dict[str, Schema] = {
    "html": {"description": "The beginning of the text, rendered and sanitised.", **_TEXTS},
    "html_upto": {"description": "The length of that beginning, in UTF-16 units.", **NUMBER},
    "task_id": {"description": "The task that works for this call.", **_TEXT},
    "agents": {
        "description": "The agents that work for this call side by side.",
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"task_id": _TEXT, "name": _TEXT},
            "required": ["task_id", "name"],
            "additionalProperties": False,
        },
    },
}


def schema() -> Schema:
    made = Definitions()
    _define_requests(made)
    asked = set(made.all)
    for kind, cls in KINDS.items():
        made.add(f"answer_to_{kind}", made.of(answer_type(cls)))
    for shown in (SessionRow, InboxRow, Overview):
        made.of(shown)
    define_view(made)
    for name in set(made.all) - asked - set(_ROWS):
        made.all[name] = _reply_schema(made.all[name])
    _extend_rows(made)
    _define_messages(made)
    return protocol_document(f"Protocol {PROTOCOL} of the Agent Manager", made)


def _define_requests(made: Definitions) -> None:
    for cls in REQUESTS:
        made.of(cls)
    for kind in KINDS:
        described = made.all[kind]
        properties = {"kind": {"const": kind}, **described["properties"]}
        needed = ["kind", *described.get("required", [])]
        made.all[kind] = {**described, "properties": properties, "required": needed}
    made.add("request", {"anyOf": [ref(kind) for kind in KINDS]})


def _reply_schema(described: Schema) -> Schema:
    """The schema of a reply: every field is required, and the tag used in journals is left out."""
    if "properties" not in described:
        return described
    properties = {name: of for name, of in described["properties"].items() if "const" not in of}
    return {**described, **object_of(properties)}


def _extend_rows(made: Definitions) -> None:
    made.all["row"]["properties"].update(_IN_ROWS)
    made.all["row_change"]["properties"].update(_IN_ROWS, html_add=_TEXTS)


def _define_messages(made: Definitions) -> None:
    follow = {"follow_id": NUMBER}
    session = {"session_id": _TEXT, "task_id": _TEXT, "tail": NUMBER}
    listed: dict[str, Schema] = {
        **follow,
        "overview": ref("overview"),
        "rows": {"type": "array", "items": ref("session_row")},
        "removed": _TEXTS,
        "order": _TEXTS,
        "inbox": {"type": "array", "items": ref("inbox_row")},
    }
    view = {**follow, "seq": NUMBER, "earlier": NUMBER, "change": ref("view_change")}
    made.add("initialized", object_of(_initialized()))
    made.add("followed", object_of(follow))
    made.add("list_change", {"description": _LIST, **object_of(listed, ["follow_id"])})
    made.add("session_change", {"description": _VIEW, **object_of(view)})
    messages = {
        "initialize_message": initialize({}),
        "do_message": call("do", ref("request")),
        "ping_message": call("ping", object_of({}, [])),
        "refresh_message": call("refresh", object_of({}, [])),
        "follow_list_message": call("follow_list", object_of({}, [])),
        "follow_session_message": call("follow_session", object_of(session, ["session_id"])),
        "follow_fleet_message": call(
            "follow_fleet", object_of({"session_id": _TEXT, "tail": NUMBER}, ["session_id"])
        ),
        "widen_message": call("widen", object_of({**follow, "most": NUMBER}, ["follow_id"])),
        "open_terminal_message": call(
            "open_terminal", object_of({"session_id": _TEXT, "size": made.of(TerminalSize)})
        ),
        "type_in_terminal_message": call(
            "type_in_terminal", object_of({**follow, "data": _BASE64})
        ),
        "resize_terminal_message": call(
            "resize_terminal", object_of({**follow, "size": made.of(TerminalSize)})
        ),
        "acknowledge_output_message": call(
            "acknowledge_output", object_of({**follow, "count": NUMBER})
        ),
        "terminal_message": notification("terminal", object_of({**follow, "data": _BASE64})),
        "list_message": notification("list", ref("list_change")),
        "view_message": notification("view", ref("session_change")),
    }
    define_messages(made, messages)


_LIST = (
    "The first has everything, later ones what changed: whole rows, and `order`, `inbox` and "
    "`overview` whole if they changed."
)
_VIEW = "`earlier` is the number of rows before the window; `widen` fetches them."


def _initialized() -> dict[str, Any]:
    return {
        "protocol": {"const": PROTOCOL},
        "host": object_of({"name": _TEXT, "version": _TEXT}),
        "requests": {"type": "array", "items": {"enum": sorted(KINDS)}},
    }


if __name__ == "__main__":
    import json

    print(json.dumps(schema(), indent=1))
