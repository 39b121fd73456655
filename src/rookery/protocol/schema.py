"""The protocol as a JSON Schema, generated from its classes.

It describes what this version sends. Readers accept unknown fields and kinds, because later
versions may add some.
"""

from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from rookery.core.blocks import Block, Image
from rookery.core.facts import IntentSelected, Todo
from rookery.core.folds.run_tallies import Totals
from rookery.core.folds.view import PARTS
from rookery.core.message import Message
from rookery.core.modes import Level
from rookery.protocol.codec import BLOCKS, COMMANDS, FACTS, PROTOCOL, kind_of, queries
from rookery.protocol.server import AS_EVENTS, AS_VIEW

Schema: TypeAlias = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_KINDS = {
    cls: kind for table in (BLOCKS, FACTS, COMMANDS, queries()) for kind, cls in table.items()
}
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
NUMBER: Schema = {"type": "integer", "minimum": 0}
_REQUEST_ID: Schema = {"type": ["integer", "number", "string", "null"]}


def schema() -> Schema:
    made = Definitions()
    made.tagged("command", COMMANDS)
    made.tagged("query", queries())
    made.tagged("fact", FACTS)
    place = object_of({"seq": NUMBER, "sub": NUMBER, "ts": NUMBER})
    made.add("event", {"description": _EVENT, "allOf": [place, ref("fact")]})
    for kind, cls in queries().items():
        made.add(f"answer_to_{kind}", made.of(answer_type(cls)))
    define_view(made)
    _define_messages(made)
    return protocol_document(f"Protocol {PROTOCOL}", made)


def protocol_document(title: str, made: "Definitions") -> Schema:
    messages = [ref(name) for name in made.all if name.endswith("_message")]
    return document(title, messages, made.all)


def document(title: str, kinds: list[Schema], definitions: Mapping[str, Schema]) -> Schema:
    """A schema in which every line is one of several kinds."""
    defined = {"$defs": dict(definitions)} if definitions else {}
    return {"$schema": DIALECT, "title": title, "anyOf": kinds, **defined}


class Definitions:
    """Classes in the order they are found, each described once."""

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
        assert issubclass(hint, Struct), hint
        return self._reference(hint)

    def _reference(self, cls: Any) -> Schema:
        name = kind_of(cls)
        if name not in self.all:
            self.all[name] = {}  # so that a class that holds its own kind is met once
            self.all[name] = self._described(cls)
        return ref(name)

    def _described(self, cls: Any) -> Schema:
        hints = get_type_hints(cls)
        needed = [
            field.name
            for field in fields(cls)
            if field.default is NODEFAULT and field.default_factory is NODEFAULT
        ]
        properties = {field.name: self.of(hints[field.name]) for field in fields(cls)}
        if cls in _KINDS:
            properties = {"kind": {"const": _KINDS[cls]}, **properties}
            needed = ["kind", *needed]
        described = object_of(properties, needed)
        sentence = (cls.__doc__ or "").strip()
        return described if not sentence else {"description": sentence, **described}


def define_view(made: Definitions) -> None:
    hints = get_type_hints(Message)
    row = {name: made.of(hints[name]) for name in hints if name != "content"}
    row["text"] = {"type": ["string", "null"]}
    made.add("row", {"description": _ROW, **object_of(row, ["ts", "type"])})
    change = {**row, "drop": NUMBER, "append": {"type": "string"}}
    made.add("row_change", {"description": _ROW_CHANGE, **object_of(change, ["ts"])})
    parts: dict[str, Schema] = {
        "agent": object_of(
            {
                "state": {"type": "string"},
                "current_ask": {"type": ["string", "null"]},
                "required_action": {"type": "string"},
            }
        ),
        "mode": {"type": "string"},
        "model": {"type": "string"},
        "automatic": {"type": ["boolean", "null"]},
        "level": made.of(Level | None),
        "intent": made.of(IntentSelected | None),
        "usage": made.of(Totals),
        "todos": made.of(tuple[Todo, ...]),
        "queue": {
            "type": "array",
            "items": object_of(
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
        "waiting_for": {"type": "string"},
    }
    lists: dict[str, Schema] = {
        "added": {"type": "array", "items": ref("row")},
        "changed": {"type": "array", "items": ref("row_change")},
        "removed": {"type": "array", "items": {"type": "integer"}},
    }
    shown = object_of({name: parts[name] for name in PARTS}, [])
    made.add("view_change", object_of({**lists, "parts": shown}, []))


def _define_messages(made: Definitions) -> None:
    follow_id = {"follow_id": NUMBER}
    follow = {
        "task_id": {"type": "string"},
        "after": NUMBER,
        "as": {"enum": [AS_EVENTS, AS_VIEW]},
    }
    change = {**follow_id, "seq": NUMBER, "change": ref("view_change")}
    messages = {
        "initialize_message": initialize({"client": {"type": "object"}}),
        "send_message": call("send", ref("command")),
        "query_message": call("query", ref("query")),
        "follow_message": call("follow", object_of(follow, ["task_id"])),
        "event_message": notification("event", object_of({**follow_id, "event": ref("event")})),
        "view_message": notification("view", object_of(change)),
    }
    define_messages(made, messages)


def define_messages(made: Definitions, messages: Mapping[str, Schema]) -> None:
    """The messages of one server, and those that all servers have."""
    follow_id = {"follow_id": NUMBER}
    made.add("error", object_of({"code": {"type": "integer"}, "message": {"type": "string"}}))
    ended = object_of({**follow_id, "error": ref("error")}, ["follow_id"])
    common = {
        "unfollow_message": call("unfollow", object_of(follow_id)),
        "ended_message": notification("ended", ended),
        "result_message": message({"id": _REQUEST_ID, "result": {}}),
        "error_message": message({"id": _REQUEST_ID, "error": ref("error")}),
    }
    for name, described in {**messages, **common}.items():
        made.add(name, described)


def initialize(more: Mapping[str, Schema]) -> Schema:
    token: Schema = {"token": {"type": "string"}}
    return call(
        "initialize", object_of({"protocol": {"const": PROTOCOL}, **more, **token}, ["protocol"])
    )


def answer_type(cls: type[Any]) -> Any:
    (asking,) = cls.__orig_bases__
    return get_args(asking)[0]


def call(method: str, params: Schema) -> Schema:
    """A request has an id; `unfollow` and similar may leave it out."""
    properties = {"id": _REQUEST_ID, "method": {"const": method}, "params": params}
    return message(properties, ["method", "params"])


def notification(method: str, params: Schema) -> Schema:
    described = message({"method": {"const": method}, "params": params})
    return {**described, "not": {"required": ["id"]}}


def message(properties: dict[str, Schema], needed: list[str] | None = None) -> Schema:
    needed = list(properties) if needed is None else needed
    return object_of({"jsonrpc": {"const": "2.0"}, **properties}, ["jsonrpc", *needed])


def object_of(properties: dict[str, Schema], needed: list[str] | None = None) -> Schema:
    needed = list(properties) if needed is None else needed
    required = {"required": needed} if needed else {}
    return {"type": "object", "properties": properties, **required}


def ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


if __name__ == "__main__":
    import json

    print(json.dumps(schema(), indent=1))
