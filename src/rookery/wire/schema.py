"""The protocol as a JSON Schema, made from the classes that travel.

What is described is what this version says. Readers take fields and kinds that are not in it,
because later versions may add some.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from rookery.core.blocks import Block, Image
from rookery.core.facts import IntentSelected, Todo
from rookery.core.message import Message
from rookery.core.usage import Totals
from rookery.wire.codec import BLOCKS, COMMANDS, FACTS, PROTOCOL, QUERIES, kind_of
from rookery.wire.serving import AS_EVENTS, AS_VIEW
from rookery.wire.views import PARTS

Schema: TypeAlias = dict[str, Any]

_KINDS = {cls: kind for table in (BLOCKS, FACTS, COMMANDS, QUERIES) for kind, cls in table.items()}
_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    Any: {},
    object: {},
}
_EVENT = (
    "A fact with its place in the log: `seq` numbers lasting facts without gaps, `sub` the news "
    "since the last of them."
)
_ROW = "A row of a view. What it does not have is left out."
_ROW_CHANGE = (
    "What is new about a row; of its text, `drop` characters at the end go and `append` is added, "
    "or `text` replaces all of it."
)
_NUMBER: Schema = {"type": "integer", "minimum": 0}
_REQUEST_ID: Schema = {"type": ["integer", "number", "string", "null"]}


def schema() -> Schema:
    made = _Definitions()
    made.tagged("command", COMMANDS)
    made.tagged("query", QUERIES)
    made.tagged("fact", FACTS)
    place = _object({"seq": _NUMBER, "sub": _NUMBER, "ts": _NUMBER})
    made.add("event", {"description": _EVENT, "allOf": [place, _ref("fact")]})
    made.add("error", _object({"code": {"type": "integer"}, "message": {"type": "string"}}))
    for kind, cls in QUERIES.items():
        made.add(f"answer_to_{kind}", made.of(_answer_type(cls)))
    _define_view(made)
    _define_messages(made)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Protocol {PROTOCOL}",
        "anyOf": [_ref(name) for name in made.all if name.endswith("_message")],
        "$defs": made.all,
    }


class _Definitions:
    """Classes as they are met, each described once."""

    def __init__(self) -> None:
        self.all: dict[str, Schema] = {}

    def add(self, name: str, described: Schema) -> None:
        assert name not in self.all, name
        self.all[name] = described

    def tagged(self, name: str, kinds: Mapping[str, type[Any]]) -> None:
        self.add(name, {"anyOf": [self.of(cls) for cls in kinds.values()]})

    def of(self, hint: Any) -> Schema:
        if hint in _PLAIN:
            return _PLAIN[hint]
        origin, parts = get_origin(hint), get_args(hint)
        if hint == Block:
            return {"anyOf": [self.of(cls) for cls in BLOCKS.values()]}
        if origin in (Union, UnionType):
            return {"anyOf": [self.of(part) for part in parts]}
        if origin is Literal:
            return {"enum": list(parts)}
        if origin is tuple and parts[-1] is Ellipsis:
            return {"type": "array", "items": self.of(parts[0])}
        if origin is not None and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(parts[1])}
        if isinstance(hint, type) and issubclass(hint, Enum):
            return {"enum": [member.value for member in hint]}
        assert is_dataclass(hint), hint
        return self._reference(hint)

    def _reference(self, cls: Any) -> Schema:
        name = kind_of(cls)
        if name not in self.all:
            self.all[name] = {}  # so that a class that holds its own kind is met once
            self.all[name] = self._described(cls)
        return _ref(name)

    def _described(self, cls: Any) -> Schema:
        hints = get_type_hints(cls)
        needed = [
            field.name
            for field in fields(cls)
            if field.default is MISSING and field.default_factory is MISSING
        ]
        properties = {field.name: self.of(hints[field.name]) for field in fields(cls)}
        if cls in _KINDS:
            properties = {"kind": {"const": _KINDS[cls]}, **properties}
            needed = ["kind", *needed]
        described = _object(properties, needed)
        sentence = (cls.__doc__ or "").strip()
        return described if sentence == cls.__name__ else {"description": sentence, **described}


def _define_view(made: _Definitions) -> None:
    hints = get_type_hints(Message)
    row = {name: made.of(hints[name]) for name in hints if name != "content"}
    row["text"] = {"type": ["string", "null"]}
    made.add("row", {"description": _ROW, **_object(row, ["ts", "type"])})
    change = {**row, "drop": _NUMBER, "append": {"type": "string"}}
    made.add("row_change", {"description": _ROW_CHANGE, **_object(change, ["ts"])})
    parts: dict[str, Schema] = {
        "agent": _object(
            {
                "state": {"type": "string"},
                "current_ask": {"type": ["string", "null"]},
                "required_action": {"type": "string"},
            }
        ),
        "mode": {"type": "string"},
        "model": {"type": "string"},
        "automatic": {"type": ["boolean", "null"]},
        "intent": made.of(IntentSelected | None),
        "usage": made.of(Totals),
        "todos": made.of(tuple[Todo, ...]),
        "queue": {
            "type": "array",
            "items": _object(
                {
                    "message_id": {"type": "string"},
                    "text": {"type": "string"},
                    "images": made.of(tuple[Image, ...]),
                }
            ),
        },
        "open_ask": {"type": ["integer", "null"]},
        "closed": {"type": "boolean"},
        "silence": {"type": "number"},
    }
    lists: dict[str, Schema] = {
        "added": {"type": "array", "items": _ref("row")},
        "changed": {"type": "array", "items": _ref("row_change")},
        "removed": {"type": "array", "items": {"type": "integer"}},
    }
    shown = _object({name: parts[name] for name in PARTS}, [])
    made.add("view_change", _object({**lists, "parts": shown}, []))


def _define_messages(made: _Definitions) -> None:
    follow_id = {"follow_id": _NUMBER}
    initialize: dict[str, Schema] = {
        "protocol": {"const": PROTOCOL},
        "client": {"type": "object"},
        "token": {"type": "string"},
    }
    follow = {
        "task_id": {"type": "string"},
        "after": _NUMBER,
        "as": {"enum": [AS_EVENTS, AS_VIEW]},
    }
    change = {**follow_id, "seq": _NUMBER, "change": _ref("view_change")}
    ended = {**follow_id, "error": _ref("error")}
    messages = {
        "initialize_message": _call("initialize", _object(initialize, ["protocol"])),
        "send_message": _call("send", _ref("command")),
        "query_message": _call("query", _ref("query")),
        "follow_message": _call("follow", _object(follow, ["task_id"])),
        "unfollow_message": _call("unfollow", _object(follow_id)),
        "event_message": _notification("event", _object({**follow_id, "event": _ref("event")})),
        "view_message": _notification("view", _object(change)),
        "ended_message": _notification("ended", _object(ended, ["follow_id"])),
        "result_message": _message({"id": _REQUEST_ID, "result": {}}),
        "error_message": _message({"id": _REQUEST_ID, "error": _ref("error")}),
    }
    for name, described in messages.items():
        made.add(name, described)


def _answer_type(cls: type[Any]) -> Any:
    (asking,) = cls.__orig_bases__
    return get_args(asking)[0]


def _call(method: str, params: Schema) -> Schema:
    """With a number a request; `unfollow` and the like may also leave it out."""
    properties = {"id": _REQUEST_ID, "method": {"const": method}, "params": params}
    return _message(properties, ["method", "params"])


def _notification(method: str, params: Schema) -> Schema:
    described = _message({"method": {"const": method}, "params": params})
    return {**described, "not": {"required": ["id"]}}


def _message(properties: dict[str, Schema], needed: list[str] | None = None) -> Schema:
    needed = list(properties) if needed is None else needed
    return _object({"jsonrpc": {"const": "2.0"}, **properties}, ["jsonrpc", *needed])


def _object(properties: dict[str, Schema], needed: list[str] | None = None) -> Schema:
    needed = list(properties) if needed is None else needed
    required = {"required": needed} if needed else {}
    return {"type": "object", "properties": properties, **required}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


if __name__ == "__main__":
    import json

    print(json.dumps(schema(), indent=1))
