"""Forms of servers: which answers fit them, and how they are asked."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from rookery.core.facts import Asked, OutputStreamed
from rookery.mcp.elicitation import (
    DECLINE,
    SKIP,
    fields_of,
    offered_answers,
    question_about,
    value_of,
)
from support.asked_user import AskedBench
from support.npm_servers import npm_server

MODERN = Path(__file__).parents[1] / "support" / "modern_mcp_server.py"
pytestmark = pytest.mark.anyio


def field(required: bool = True, **schema: Any):
    names = ["f"] if required else []
    [found] = fields_of({"type": "object", "properties": {"f": schema}, "required": names})
    return found


TITLED = [{"const": "a", "title": "Apple"}, {"const": "b", "title": "Bean"}]


@pytest.mark.parametrize(
    ("schema", "answer", "value"),
    [
        ({"type": "string"}, " words ", "words"),
        ({"type": "string", "maxLength": 3}, "four", None),
        ({"type": "string", "minLength": 3}, "no", None),
        ({"type": "string", "format": "email"}, "a@b.example", "a@b.example"),
        ({"type": "string", "format": "email"}, "nobody", None),
        ({"type": "string", "format": "uri"}, "https://a.example", "https://a.example"),
        ({"type": "string", "format": "uri"}, "words", None),
        ({"type": "string", "format": "date"}, "2026-02-28", "2026-02-28"),
        ({"type": "string", "format": "date"}, "2026-02-30", None),
        ({"type": "string", "format": "date-time"}, "2026-02-28T10:00:00Z", "2026-02-28T10:00:00Z"),
        ({"type": "string", "format": "date-time"}, "2026-02-28", None),
        ({"type": "string", "pattern": "(a+)+$"}, "a" * 60 + "!", "a" * 60 + "!"),
        ({"type": "string", "enum": ["x", "y"]}, "X", "x"),
        ({"type": "string", "enum": ["x", "y"]}, "z", None),
        ({"type": "string", "enum": ["x", "y"], "enumNames": ["Ex", "Why"]}, "why", "y"),
        ({"type": "string", "oneOf": TITLED}, "Bean", "b"),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "number"}, "nan", None),
        ({"type": "number", "maximum": 2}, "3", None),
        ({"type": "integer"}, "12", 12),
        ({"type": "integer"}, "1.5", None),
        ({"type": "integer", "minimum": 1}, "0", None),
        ({"type": "boolean"}, "yes", True),
        ({"type": "boolean"}, "No", False),
        ({"type": "boolean"}, "maybe", None),
        ({"type": "array", "items": {"enum": ["x", "y"]}}, "x, y, x", ["x", "y"]),
        ({"type": "array", "items": {"anyOf": TITLED}}, "Apple", ["a"]),
        ({"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 1}, "x,y", None),
        ({"type": "array", "items": {"enum": ["x", "y"]}}, "z", None),
    ],
)
def test_an_answer_becomes_a_value_of_the_schema(schema: dict[str, Any], answer: str, value: Any):
    if value is None:
        with pytest.raises(ValueError, match=r"\.$"):
            value_of(field(**schema), answer)
        return
    found = value_of(field(**schema), answer)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "properties",
    [
        {"a": {"type": "object"}},
        {"a": {"type": "array", "items": {"type": "string"}}},
        {"a": "string"},
        {f"f{n}": {"type": "string"} for n in range(21)},
        {"a": {"type": "string", "description": "x" * 40_000}},
        {"a": {"type": "string", "enum": ["x"] * 51}},
        ["a"],
        {"a": {"type": "number", "minimum": math.inf, "default": object()}},
    ],
)
def test_a_form_that_cannot_be_shown_is_an_error(properties: Any):
    with pytest.raises(ValueError, match="form"):
        fields_of({"type": "object", "properties": properties})


def test_the_question_says_what_is_wanted():
    age = field(type="integer", title="Age", description="In years", minimum=0, maximum=150)
    assert question_about(age, "1 of 2. ") == ("1 of 2. Age: In years (a whole number, 0 to 150)")
    assert offered_answers(age) == [DECLINE]
    colour = field(required=False, type="string", enum=["red"], title="\x1b[2JColour")
    assert question_about(colour, "") == "<U+001B>[2JColour (one of the choices, optional)"
    assert offered_answers(colour) == ["red", SKIP, DECLINE]
    assert offered_answers(field(type="boolean", default=True)) == ["yes", "no", DECLINE]


@pytest.fixture
def asked(tmp_path: Path) -> AskedBench:
    return AskedBench(tmp_path)


@pytest.mark.parametrize("kind", ["stdio"])
async def test_the_reference_server_gets_the_form_as_the_user_filled_it_in(
    asked: AskedBench, kind: str
):
    asked.configure(
        asking={"command": npm_server("mcp-server-everything"), "args": [kind], "timeout": 60}
    )
    answers = ["Ada", "maybe", "yes"]
    said = await asked.call("trigger-elicitation-request", *answers, *[SKIP] * 20)
    assert "Ada" in said
    assert asked.asked[0].startswith("The MCP server asking asks: Please provide inputs")
    assert asked.asked[2].startswith("Answer yes or no.")
    assert {each["title"] for each in asked.questions} == {"The MCP server asking asks"}


async def test_a_server_of_the_newest_protocol_can_ask_too(asked: AskedBench):
    asked.configure(asking={"command": sys.executable, "args": [str(MODERN)]})
    assert await asked.call("greet", "Ada") == "Hello Ada"
    assert await asked.call("greet", DECLINE) == "decline"


async def test_an_address_is_shown_and_never_opened(asked: AskedBench):
    asked.configure(asking={"command": npm_server("mcp-server-everything"), "args": ["stdio"]})
    page = "https://pay.example/form?id=7"
    said = await asked.call("trigger-url-elicitation", "yes", url=page, message="Pay here")
    [question] = asked.questions
    assert question["title"] == "The MCP server asking asks you to open pay.example. Agree?"
    assert question["notes"][-1] == f"Open it yourself, if you trust it: {page}"
    assert "accept" in said.lower()


@pytest.mark.parametrize("answer", [DECLINE, ""])
async def test_a_user_who_declines_once_is_not_asked_again_in_this_call(
    asked: AskedBench, answer: str
):
    asked.configure_asking()
    assert json.loads(await asked.call("often", answer)) == {"decline": 1000}
    assert len(asked.questions) == 1


async def test_a_server_may_ask_ten_times_in_one_call(asked: AskedBench):
    asked.configure_asking()
    said = await asked.call("often", *["me"] * 1000)
    assert json.loads(said) == {"accept": 10, "decline": 990}
    assert asked.notes == [
        "The MCP server asking asked more than 10 times, so the rest is declined."
    ]


async def test_non_interactive_runs_decline_at_once(asked: AskedBench):
    asked.configure_asking()
    asked.attended = False
    assert json.loads(await asked.call("often")) == {"decline": 1000}
    assert asked.questions == []


async def test_an_automatic_answer_counts_as_none(asked: AskedBench):
    asked.configure_asking()
    asked.by = "policy"
    assert json.loads(await asked.call("often", "me")) == {"decline": 1000}


@pytest.mark.parametrize("tool", ["huge", "unshowable"])
async def test_a_form_that_is_too_large_or_nested_is_declined_with_a_note(
    asked: AskedBench, tool: str
):
    asked.configure_asking()
    assert await asked.call(tool) == "decline"
    assert len(asked.notes) == 1
    assert "cannot be shown" in asked.notes[0]
    assert not any(isinstance(fact, Asked | OutputStreamed) for fact in asked.facts)
