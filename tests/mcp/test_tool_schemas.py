"""Schemas of strangers: normalised for models, and never a reason to hang."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.mcp.use_mcp_tool import ANYTHING, normalised, problems

STRICT = {"type": "object", "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        ({}, STRICT),
        ({"$schema": "https://x", "type": "object"}, STRICT),
        (
            {"type": "object", "additionalProperties": True},
            {**STRICT, "additionalProperties": True},
        ),
        (
            {"properties": {"a": {"type": ["string", "null"], "format": "uri"}}},
            {**STRICT, "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
        ),
        (
            {"properties": {"a": {"type": "string", "format": "date"}}},
            {**STRICT, "properties": {"a": {"type": "string", "format": "date"}}},
        ),
        (
            {"properties": {"a": {"type": "array", "items": {"type": "object"}}}},
            {**STRICT, "properties": {"a": {"type": "array", "items": STRICT}}},
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "object", "required": ["a"]}]},
            {**STRICT, "required": ["a"]},
        ),
    ],
)
def test_schemas_are_converted_to_the_provider_dialect(
    schema: dict[str, Any], plain: dict[str, Any]
):
    assert normalised(schema) == plain


def nested(depth: int) -> dict[str, Any]:
    return {"properties": {"a": nested(depth - 1)}} if depth else {}


@pytest.mark.parametrize(
    "schema", [nested(200), {"description": "x" * 70_000}], ids=["deep", "large"]
)
def test_an_oversized_schema_becomes_a_plain_object(schema: dict[str, Any]):
    assert normalised(schema) == ANYTHING


SCHEMA = {
    "properties": {"a": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"a": "x"}, []),
        ({"a": "x", "n": 3.0}, []),
        ({}, ["a is missing."]),
        ({"a": 1, "b": 2}, ["a must be of type string.", "Unknown argument: 'b'."]),
        ({"a": "x", "n": True}, ["n must be of type integer."]),
    ],
)
def test_simple_argument_errors_are_found_before_the_call(
    arguments: dict[str, Any], wrong: list[str]
):
    assert list(problems(arguments, SCHEMA)) == wrong


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)
words = st.sampled_from(["type", "properties", "required", "anyOf", "items", "format", "a"])


@given(st.dictionaries(words, json_values), st.dictionaries(words, json_values))
def test_any_schema_can_be_normalised(schema: dict[str, Any], arguments: dict[str, Any]):
    assert normalised(schema)["type"] == "object"
    list(problems(arguments, schema))
