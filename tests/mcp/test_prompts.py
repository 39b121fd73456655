"""Prompts as slash commands: what is typed, and what the server is given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.errors import BadArguments
from rookery.mcp.catalogue import (
    PromptArgument,
    PromptCommand,
    PromptOffer,
    arguments_for,
    find_command,
)

WEATHER = PromptOffer(
    name="weather",
    arguments=(PromptArgument(name="city", required=True), PromptArgument(name="units")),
)
PLAIN = PromptOffer(name="plain")


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("Oslo", {"city": "Oslo"}),
        ("'New York' metric", {"city": "New York", "units": "metric"}),
        ("units=metric Oslo", {"city": "Oslo", "units": "metric"}),
        ("city=Oslo", {"city": "Oslo"}),
        ("Oslo a b c", {"city": "Oslo", "units": "a b c"}),
        ("other=x", {"city": "other=x"}),
        ("it's", {"city": "it's"}),
    ],
)
def test_typed_words_become_prompt_arguments(words: str, arguments: dict[str, str]):
    assert arguments_for(WEATHER, words) == arguments


def test_a_missing_prompt_argument_is_named():
    with pytest.raises(BadArguments, match="The prompt weather needs city"):
        arguments_for(WEATHER, "units=metric")


@given(st.text())
def test_a_prompt_without_arguments_ignores_any_words(words: str):
    assert arguments_for(PLAIN, words) == {}


def test_a_command_is_found_by_its_name():
    commands = [PromptCommand("my server", WEATHER), PromptCommand("other", PLAIN)]
    assert find_command("/mcp:other:plain", commands) == commands[1]
    assert find_command("mcp:my_server:weather", commands) == commands[0]
    with pytest.raises(BadArguments, match=r"Known: /mcp:my_server:weather, /mcp:other:plain"):
        find_command("/mcp:other:none", commands)
