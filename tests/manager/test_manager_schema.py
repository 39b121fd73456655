"""The schema of the manager's protocol matches its messages."""

import json
import os
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec import Struct
from msgspec.structs import fields

from rookery.manager.handlers.router import reply_to_json, request_to_json
from rookery.manager.requests import REQUESTS
from rookery.manager.schema import schema
from rookery.manager.shown_rows import InboxRow, Overview, SessionRow
from rookery.protocol.codec import kind_of
from rookery.protocol.schema import answer_type

DOCUMENT = Path(__file__).parents[2] / "docs" / "schemas" / "manager.schema.json"
SCHEMA = schema()
EXAMPLES = 50 if os.environ.get("ROOKERY_TORTURE") else 6
"""Of each of more than a hundred."""


_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=12),
    int: st.integers(0, 2**53),
    float: st.floats(0, 1e9),
    bool: st.booleans(),
    NoneType: st.none(),
}


def some(hint: Any) -> st.SearchStrategy[Any]:
    """A strategy for the values of a field of this type."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    parts = get_args(hint)
    match get_origin(hint):
        case origin if origin in (Union, UnionType):
            return st.one_of(*map(some, parts))
        case origin if origin is Literal:
            return st.sampled_from(parts)
        case origin if origin is tuple:
            return st.lists(some(parts[0]), max_size=3).map(tuple)
    if issubclass(hint, Enum):
        return st.sampled_from(hint)
    assert issubclass(hint, Struct), hint
    hints = get_type_hints(hint)
    return st.builds(hint, **{field.name: some(hints[field.name]) for field in fields(hint)})


@cache
def described(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


def check(name: str, said: object) -> None:
    described(name).validate(said)


def refused(name: str, said: object) -> bool:
    return not described(name).is_valid(said)


def test_the_schema_document_is_up_to_date():
    """If not: `python -m rookery.manager.schema > docs/schemas/manager.schema.json`."""
    assert json.loads(DOCUMENT.read_text(encoding="utf-8")) == SCHEMA


@pytest.mark.parametrize("cls", REQUESTS, ids=kind_of)
def test_every_request_and_its_answer_match_the_schema(cls: type[Any]):
    @settings(max_examples=EXAMPLES, deadline=None)
    @given(some(cls), some(answer_type(cls)))
    def holds(request: Any, answer: Any) -> None:
        said = json.loads(request_to_json(request))
        check(kind_of(cls), said)
        check("do_message", {"jsonrpc": "2.0", "id": 1, "method": "do", "params": said})
        assert refused(kind_of(cls), {**said, "kind": "another"})
        check(f"answer_to_{kind_of(cls)}", json.loads(reply_to_json(answer)))

    holds()


@settings(max_examples=25, deadline=None)
@given(some(SessionRow), some(InboxRow), some(Overview))
def test_list_messages_match_the_schema(row: SessionRow, asked: InboxRow, overview: Overview):
    news = {"overview": overview, "rows": (row,), "inbox": (asked,), "order": (row.session_id,)}
    reported = json.loads(reply_to_json({"follow_id": 1, **news}))
    check("list_message", {"jsonrpc": "2.0", "method": "list", "params": reported})
    partly = {**reported, "rows": [{"session_id": "a"}]}
    assert refused("list_message", {"jsonrpc": "2.0", "method": "list", "params": partly})


def test_session_views_match_the_schema():
    change = {
        "added": [{"ts": 1, "type": "say", "say": "text", "html": ["<p>a</p>"], "html_upto": 1}],
        "changed": [{"ts": 1, "append": "b", "html_add": ["<p>b</p>"]}],
        "parts": {"open_ask": None, "mode": "code"},
    }
    reported = {"follow_id": 1, "seq": 3, "earlier": 0, "change": change}
    check("view_message", {"jsonrpc": "2.0", "method": "view", "params": reported})
    changed = [{"append": "without a ts"}]
    assert refused("session_change", {**reported, "change": {"changed": changed}})
