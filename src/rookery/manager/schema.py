"""The Agent Manager's protocol as a JSON Schema, made from the classes that travel.

What is asked may leave out whatever has a usual value; what is answered is told whole. The types
of the page are made from this.
"""

from typing import Any

from rookery.core.managing.requests import REQUESTS
from rookery.core.managing.shown import InboxRow, Overview, SessionRow
from rookery.manager.desk.request_json import KINDS
from rookery.wire.codec import PROTOCOL
from rookery.wire.schema import (
    _NUMBER,
    Schema,
    _answer_type,
    _call,
    _define_view,
    _Definitions,
    _message,
    _notification,
    _object,
    _ref,
)

_ROWS = ("row", "row_change", "view_change")
_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_IN_ROWS: dict[str, Schema] = {
    "html": {"description": "The beginning of the text, rendered and sanitised.", **_TEXTS},
    "html_upto": {"description": "How many UTF-16 units of the text that is.", **_NUMBER},
    "task_id": {"description": "Of the task that works for this call.", **_TEXT},
}
_REQUEST_ID: Schema = {"type": ["integer", "string", "null"]}


def schema() -> Schema:
    made = _Definitions()
    _define_requests(made)
    asked = set(made.all)
    for kind, cls in KINDS.items():
        made.add(f"answer_to_{kind}", made.of(_answer_type(cls)))
    for shown in (SessionRow, InboxRow, Overview):
        made.of(shown)
    _define_view(made)
    for name in set(made.all) - asked - set(_ROWS):
        made.all[name] = _told_whole(made.all[name])
    _extend_rows(made)
    _define_messages(made)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Protocol {PROTOCOL} of the Agent Manager",
        "anyOf": [_ref(name) for name in made.all if name.endswith("_message")],
        "$defs": made.all,
    }


def _define_requests(made: _Definitions) -> None:
    for cls in REQUESTS:
        made.of(cls)
    for kind in KINDS:
        described = made.all[kind]
        properties = {"kind": {"const": kind}, **described["properties"]}
        needed = ["kind", *described.get("required", [])]
        made.all[kind] = {**described, "properties": properties, "required": needed}
    made.add("request", {"anyOf": [_ref(kind) for kind in KINDS]})


def _told_whole(described: Schema) -> Schema:
    """As it is answered: with every field, and without the tag that only journals need."""
    if "properties" not in described:
        return described
    properties = {name: of for name, of in described["properties"].items() if "const" not in of}
    return {**described, **_object(properties)}


def _extend_rows(made: _Definitions) -> None:
    made.all["row"]["properties"].update(_IN_ROWS)
    made.all["row_change"]["properties"].update(_IN_ROWS, html_add=_TEXTS)


def _define_messages(made: _Definitions) -> None:
    follow = {"follow_id": _NUMBER}
    session = {"session_id": _TEXT, "task_id": _TEXT, "tail": _NUMBER}
    initialize: dict[str, Schema] = {"protocol": {"const": PROTOCOL}, "token": _TEXT}
    listed: dict[str, Schema] = {
        **follow,
        "overview": _ref("overview"),
        "rows": {"type": "array", "items": _ref("session_row")},
        "removed": _TEXTS,
        "order": _TEXTS,
        "inbox": {"type": "array", "items": _ref("inbox_row")},
    }
    view = {**follow, "seq": _NUMBER, "earlier": _NUMBER, "change": _ref("view_change")}
    made.add("error", _object({"code": {"type": "integer"}, "message": _TEXT}))
    made.add("initialized", _object(_initialized()))
    made.add("followed", _object(follow))
    made.add("list_change", {"description": _LIST, **_object(listed, ["follow_id"])})
    made.add("session_change", {"description": _VIEW, **_object(view)})
    made.add("end", _object({**follow, "error": _ref("error")}, ["follow_id"]))
    messages = {
        "initialize_message": _call("initialize", _object(initialize, ["protocol"])),
        "do_message": _call("do", _ref("request")),
        "follow_list_message": _call("follow_list", _object({}, [])),
        "follow_session_message": _call("follow_session", _object(session, ["session_id"])),
        "widen_message": _call("widen", _object({**follow, "most": _NUMBER}, ["follow_id"])),
        "unfollow_message": _call("unfollow", _object(follow)),
        "list_message": _notification("list", _ref("list_change")),
        "view_message": _notification("view", _ref("session_change")),
        "ended_message": _notification("ended", _ref("end")),
        "result_message": _message({"id": _REQUEST_ID, "result": {}}),
        "error_message": _message({"id": _REQUEST_ID, "error": _ref("error")}),
    }
    for name, described in messages.items():
        made.add(name, described)


_LIST = (
    "First everything, afterwards what changed: a row whole; `order`, `inbox` and `overview` whole "
    "if they did."
)
_VIEW = "`earlier` rows are before the window; `widen` brings them."


def _initialized() -> dict[str, Any]:
    return {
        "protocol": {"const": PROTOCOL},
        "host": _object({"name": _TEXT, "version": _TEXT}),
        "requests": {"type": "array", "items": {"enum": sorted(KINDS)}},
    }


if __name__ == "__main__":
    import json

    print(json.dumps(schema(), indent=1))
